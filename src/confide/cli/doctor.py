"""confide doctor: check an installation."""

from dataclasses import asdict

import typer

from confide.cli.options import AsJson, print_json


def doctor(as_json: AsJson = False) -> None:
    """Show installed versions, and check noise and compiled kernels.

    The exit code is 1 if a check fails.

    Example:
        confide doctor
    """
    from confide._extras import EXTRAS, version
    from confide.doctor import CORE, self_test, system

    core = {name: version(name) for name in CORE}
    extras = {extra: {name: version(name) for name in names} for extra, names in EXTRAS.items()}
    if as_json:
        checks = list(self_test())
        print_json(
            {
                "system": system(),
                "core": core,
                "extras": extras,
                "checks": [asdict(check) for check in checks],
            }
        )
        raise typer.Exit(0 if all(check.holds for check in checks) else 1)
    for name, installed in {**system(), **core}.items():
        typer.echo(f"  {name:<16}{installed or 'MISSING'}")
    typer.echo("extras")
    for extra, versions in extras.items():
        installed = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
        missing = f"not installed: pip install 'confide[{extra}]'"
        typer.echo(f"  {extra:<16}{installed if all(versions.values()) else missing}")
    typer.echo("self-test")
    all_hold = True
    for check in self_test():
        all_hold = all_hold and check.holds
        typer.echo(f"  {'ok' if check.holds else 'FAILED':<8}{check.name:<18}{check.says}")
    typer.echo("all checks passed" if all_hold else "some checks failed: see FAILED above")
    raise typer.Exit(0 if all_hold else 1)
