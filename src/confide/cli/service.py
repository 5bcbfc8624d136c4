"""confide service: set up and maintain the folder of a service."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson
from confide.cli.serve import Database, Keys, Marks
from confide.cli.terminal import one_line

if TYPE_CHECKING:
    from confide.service.core.folder import ServiceFolder
    from confide.service.store.interface import ServiceStore

_KEY_PANEL = "A new key"

Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="Folder of the service.", show_default=False),
]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Name of the run.", show_default=False)]


def init(folder: Folder, keys: Keys = None, marks: Marks = None, database: Database = None) -> None:
    """Create a service without runs: its database and its keys.

    Existing files stay, and missing files are created.

    Example:
        confide service init study
    """
    service = _folder(folder, keys, marks, database)
    if not service.init():
        typer.echo(f"{folder} has a service already, and nothing is missing")
        return
    typer.echo(f"made {folder}: a database, and keys in {service.keys.folder}")
    typer.echo(
        "keep the keys out of backups of the database: "
        "with both, people can be identified, and so can what they did"
    )


def api_keys(
    folder: Folder,
    new: Annotated[
        str | None,
        typer.Option(
            metavar="device|operator|admin|auditor",
            help="Create an API key for this role.",
            show_default=False,
            rich_help_panel=_KEY_PANEL,
        ),
    ] = None,
    label: Annotated[
        str,
        typer.Option(metavar="WORDS", help="What the new key is for.", rich_help_panel=_KEY_PANEL),
    ] = "",
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="The only run that the new key may be used for.",
            show_default="all runs",
            rich_help_panel=_KEY_PANEL,
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="When the new key expires: a number of days such as 90d, or a date.",
            show_default="never",
            rich_help_panel=_KEY_PANEL,
        ),
    ] = None,
    revoke: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Revoke the API key of this id.", show_default=False),
    ] = None,
    keys: Keys = None,
) -> None:
    """List keys, create an API key, or revoke one.

    A running service notices within seconds.

    Examples:
        confide service keys study
        confide service keys study --new device --run demo --expires 90d
    """
    from confide.errors import InvalidParameter
    from confide.service.web.access import new_api_key, revoke_api_key

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
            _print_keys(store)
    finally:
        store.close()


def _print_keys(store: "ServiceStore") -> None:
    import time

    from confide.service.web.access import format_time, key_status

    for key in store.api_keys():
        scope = "all runs" if key.run is None else f"run {key.run}"
        until = "" if key.expires is None else f", expires {format_time(key.expires)}"
        status = key_status(key, time.time())
        typer.echo(f"API key {key.id}  {key.role:<9} {status:<7}  {scope}{until}  {key.label}")
    for signing_key in store.signing_keys():
        status = "retired" if signing_key.retired else "in use "
        typer.echo(f"signing key {signing_key.id}  {status}  {signing_key.public.hex()}")


def rotate(
    folder: Folder,
    vault: Annotated[
        bool,
        typer.Option(
            "--vault",
            help="Replace the key of the vault instead, and seal everything again with the new "
            "one.",
        ),
    ] = False,
    keys: Keys = None,
) -> None:
    """Create a new signing key, which the current one endorses.

    A service on SQLite must be stopped first, or asked over HTTP.

    Example:
        confide service rotate study
    """
    service = _folder(folder, keys, None)
    if not vault:
        typer.echo(f"releases are signed by {service.rotate()} from now on")
        return
    count = service.replace_vault_key()
    runs = "run" if count == 1 else "runs"
    typer.echo(f"sealed {count} {runs} again, with a new {service.keys.folder / 'vault.key'}")
    typer.echo(
        "the old key is deleted: "
        "copies of the database from before can no longer be opened, also not by you"
    )


def backup(
    folder: Folder,
    out: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.", show_default=False)],
) -> None:
    """Copy the database while the service runs.

    PRIVATE: keep the copy and the folder of the keys apart.

    Example:
        confide service backup study study-copy.db
    """
    from datetime import UTC, datetime

    from confide.errors import ConfideError, InvalidParameter

    service = _folder(folder, None, None)
    if service.shared:
        raise InvalidParameter(
            "a service on PostgreSQL is backed up with pg_dump: "
            "see docs/how-to/operate_a_service.md for what a backup reveals"
        )
    store = service.store()

    def log(action: str) -> None:
        with store.transaction() as transaction:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            transaction.audit(now, "command line", action, out.name)

    try:
        log("backup")
        try:
            store.backup(str(out))
        except (OSError, ConfideError):
            log("backup failed")
            raise
    finally:
        store.close()
    typer.echo(
        f"wrote {out}. PRIVATE: keep it apart from the folder of the keys, "
        "which opens what is sealed in it"
    )
    typer.echo(
        "a backup cannot be restored after a later release was shown: "
        "the same users would be noised twice, so the service refuses it"
    )


def verify(folder: Folder, as_json: AsJson = False, keys: Keys = None, marks: Marks = None) -> None:
    """Check the database of a service.

    Checked are signatures, chains, certificates, marks, and that every person was counted once.
    The exit code is 1 if a check fails.

    Example:
        confide service verify study
    """
    from confide.service.core.verification import verify_store

    service = _folder(folder, keys, marks)
    store = service.store()
    try:
        checks = list(verify_store(store, service.keys, service.marks))
    finally:
        store.close()
    _print_checks(checks, as_json)


def finish(folder: Folder, run: RunName) -> None:
    """Finish a run that cannot be served any more.

    This happens if an older backup was restored. A service on SQLite must be stopped first.

    Example:
        confide service finish study demo
    """
    _folder(folder, None, None).finish(run)
    typer.echo(f"finished {run}: a new run needs another name")


def mark(folder: Folder, marks: Marks = None) -> None:
    """Write the release markers again if they are lost.

    Use this only if no backup was restored: the service can no longer check whether a later
    release was shown.

    Example:
        confide service mark study
    """
    marked = _folder(folder, None, marks).mark()
    newest = f"marked the newest releases of {', '.join(marked)}"
    typer.echo(newest if marked else "no mark is missing")


def check(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Address of the service, such as https://learn.example.org.",
            show_default=False,
        ),
    ],
    run: RunName,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The run's signing key, obtained through another channel.",
            show_default="the manifest's own",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a service from outside, as anybody can.

    Checked are signatures, the chain of all releases, and the certificate. The exit code is 1 if a
    check fails.

    Example:
        confide service check https://learn.example.org demo
    """
    from confide.service.core.public_check import check_public

    _print_checks(list(check_public(url, run, key=key)), as_json)


def _print_checks(checks: Sequence[Any], as_json: bool) -> None:
    if as_json:
        records = [
            {"about": check.about, "holds": check.holds, "says": check.says} for check in checks
        ]
        typer.echo(json.dumps(records, indent=2))
    else:
        for check in checks:
            # One line each: what a service says must not look like a line of its own.
            line = one_line(f"{check.about}: {check.says}")
            typer.echo(f"{'holds ' if check.holds else 'FAILS '} {line}")
    if not all(check.holds for check in checks):
        raise typer.Exit(1)


def status(folder: Folder, as_json: AsJson = False, keys: Keys = None, marks: Marks = None) -> None:
    """Show the runs of a service, and which of them cannot be served.

    For operators: in a run with deadlines these numbers are PRIVATE.

    Example:
        confide service status study
    """
    service = _folder(folder, keys, marks)
    store = service.store()
    try:
        facts_by_run = [_facts(name, store, service) for name in store.runs()]
    finally:
        store.close()
    if as_json:
        typer.echo(json.dumps(facts_by_run, indent=2))
        return
    for facts in facts_by_run:
        if facts["cause"] is not None:
            typer.echo(f"{facts['run']}: NOT READY: {facts['cause']}")
            continue
        users = f"{facts['open_users']} users in the open batch"
        typer.echo(f"{facts['run']}: {facts['status']}, release {facts['generation']}, {users}")
    if not facts_by_run:
        typer.echo("no runs yet: confide serve RUN.toml makes one")


def _facts(name: str, store: "ServiceStore", service: "ServiceFolder") -> dict[str, Any]:
    """Where a run is, and the `cause` if it cannot be served.

    The run is read and planned as the service does it.
    """
    from confide.errors import ConfideError
    from confide.service.core.live import read_run

    facts: dict[str, Any] = {"run": name, "cause": None}
    try:
        head = store.head(name)
        facts |= {"status": head.status, "generation": head.generation, "open_users": head.users}
        run = read_run(name, store, service.keys, service.marks, must_be_marked=True)
        run.check_round(store)
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
