"""confide audit: try to refute a promise."""

from typing import Annotated

import typer

from confide.cli.options import AsJson, Delta, Epsilon, print_json

_SUBJECTS = (
    "What to attack: gaussian, laplace, smooth, exact, tree, honaker, toeplitz, buffered, stream, or a learner of `confide list`."
)


def audit(
    subject: Annotated[str, typer.Argument(help=_SUBJECTS)],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-2,
    twin: Annotated[str | None, typer.Option(help="Attack a broken twin instead: noise, clip, redraw or shared.")] = None,
    runs: Annotated[int | None, typer.Option(help="Runs on each of the two neighbouring data sets.", min=100, max=10**8)] = None,
    confidence: Annotated[float, typer.Option(help="An honest mechanism is refuted at most this rarely: 1 - confidence.")] = 0.99,
    source: Annotated[str, typer.Option(help="The noise to attack: fast or secure.")] = "fast",
    trust: Annotated[
        str, typer.Option(help="Of an agent: joint attacks its releases, local the messages of its devices.")
    ] = "joint",
    seed: Annotated[int, typer.Option(help="Seed of the attack.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Attack a mechanism on its worst pair of neighbours, and bound its epsilon from below. Exit code 1 if the promise is refuted."""
    import numpy as np

    from confide.audit import TWINS, refute
    from confide.audit import subject as make_subject
    from confide.privacy import CentralDP, PureDP

    attacked = make_subject(subject, CentralDP(epsilon, delta), twin=twin, source=source, trust=trust)
    runs = runs or {"gaussian": 200_000, "laplace": 50_000, "smooth": 150_000}.get(subject, 20_000)
    delta = 0.0 if isinstance(attacked.loss, PureDP) else delta
    result = refute(attacked, delta=delta, runs=runs, confidence=confidence, rng=np.random.default_rng(seed))
    if as_json:
        found = {name: getattr(result, name) for name in (*result.__slots__, "refuted", "sharpness")}
        print_json({"subject": subject, "twin": twin, "source": source, "trust": trust, **found})
    else:
        broken = f", broken on purpose ({TWINS[twin]})" if twin else ""
        promised = f", mu = {result.mu:.4g}" if result.mu is not None else ""
        shown = f", mu >= {result.mu_lower:.4g}" if result.mu_lower is not None else ""
        reached = f"not refuted ({100 * result.sharpness:.0f} % of the promised epsilon reached)"
        typer.echo(f"{subject}{broken}: {runs:,} runs on each of two neighbouring data sets")
        typer.echo(f"  promised   epsilon = {result.epsilon:.4g} at delta = {result.delta:g}{promised}")
        typer.echo(f"  shown      epsilon >= {result.epsilon_lower:.4g}{shown} at {100 * confidence:g} % confidence")
        typer.echo(f"  {'REFUTED: the promise does not hold' if result.refuted else reached}")
    if result.refuted:
        raise typer.Exit(1)
