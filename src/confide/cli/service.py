"""confide service: set up and maintain the folder of a service."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.serve import Database, Keys, Marks
from confide.cli.terminal import one_line

if TYPE_CHECKING:
    from confide.service.core.folder import ServiceFolder
    from confide.service.core.verification import Found
    from confide.service.store.interface import ServiceStore

app = typer.Typer(name="service", help="Set up and maintain a service.", no_args_is_help=True)

Place = Annotated[Path, typer.Argument(help="Folder of the service.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]


@app.command()
def init(folder: Place, keys: Keys = None, marks: Marks = None, database: Database = None) -> None:
    """Create a service without runs: its database and its keys. Existing files stay, and what is missing is created."""
    place = _folder(folder, keys, marks, database)
    if not place.init():
        typer.echo(f"{folder} has a service already, and nothing is missing")
        return
    typer.echo(f"made {folder}: a database, and keys in {place.keys.folder}")
    typer.echo(
        "keep the keys out of backups of the database: with both, people can be identified, and so can what they did"
    )


@app.command("keys")
def api_keys(
    folder: Place,
    new: Annotated[
        str | None,
        typer.Option(
            help="Create an API key for a role: device, operator, admin or auditor.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[str, typer.Option(help="What the new key is for.")] = "",
    run: Annotated[
        str | None,
        typer.Option(
            help="The only run that the new key may be used for.", show_default="all runs"
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            help="When the new key expires: a number of days such as 90d, or a date.",
            show_default="never",
        ),
    ] = None,
    revoke: Annotated[
        str | None, typer.Option(help="Revoke the API key of this id.", show_default=False)
    ] = None,
    keys: Keys = None,
) -> None:
    """List API keys and signing keys, create an API key, or revoke one. A running service notices within seconds."""
    import time

    from confide.errors import InvalidParameter
    from confide.service.web.access import key_status, new_api_key, revoke_api_key, shown_time

    if new is None and (run is not None or expires is not None):
        raise InvalidParameter("--run and --expires are about a new key: give its role with --new")

    store = _folder(folder, keys, None).store()
    try:
        if new is not None:
            typer.echo(new_api_key(store, new, label, "command line", run, expires))
        if revoke is not None:
            revoke_api_key(store, revoke, "command line")
            typer.echo(f"revoked {revoke}")
        if new is None and revoke is None:
            for key in store.api_keys():
                scope = "all runs" if key.run is None else f"run {key.run}"
                until = "" if key.expires is None else f", expires {shown_time(key.expires)}"
                status = key_status(key, time.time())
                typer.echo(
                    f"API key {key.id}  {key.role:<9} {status:<7}  {scope}{until}  {key.label}"
                )
            for signing in store.signing_keys():
                typer.echo(
                    f"signing key {signing.id}  {'retired' if signing.retired else 'in use '}  {signing.public.hex()}"
                )
    finally:
        store.close()


@app.command()
def rotate(
    folder: Place,
    vault: Annotated[
        bool,
        typer.Option(
            "--vault",
            help="Replace the key of the vault instead, and seal everything again with the new one.",
        ),
    ] = False,
    keys: Keys = None,
) -> None:
    """Create a new signing key, endorsed by the current one. A service that runs on SQLite must be stopped first, or asked over HTTP."""
    place = _folder(folder, keys, None)
    if not vault:
        typer.echo(f"releases are signed by {place.rotate()} from now on")
        return
    count = place.replace_vault_key()
    typer.echo(
        f"sealed {count} {'run' if count == 1 else 'runs'} again, with a new {place.keys.folder / 'vault.key'}"
    )
    typer.echo(
        "the old key is deleted: copies of the database from before can no longer be opened, also not by you"
    )


@app.command()
def backup(
    folder: Place, out: Annotated[Path, typer.Argument(help="A new file.", show_default=False)]
) -> None:
    """Copy the database while the service runs. PRIVATE: keep the copy and the folder of the keys apart."""
    from datetime import UTC, datetime

    from confide.errors import ConfideError, InvalidParameter

    place = _folder(folder, None, None)
    if place.shared:
        raise InvalidParameter(
            "a service on PostgreSQL is backed up with pg_dump: see docs/how-to/operate_a_service.md for what a backup reveals"
        )
    store = place.store()

    def said(action: str) -> None:
        with store.transaction() as tx:
            tx.audit(
                datetime.now(UTC).isoformat(timespec="seconds"), "command line", action, out.name
            )

    try:
        said("backup")
        try:
            store.backup(str(out))
        except (OSError, ConfideError):
            said("backup failed")
            raise
    finally:
        store.close()
    typer.echo(
        f"wrote {out}. PRIVATE: keep it apart from the folder of the keys, which opens what is sealed in it"
    )
    typer.echo(
        "a backup cannot be put back after a later release was shown: it would be noised twice, and is refused"
    )


@app.command()
def verify(folder: Place, as_json: AsJson = False, keys: Keys = None, marks: Marks = None) -> None:
    """Check signatures, chains, certificates, marks, and that every person was counted once. The exit code is 1 if a check fails."""
    from confide.service.core.verification import verify_store

    place = _folder(folder, keys, marks)
    store = place.store()
    try:
        found = list(verify_store(store, place.keys, place.marks))
    finally:
        store.close()
    _say(found, as_json)


@app.command()
def finish(
    folder: Place, run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)]
) -> None:
    """Finish a run that cannot be served any more, because a backup was put back. A service on SQLite must be stopped first."""
    _folder(folder, None, None).finish(run)
    typer.echo(f"finished {run}: a new run needs another name")


@app.command()
def mark(folder: Place, marks: Marks = None) -> None:
    """Write marks that are lost again. Only if no backup was put back: whether a later release was shown is not checked any more."""
    made = _folder(folder, None, marks).mark()
    typer.echo(f"marked the newest releases of {', '.join(made)}" if made else "no mark is missing")


@app.command()
def check(
    url: Annotated[
        str,
        typer.Argument(
            help="Address of the service, such as https://learn.example.org.", show_default=False
        ),
    ],
    run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    key: Annotated[
        str | None,
        typer.Option(
            help="The run's signing key, obtained through another channel.",
            show_default="the manifest's own",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a service from outside, as anybody can: signatures, the chain of all releases, and the certificate."""
    from confide.service.core.public_check import check_public

    _say(list(check_public(url, run, key=key)), as_json)


def _say(found: "list[Found]", as_json: bool) -> None:
    if as_json:
        typer.echo(
            json.dumps(
                [{"about": each.about, "holds": each.holds, "says": each.says} for each in found],
                indent=2,
            )
        )
    else:
        for each in found:
            # One line each: what a service says must not look like a line of its own.
            said = one_line(f"{each.about}: {each.says}")
            typer.echo(f"{'holds ' if each.holds else 'FAILS '} {said}")
    if not all(each.holds for each in found):
        raise typer.Exit(1)


@app.command()
def status(folder: Place, as_json: AsJson = False, keys: Keys = None, marks: Marks = None) -> None:
    """Show the runs of a service, and which of them cannot be served. For operators: with deadlines these numbers are PRIVATE."""
    place = _folder(folder, keys, marks)
    store = place.store()
    try:
        facts = [_facts(name, store, place) for name in store.runs()]
    finally:
        store.close()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for each in facts:
        if each["cause"] is None:
            users = f"{each['open_users']} users in the open batch"
            typer.echo(f"{each['run']}: {each['status']}, release {each['generation']}, {users}")
        else:
            typer.echo(f"{each['run']}: NOT READY: {each['cause']}")
    if not facts:
        typer.echo("no runs yet: confide serve RUN.toml makes one")


def _facts(name: str, store: "ServiceStore", place: "ServiceFolder") -> dict[str, Any]:
    """Where a run is, and why it cannot be served (`cause`), if so. It is read and planned as the service does it."""
    from confide.errors import ConfideError
    from confide.service.core.live import read_run

    facts: dict[str, Any] = {"run": name, "cause": None}
    try:
        head = store.head(name)
        facts |= {"status": head.status, "generation": head.generation, "open_users": head.users}
        read_run(name, store, place.keys, place.marks, must_be_marked=True).check_round(store)
    except ConfideError as error:
        facts["cause"] = str(error)
    except Exception as error:
        facts["cause"] = f"its record is damaged ({type(error).__name__})"
    return facts


def _folder(
    folder: Path, keys: Path | None, marks: Path | None, database: str | None = None
) -> "ServiceFolder":
    from confide.service.core.folder import ServiceFolder

    return ServiceFolder(folder, keys=keys, marks=marks, address=database)
