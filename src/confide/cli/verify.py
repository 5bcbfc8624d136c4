"""confide verify: recompute the guarantee of a certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from confide.privacy.certificate import Certificate


def verify(
    certificate: Annotated[
        Path, typer.Argument(metavar="FILE", help="A certificate that confide saved.")
    ],
    as_json: AsJson = False,
) -> None:
    """Recompute the guarantee of a certificate from its numbers.

    The exit code is 2 if they are inconsistent.

    Example:
        confide verify results/certificate.json
    """
    from confide.audit import verify as check

    loaded = _load(certificate)
    recomputed = check(loaded)
    if as_json:
        print_json(_record(loaded, recomputed))
    else:
        _print(loaded, recomputed)


def _load(path: Path) -> "Certificate":
    from confide.privacy.certificate import Certificate

    return Certificate.load(path)


def _record(certificate: "Certificate", recomputed: Any) -> dict[str, Any]:
    import math

    from confide.audit.verify import taken_on_trust

    return {
        "valid": True,
        "recomputed_epsilon": recomputed.epsilon if math.isfinite(recomputed.epsilon) else None,
        "delta": recomputed.delta,
        "guarantee": certificate.document["guarantee"],
        "on_trust": taken_on_trust(certificate),
        "checked": certificate.document.get("checked", []),
        "assumptions": [assumption.to_json() for assumption in certificate.assumptions],
    }


def _print(certificate: "Certificate", recomputed: Any) -> None:
    from confide.audit.verify import taken_on_trust

    stated = certificate.document["guarantee"]
    if stated["trust"] == "none":
        typer.echo("The certificate is valid, but it states NO PRIVACY: no noise was added.")
        return
    trusted = taken_on_trust(certificate)
    rest = ", but part of the guarantee is taken on trust and was NOT VERIFIED" if trusted else ""
    typer.echo(f"The certificate's numbers are consistent{rest}.")
    scope = f"{stated['trust']}, {stated['relation']} one user, {stated['users']:,} users"
    typer.echo(
        f"  stated       epsilon = {certificate.epsilon:.6g} at delta = {certificate.delta:g} "
        f"({scope})"
    )
    typer.echo(
        f"  recomputed   epsilon = {recomputed.epsilon:.6g} "
        f"from {len(recomputed.losses)} mechanism(s), {stated['source']} noise"
    )
    statements = (
        # Anybody can write this into the file, and nothing here has checked it.
        ("it says", certificate.document.get("checked", [])),
        ("on trust", trusted),
        ("assumes", [assumption.text for assumption in certificate.assumptions]),
    )
    for heading, texts in statements:
        for text in texts:
            printable = "".join(c if c.isprintable() else "?" for c in text)
            typer.echo(f"  {heading:<12} {printable}")
