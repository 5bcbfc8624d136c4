"""confide doctor: check an installation."""

from dataclasses import asdict

import typer

from confide.cli.options import AsJson, print_json


def doctor(as_json: AsJson = False) -> None:
    """Show installed versions, and check that noise and compiled kernels work."""
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
    for name, found in {**system(), **core}.items():
        typer.echo(f"  {name:<16}{found or 'MISSING'}")
    typer.echo("extras")
    for extra, parts in extras.items():
        there = ", ".join(f"{name} {number}" for name, number in parts.items() if number)
        how = f"not installed: pip install 'confide[{extra}]'"
        typer.echo(f"  {extra:<16}{there if all(parts.values()) else how}")
    typer.echo("self-test")
    sound = True
    for check in self_test():
        sound = sound and check.holds
        typer.echo(f"  {'ok' if check.holds else 'FAILED':<8}{check.name:<18}{check.says}")
    typer.echo("all checks passed" if sound else "some checks failed: see FAILED above")
    raise typer.Exit(0 if sound else 1)
