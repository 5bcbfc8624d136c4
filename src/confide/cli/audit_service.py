"""confide audit URL: attack a running service over HTTP."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from confide.cli.options import print_json
from confide.cli.terminal import one_line

ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="CONFIDE_API_KEY",
        help="For a service: an API key of the role device, or of the role admin, which allows more attacks.",
        show_default=False,
    ),
]
SigningKey = Annotated[
    str | None,
    typer.Option(
        help="For a service: the run's signing key, obtained through another channel.",
        show_default="the manifest's own",
    ),
]
Seen = Annotated[
    Path | None,
    typer.Option(
        help="For a service: a file of what the audit saw. A second audit, after a restart of the service, compares with it.",
        show_default=False,
    ),
]
Reports = Annotated[
    int,
    typer.Option(
        help="For a service: the largest number of invented users in the run.", min=0, max=100_000
    ),
]
RealRun = Annotated[
    bool,
    typer.Option(
        "--real-run",
        help="For a service: attack a run that is not a simulation. Invented users take places of real ones.",
    ),
]
_ADDRESS = re.compile(r"(?P<url>https?://[^/?#]+(?:/[^/?#]+)*?)(?:/v1)?/runs/(?P<run>[^/?#]+)/?")


def audit_service(
    address: str,
    api_key: str | None,
    signing_key: str | None,
    seen: Path | None,
    reports: int,
    real_run: bool,
    as_json: bool,
) -> None:
    """A line for each attempt. The exit code is 1 if an attack worked, 3 if one could not be decided."""
    from confide._durable import replace
    from confide.errors import InvalidParameter
    from confide.service.attacks import attack_service

    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidParameter(
            "the address of a run is needed, such as https://learn.example.org/runs/demo"
        )
    if api_key is None:
        raise InvalidParameter("an API key is needed: --api-key, or CONFIDE_API_KEY")
    made = attack_service(
        found["url"],
        found["run"],
        api_key=api_key,
        signing_key=signing_key,
        seen=_read(seen, address),
        reports=reports,
        real_run=real_run,
    )
    # what a broken service showed must not become what is expected
    if seen is not None and not made.worked:
        replace(seen, json.dumps({"address": address, "seen": made.seen}, indent=2).encode())
    rows = [{name: getattr(each, name) for name in each.__slots__} for each in made.tried]
    if as_json:
        print_json(
            {
                "subject": address,
                "worked": made.worked,
                "undecided": made.undecided,
                "counted": made.spent,
                "tried": rows,
            }
        )
    else:
        for row in rows:
            typer.echo(
                f"{row['verdict']:<10} {row['attack']:<13} "
                + one_line(f"{row['tried']}: {row['happened']}")
            )
        typer.echo(
            f"cost: {made.spent} invented people were counted in the run; their episodes are empty"
        )
        typer.echo(_verdict(made.worked, made.undecided))
    if made.worked or made.undecided:
        raise typer.Exit(1 if made.worked else 3)


def _verdict(worked: bool, undecided: bool) -> str:
    if worked:
        return "REFUTED: an attack worked"
    return (
        "NOT DECIDED: see the lines above"
        if undecided
        else "not refuted: no attack that was tried worked"
    )


def _read(path: Path | None, address: str) -> dict[str, str] | None:
    """Of an audit before, if there was one."""
    from confide.arguments import read_text
    from confide.errors import InvalidParameter

    if path is None or not path.exists():
        return None
    try:
        found = json.loads(read_text(path, 2**26))
        if found["address"] == address:
            return {str(name): str(value) for name, value in found["seen"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidParameter(f"{path} is not a file of an audit") from None
    raise InvalidParameter(f"{path} is of another run")
