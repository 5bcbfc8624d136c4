"""confide audit: try to refute a guarantee."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.audit_service import ApiKey, RealRun, Reports, Seen, SigningKey, audit_service
from confide.cli.options import AsJson, Delta, Epsilon, print_json
from confide.cli.progress import counting

if TYPE_CHECKING:
    import numpy as np

    from confide.audit.refute import Audit, Score, Subject
    from confide.audit.replay import Replay
    from confide.privacy.bounded import Array
    from confide.privacy.loss import Loss
    from confide.privacy.request import CentralDP

_SUBJECTS = (
    "What to attack: gaussian, laplace, smooth, exact, tree, honaker, toeplitz, buffered, discounted, stream, a learner from "
    "`confide list`, or your own learner as package.module:Class (a subclass of confide.learning.learner.Learner that accepts noise=). "
    "Learners run on a small problem of their kind, such as a lock or a river. Or a running service: the address of a run's page, such as "
    "https://learn.example.org/runs/demo."
)
_RUNS = {"gaussian": 200_000, "laplace": 50_000, "smooth": 150_000}
# at epsilon = 1 a fifth too little noise is caught: benchmarks/results/audit_power.md
_COUNTER_RUNS, _AGENT_RUNS = 20_000, 8_000
_WEAK = 0.2  # of the stated epsilon: a weaker attack might not refute a broken guarantee either


def audit(
    subject: Annotated[str, typer.Argument(help=_SUBJECTS)],
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-2,
    twin: Annotated[
        str | None,
        typer.Option(help="Attack a broken variant instead: noise, clip, redraw or shared."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs on each of the two neighbouring data sets.",
            min=100,
            max=10**8,
            show_default="8 000 for a learner, 20 000 for a counter, 50 000 to 200 000 for plain noise",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            help="Confidence of the lower bound. A correct mechanism is refuted with probability at most 1 - confidence."
        ),
    ] = 0.99,
    source: Annotated[str, typer.Option(help="The noise to attack: fast or secure.")] = "fast",
    trust: Annotated[
        str,
        typer.Option(
            help="For an agent: joint attacks its releases, local the messages of its devices."
        ),
    ] = "joint",
    seed: Annotated[int, typer.Option(help="Seed of the attack.", min=0)] = 0,
    api_key: ApiKey = None,
    signing_key: SigningKey = None,
    seen: Seen = None,
    reports: Reports = 64,
    real_run: RealRun = False,
    as_json: AsJson = False,
) -> None:
    """Attack a mechanism and compute a lower bound on its epsilon, or attack a running service over HTTP.

    The exit code is 1 if the guarantee is refuted or an attack worked, and 3 if that could not be decided.

    A learner is also replayed: neighbouring data sets with the same releases must give the same policies, batch sizes, questions, memory,
    messages and descriptions.
    """
    if subject.startswith(("http://", "https://")):
        audit_service(subject, api_key, signing_key, seen, reports, real_run, as_json)
        return
    _refute(subject, epsilon, delta, twin, runs, confidence, source, trust, seed, as_json)


def _refute(
    subject: str,
    epsilon: float,
    delta: float,
    twin: str | None,
    runs: int | None,
    confidence: float,
    source: str,
    trust: str,
    seed: int,
    as_json: bool,
) -> None:
    import numpy as np

    from confide.agents.catalogue import AGENTS
    from confide.audit.agents import Attacked
    from confide.audit.mechanisms import TWINS
    from confide.audit.refute import refute
    from confide.privacy.loss import PureDP
    from confide.privacy.request import CentralDP

    attacked = _subject(subject, CentralDP(epsilon, delta), twin=twin, source=source, trust=trust)
    learner = ":" in subject or subject in AGENTS
    usual = _RUNS.get(subject, _AGENT_RUNS if learner else _COUNTER_RUNS)
    runs = runs or usual
    delta = 0.0 if isinstance(attacked.loss, PureDP) else delta
    replayed = attacked.replay() if isinstance(attacked, Attacked) and twin is None else None
    with counting(as_json, subject, 2 * runs, "runs") as advance:
        watched = Watched(attacked, advance)
        result = refute(
            watched, delta=delta, runs=runs, confidence=confidence, rng=np.random.default_rng(seed)
        )
    if as_json:
        found = {
            name: getattr(result, name) for name in (*result.__slots__, "refuted", "sharpness")
        }
        compared = {} if replayed is None else {"replay": replayed.to_json()}
        print_json(
            {
                "subject": subject,
                "twin": twin,
                "source": source,
                "trust": trust,
                **found,
                **compared,
            }
        )
    else:
        broken = f", broken variant ({TWINS[twin]})" if twin else ""
        promised = f", mu = {result.mu:.4g}" if result.mu is not None else ""
        shown = f", mu >= {result.mu_lower:.4g}" if result.mu_lower is not None else ""
        typer.echo(f"{subject}{broken}: {runs:,} runs on each of two neighbouring data sets")
        typer.echo(
            f"  stated     epsilon = {result.epsilon:.4g} at delta = {result.delta:g}{promised}"
        )
        typer.echo(
            f"  measured   epsilon >= {result.epsilon_lower:.4g}{shown} at {100 * confidence:g} % confidence"
        )
        if result.detectable is not None:
            typer.echo(
                f"  power      a true epsilon of {result.detectable:.3g} or more is refuted by this attack with probability 90 %"
            )
        for line in [] if replayed is None else replayed.said():
            name, _, text = line.partition(": ")
            typer.echo(f"  {name:<10} {text}")
        typer.echo(f"  {_verdict(result, replayed, usual)}")
    _exit(result, replayed)


def _exit(result: "Audit", replayed: "Replay | None") -> None:
    if result.refuted or (replayed is not None and replayed.refuted):
        raise typer.Exit(1)
    if replayed is not None and replayed.undecided:
        raise typer.Exit(3)


def _verdict(result: "Audit", replayed: "Replay | None", usual: int) -> str:
    """What was tested, and what is not: neither an attack nor a replay proves a guarantee."""
    if result.refuted or (replayed is not None and replayed.refuted):
        return "REFUTED: the guarantee does not hold"
    if replayed is not None and replayed.undecided:
        return "NOT DECIDED: part of the output could not be compared"
    shares = {"epsilon": result.sharpness}
    if result.mu and result.mu_lower is not None:
        shares["mu"] = result.mu_lower / result.mu
    reached = " and ".join(
        f"{100 * share:.0f} % of the stated {name}" for name, share in shares.items()
    )
    few = f": {result.runs:,} runs are few, the default is {usual:,}" if result.runs < usual else ""
    weak = f"; the attack was too weak to be conclusive, increase --runs{few}"
    return f"not refuted ({reached} reached)" + (weak if result.sharpness < _WEAK else "")


def _subject(name: str, privacy: "CentralDP", **options: Any) -> "Subject":
    """What `confide.audit.subject` knows by name; a class is attacked as a learner that it knows."""
    from confide.agents.catalogue import agent_class
    from confide.audit import subject
    from confide.audit.agents import AgentSubject, DeviceSubject
    from confide.errors import InvalidParameter
    from confide.learning.learner import Learner

    if ":" not in name:
        return subject(name, privacy, **options)
    made = agent_class(name)
    if not (isinstance(made, type) and issubclass(made, Learner)):
        raise InvalidParameter(
            f"{name} is not a learner: expected a subclass of confide.learning.learner.Learner"
        )
    known = subject("ucrl-vtr", privacy, **options)
    assert isinstance(known, AgentSubject | DeviceSubject)
    return replace(known, agent=name)


@dataclass(frozen=True, slots=True)
class Watched:
    """A subject that reports progress. It always runs in parts, so that a seed gives the same result with and without a terminal."""

    inner: "Subject"
    advance: Callable[[int], None]

    @property
    def loss(self) -> "Loss":
        return self.inner.loss

    @property
    def reach(self) -> float:
        return float(getattr(self.inner, "reach", 1.0))

    def observe(self, world: int, runs: int, rng: "np.random.Generator") -> "Array":
        import numpy as np

        size, seen = max(100, runs // 100), []
        for start in range(0, runs, size):
            seen.append(self.inner.observe(world, min(size, runs - start), rng))
            self.advance(len(seen[-1]))
        return np.concatenate(seen)

    def score(self) -> "Score | None":
        return self.inner.score()
