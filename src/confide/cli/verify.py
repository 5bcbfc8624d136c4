"""confide verify: recompute a certificate's promise."""

from pathlib import Path
from typing import Annotated

import typer

from confide.cli.options import AsJson, print_json


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as saved by confide.")],
    as_json: AsJson = False,
) -> None:
    """Recompute what a certificate promises from its own numbers. Exit code 2 if they do not add up."""
    import math

    from confide.audit import verify as check
    from confide.audit.verify import taken_on_trust
    from confide.privacy.certificate import Certificate

    loaded = Certificate.load(certificate)
    found = check(loaded)
    promise = loaded.document["promise"]
    if as_json:
        recomputed = found.epsilon if math.isfinite(found.epsilon) else None
        trust = {"on_trust": taken_on_trust(loaded), "assumptions": loaded.document["assumptions"]}
        print_json({"valid": True, "recomputed_epsilon": recomputed, "delta": found.delta, "promise": promise, **trust})
        return
    if promise["trust"] == "none":
        typer.echo("The certificate is in order, and it promises NOTHING: no noise was added.")
        return
    whom = f"{promise['trust']}, {promise['relation']} one user, {promise['users']:,} users"
    typer.echo("The certificate's numbers add up.")
    typer.echo(f"  promised     epsilon = {loaded.epsilon:.6g} at delta = {loaded.delta:g} ({whom})")
    typer.echo(f"  recomputed   epsilon = {found.epsilon:.6g} from {len(found.losses)} mechanism(s), {promise['source']} noise")
    for trusted in taken_on_trust(loaded):
        typer.echo(f"  on trust     {trusted}")
    for assumption in loaded.document["assumptions"]:
        typer.echo(f"  assumes      {''.join(c if c.isprintable() else '?' for c in assumption)}")
