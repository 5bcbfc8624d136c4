"""confide verify: recompute the guarantee of a certificate."""

from pathlib import Path
from typing import Annotated

import typer

from confide.cli.options import AsJson, print_json


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate file saved by confide.")],
    as_json: AsJson = False,
) -> None:
    """Recompute the guarantee of a certificate from its numbers. The exit code is 2 if they are inconsistent."""
    import math

    from confide.audit import verify as check
    from confide.audit.verify import taken_on_trust
    from confide.privacy.certificate import Certificate

    loaded = Certificate.load(certificate)
    found = check(loaded)
    promise = loaded.document["guarantee"]
    if as_json:
        recomputed = found.epsilon if math.isfinite(found.epsilon) else None
        trust = {
            "on_trust": taken_on_trust(loaded),
            "checked": loaded.document.get("checked", []),
            "assumptions": [assumption.to_json() for assumption in loaded.assumptions],
        }
        print_json(
            {
                "valid": True,
                "recomputed_epsilon": recomputed,
                "delta": found.delta,
                "guarantee": promise,
                **trust,
            }
        )
        return
    if promise["trust"] == "none":
        typer.echo("The certificate is valid, but it states NO PRIVACY: no noise was added.")
        return
    whom = f"{promise['trust']}, {promise['relation']} one user, {promise['users']:,} users"
    trusted = taken_on_trust(loaded)
    rest = ", but part of the guarantee is taken on trust and was NOT VERIFIED" if trusted else ""
    typer.echo(f"The certificate's numbers are consistent{rest}.")
    typer.echo(
        f"  stated       epsilon = {loaded.epsilon:.6g} at delta = {loaded.delta:g} ({whom})"
    )
    typer.echo(
        f"  recomputed   epsilon = {found.epsilon:.6g} from {len(found.losses)} mechanism(s), {promise['source']} noise"
    )
    said = (
        # Anybody can write this into the file, and nothing here has checked it.
        ("it says", loaded.document.get("checked", [])),
        ("on trust", trusted),
        ("assumes", [assumption.text for assumption in loaded.assumptions]),
    )
    for heading, texts in said:
        for text in texts:
            typer.echo(f"  {heading:<12} {''.join(c if c.isprintable() else '?' for c in text)}")
