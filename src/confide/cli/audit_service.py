"""confide audit URL: attack a running service over HTTP."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from confide.cli.options import print_json
from confide.cli.terminal import one_line

_ADDRESS = re.compile(r"(?P<url>https?://[^/?#]+(?:/[^/?#]+)*?)(?:/v1)?/runs/(?P<run>[^/?#]+)/?")
# What an audit saw is at most this many bytes. A larger file is not one of ours.
_LARGEST_SEEN = 2**26
# Exit codes. An error exits with 2.
_WORKED = 1
_UNDECIDED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAuditOptions:
    """How a running service is attacked."""

    PANEL: ClassVar = "Only for a running service"

    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            envvar="CONFIDE_API_KEY",
            help="API key of the role device, or of the role admin, which allows more attacks.",
            show_default=False,
        ),
    ] = None
    signing_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The run's signing key, obtained through another channel.",
            show_default="the manifest's own",
        ),
    ] = None
    seen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep what the audit saw in this file. A second audit, after a restart of the "
            "service, compares with it.",
            show_default=False,
        ),
    ] = None
    reports: Annotated[
        int,
        typer.Option(help="The largest number of invented users in the run.", min=0, max=100_000),
    ] = 64
    real_run: Annotated[
        bool,
        typer.Option(
            "--real-run",
            help="Attack a run that is not a simulation. Invented users take places of real ones.",
        ),
    ] = False


def audit_service(address: str, options: ServiceAuditOptions, as_json: bool) -> None:
    """Print a line for each attempt.

    The exit code is 1 if an attack worked, and 3 if one could not be decided.
    """
    from confide._durable import replace
    from confide.errors import InvalidParameter
    from confide.service.attacks import attack_service

    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise InvalidParameter(
            "the address of a run is needed, such as https://learn.example.org/runs/demo"
        )
    if options.api_key is None:
        raise InvalidParameter("an API key is needed: --api-key, or CONFIDE_API_KEY")
    audit = attack_service(
        parts["url"],
        parts["run"],
        api_key=options.api_key,
        signing_key=options.signing_key,
        seen=_earlier_view(options.seen, address),
        reports=options.reports,
        real_run=options.real_run,
    )
    # What a broken service showed must not become what the next audit expects.
    if options.seen is not None and not audit.worked:
        record = {"address": address, "seen": audit.seen}
        replace(options.seen, json.dumps(record, indent=2).encode())
    _print(address, audit, as_json)
    if audit.worked:
        raise typer.Exit(_WORKED)
    if audit.undecided:
        raise typer.Exit(_UNDECIDED)


def _print(address: str, audit: Any, as_json: bool) -> None:
    attempts = [
        {name: getattr(attempt, name) for name in attempt.__slots__} for attempt in audit.tried
    ]
    if as_json:
        print_json(
            {
                "subject": address,
                "worked": audit.worked,
                "undecided": audit.undecided,
                "counted": audit.spent,
                "tried": attempts,
            }
        )
        return
    for attempt in attempts:
        outcome = one_line(f"{attempt['tried']}: {attempt['happened']}")
        typer.echo(f"{attempt['verdict']:<10} {attempt['attack']:<13} {outcome}")
    typer.echo(
        f"cost: {audit.spent} invented people were counted in the run; their episodes are empty"
    )
    typer.echo(_verdict(audit.worked, audit.undecided))


def _verdict(worked: bool, undecided: bool) -> str:
    if worked:
        return "REFUTED: an attack worked"
    if undecided:
        return "NOT DECIDED: see the lines above"
    return "not refuted: no attack that was tried worked"


def _earlier_view(path: Path | None, address: str) -> dict[str, str] | None:
    """What an earlier audit of the same run saw, if there was one."""
    from confide.arguments import read_text
    from confide.errors import InvalidParameter

    if path is None or not path.exists():
        return None
    try:
        record = json.loads(read_text(path, _LARGEST_SEEN))
        if record["address"] == address:
            return {str(name): str(value) for name, value in record["seen"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidParameter(f"{path} is not a file of an audit") from None
    raise InvalidParameter(f"{path} is of another run")
