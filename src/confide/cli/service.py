"""confide service: set up and maintain the folder of a service."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from confide.cli.serve import Database, Keys, Marks

if TYPE_CHECKING:
    from confide.service.folder import ServiceFolder
    from confide.service.verification import Found

app = typer.Typer(name="service", help="Set up and maintain a service.", no_args_is_help=True)

Place = Annotated[Path, typer.Argument(help="Folder of the service.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]


@app.command()
def init(folder: Place, keys: Keys = None, marks: Marks = None, database: Database = None) -> None:
    """Create a service without runs: its database and its keys. Existing files are not replaced."""
    made = _folder(folder, keys, marks, database)
    made.init()
    typer.echo(f"made {folder}: a database, and keys in {made.keys.folder}")
    typer.echo("keep the keys out of backups of the database: with both, people can be identified by name")


@app.command("keys")
def api_keys(
    folder: Place,
    new: Annotated[
        str | None, typer.Option(help="Create an API key for a role: device, operator, admin or auditor.", show_default=False)
    ] = None,
    label: Annotated[str, typer.Option(help="What the new key is for.")] = "",
    revoke: Annotated[str | None, typer.Option(help="Revoke the API key of this id.", show_default=False)] = None,
    keys: Keys = None,
) -> None:
    """List API keys and signing keys, create an API key, or revoke one. A running service notices within seconds."""
    from confide.service.access import new_api_key, revoke_api_key

    store = _folder(folder, keys, None).store()
    try:
        if new is not None:
            typer.echo(new_api_key(store, new, label, "command line"))
        if revoke is not None:
            revoke_api_key(store, revoke, "command line")
            typer.echo(f"revoked {revoke}")
        if new is None and revoke is None:
            for key in store.api_keys():
                typer.echo(f"API key {key.id}  {key.role:<9} {'revoked' if key.revoked else 'in use '}  {key.label}")
            for signing in store.signing_keys():
                typer.echo(f"signing key {signing.id}  {'retired' if signing.retired else 'in use '}  {signing.public.hex()}")
    finally:
        store.close()


@app.command()
def rotate(folder: Place, keys: Keys = None) -> None:
    """Create a new signing key, endorsed by the current one. A service that runs on SQLite must be stopped first, or asked over HTTP."""
    typer.echo(f"releases are signed by {_folder(folder, keys, None).rotate()} from now on")


@app.command()
def backup(folder: Place, out: Annotated[Path, typer.Argument(help="A new file.", show_default=False)]) -> None:
    """Copy the database while the service runs. PRIVATE: the copy contains the exact sum of the open batch."""
    from datetime import UTC, datetime

    from confide.errors import ConfideError, InvalidParameter

    place = _folder(folder, None, None)
    if place.shared:
        raise InvalidParameter("a service on PostgreSQL is backed up with pg_dump: see docs/service.md for what a backup reveals")
    store = place.store()

    def said(action: str) -> None:
        with store.transaction() as tx:
            tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), "command line", action, out.name)

    try:
        said("backup")
        try:
            store.backup(str(out))
        except (OSError, ConfideError):
            said("backup failed")
            raise
    finally:
        store.close()
    typer.echo(f"wrote {out}. PRIVATE: the exact open sum is in it, and two backups of one batch differ by a few people")
    typer.echo("a backup cannot be put back after a later release was shown: it would be noised twice, and is refused")


@app.command()
def verify(folder: Place, as_json: AsJson = False, keys: Keys = None, marks: Marks = None) -> None:
    """Check signatures, chains, certificates, marks, and that every person was counted once. The exit code is 1 if a check fails."""
    from confide.service.verification import verify_store

    place = _folder(folder, keys, marks)
    store = place.store()
    try:
        found = list(verify_store(store, place.marks))
    finally:
        store.close()
    _say(found, as_json)


@app.command()
def finish(folder: Place, run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)]) -> None:
    """Finish a run of a service that does not start, because a backup was put back: the others are served without it."""
    _folder(folder, None, None).finish(run)
    typer.echo(f"finished {run}: a new run needs another name")


@app.command()
def mark(folder: Place, marks: Marks = None) -> None:
    """Write marks that are lost again. Only if no backup was put back: whether a later release was shown is not checked any more."""
    made = _folder(folder, None, marks).mark()
    typer.echo(f"marked the newest releases of {', '.join(made)}" if made else "no mark is missing")


@app.command()
def check(
    url: Annotated[str, typer.Argument(help="Address of the service, such as https://learn.example.org.", show_default=False)],
    run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    key: Annotated[
        str | None,
        typer.Option(help="The run's signing key, obtained through another channel.", show_default="the manifest's own"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a service from outside, as anybody can: signatures, the chain of all releases, and the certificate."""
    from confide.service.public_check import check_public

    _say(list(check_public(url, run, key=key)), as_json)


def _say(found: "list[Found]", as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{"about": each.about, "holds": each.holds, "says": each.says} for each in found], indent=2))
    else:
        for each in found:
            typer.echo(f"{'holds ' if each.holds else 'FAILS '} {each.about}: {each.says}")
    if not all(each.holds for each in found):
        raise typer.Exit(1)


@app.command()
def status(folder: Place, as_json: AsJson = False) -> None:
    """Show the runs of a service. For operators: in a run with deadlines these numbers are PRIVATE."""
    store = _folder(folder, None, None).store()
    try:
        rows = [row for name in store.runs() if (row := store.run(name)) is not None]
        facts = [
            {"run": row.name, "status": row.status, "generation": row.generation, "open_users": store.open_sum(row.name).users}
            for row in rows
        ]
    finally:
        store.close()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for each in facts:
        typer.echo(f"{each['run']}: {each['status']}, release {each['generation']}, {each['open_users']} users in the open batch")
    if not facts:
        typer.echo("no runs yet: confide serve RUN.toml makes one")


def _folder(folder: Path, keys: Path | None, marks: Path | None, database: str | None = None) -> "ServiceFolder":
    from confide.service.folder import ServiceFolder

    return ServiceFolder(folder, keys=keys, marks=marks, address=database)
