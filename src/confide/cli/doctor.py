"""confide doctor: check an installation."""

from dataclasses import asdict

import typer

from confide.cli.options import AsJson, print_json


def doctor(as_json: AsJson = False) -> None:
    """Show installed versions and run a self-test, which takes a few seconds."""
    from confide.doctor import CORE, EXTRAS, self_test, system, versions

    core, extras = versions(CORE), {extra: versions(names) for extra, names in EXTRAS.items()}
    if as_json:
        checks = list(self_test())
        print_json({"system": system(), "core": core, "extras": extras, "checks": [asdict(check) for check in checks]})
        raise typer.Exit(0 if all(check.holds for check in checks) else 1)
    for name, version in {**system(), **core}.items():
        typer.echo(f"  {name:<16}{version or 'MISSING'}")
    typer.echo("extras")
    for extra, found in extras.items():
        there = ", ".join(f"{name} {version}" for name, version in found.items() if version)
        typer.echo(f"  {extra:<16}{there if all(found.values()) else f'not installed: pip install confide[{extra}]'}")
    typer.echo("self-test")
    sound = True
    for check in self_test():
        sound = sound and check.holds
        typer.echo(f"  {'ok' if check.holds else 'FAILED':<8}{check.name:<18}{check.says}")
    typer.echo("all checks passed" if sound else "some checks failed: see FAILED above")
    raise typer.Exit(0 if sound else 1)
