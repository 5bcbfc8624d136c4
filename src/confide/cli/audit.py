"""confide audit: try to refute a guarantee."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.audit_service import ServiceAuditOptions, audit_service
from confide.cli.groups import with_groups
from confide.cli.options import AsJson, Delta, Epsilon, print_json
from confide.cli.progress import counting_bar

if TYPE_CHECKING:
    import numpy as np

    from confide.audit.refute import Audit, Score, Subject
    from confide.audit.replay_result import Replay
    from confide.privacy.bounded import Array
    from confide.privacy.loss import Loss
    from confide.privacy.request import CentralDP

_SUBJECTS = (
    "What to attack. A mechanism: gaussian, laplace, smooth, exact, tree, honaker, toeplitz, "
    "buffered, discounted or stream. An agent from `confide list`, or a class of yours as "
    "package.module:Class (a subclass of confide.learning.learner.Learner that accepts noise=). "
    "Agents run on a small problem of their kind, such as a lock or a river. Or a running service: "
    "the address of a run's page, such as https://learn.example.org/runs/demo."
)
# Runs on each of the two neighbouring data sets. At epsilon = 1 they detect a fifth too little
# noise (measured, benchmarks/results/audit_power.md).
_MECHANISM_RUNS = {"gaussian": 200_000, "laplace": 50_000, "smooth": 150_000}
_COUNTER_RUNS = 20_000
_AGENT_RUNS = 8_000
# An attack that reaches less than this share of the stated epsilon is called too weak, because it
# might not refute a broken guarantee either. A matter of taste.
_WEAK_SHARE = 0.2
# Exit codes. An error exits with 2.
_REFUTED = 1
_UNDECIDED = 3
# `WatchedSubject` reports progress so often, unless its parts had fewer runs than this.
_PARTS = 100
_SMALLEST_PART = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackOptions:
    """What is attacked, and how hard."""

    PANEL: ClassVar = "Attack"

    epsilon: Epsilon = 1.0
    delta: Delta = 1e-2
    trust: Annotated[
        str,
        typer.Option(
            metavar="joint|local",
            help="For an agent. joint: attack its releases. local: attack the messages of its "
            "devices.",
        ),
    ] = "joint"
    source: Annotated[
        str, typer.Option(metavar="fast|secure", help="Source of the noise that is attacked.")
    ] = "fast"
    twin: Annotated[
        str | None,
        typer.Option(
            metavar="noise|clip|redraw|shared",
            help="Attack a variant that is broken on purpose, to see that the attack detects it.",
        ),
    ] = None
    runs: Annotated[
        int | None,
        typer.Option(
            help="Runs on each of the two neighbouring data sets.",
            min=100,
            max=10**8,
            show_default="8,000 for an agent, 20,000 for a counter, 50,000 to 200,000 for plain "
            "noise",
        ),
    ] = None
    confidence: Annotated[
        float,
        typer.Option(
            help="Confidence of the lower bound. A correct mechanism is refuted with probability "
            "at most 1 - confidence."
        ),
    ] = 0.99
    seed: Annotated[int, typer.Option(help="Seed of the attack.", min=0)] = 0


@with_groups
def audit(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help=_SUBJECTS)],
    attack: AttackOptions,
    service: ServiceAuditOptions,
    as_json: AsJson = False,
) -> None:
    """Attack a mechanism, an agent or a running service.

    An attack gives a lower bound on epsilon. An agent is also replayed: neighbouring data sets
    with the same releases must give the same policies, batch sizes, questions, memory, messages
    and descriptions. The exit code is 1 if the guarantee is refuted or an attack on a service
    worked, and 3 if that could not be decided.

    Examples:
        confide audit gaussian --epsilon 1
        confide audit ucrl-vtr --trust local
        confide audit https://learn.example.org/runs/demo
    """
    if subject.startswith(("http://", "https://")):
        audit_service(subject, service, as_json)
    else:
        _refute(subject, attack, as_json)


def _refute(subject: str, attack: AttackOptions, as_json: bool) -> None:
    import numpy as np

    from confide.agents.catalogue import AGENTS
    from confide.audit.agents import Attacked
    from confide.audit.refute import refute
    from confide.privacy.loss import PureDP
    from confide.privacy.request import CentralDP

    privacy = CentralDP(attack.epsilon, attack.delta)
    attacked = _subject(
        subject, privacy, twin=attack.twin, source=attack.source, trust=attack.trust
    )
    is_agent = ":" in subject or subject in AGENTS
    usual_runs = _MECHANISM_RUNS.get(subject, _AGENT_RUNS if is_agent else _COUNTER_RUNS)
    runs = attack.runs or usual_runs
    replay = None
    if isinstance(attacked, Attacked) and attack.twin is None:
        replay = attacked.replay()
    with counting_bar(as_json, subject, 2 * runs, "runs") as advance:
        result = refute(
            WatchedSubject(attacked, advance),
            delta=0.0 if isinstance(attacked.loss, PureDP) else attack.delta,
            runs=runs,
            confidence=attack.confidence,
            rng=np.random.default_rng(attack.seed),
        )
    if as_json:
        print_json(_record(subject, attack, result, replay))
    else:
        _print(subject, attack, result, replay, usual_runs)
    if result.refuted or (replay is not None and replay.refuted):
        raise typer.Exit(_REFUTED)
    if replay is not None and replay.undecided:
        raise typer.Exit(_UNDECIDED)


def _record(
    subject: str, attack: AttackOptions, result: "Audit", replay: "Replay | None"
) -> dict[str, Any]:
    names = (*result.__slots__, "refuted", "sharpness")
    record = {
        "subject": subject,
        "twin": attack.twin,
        "source": attack.source,
        "trust": attack.trust,
        **{name: getattr(result, name) for name in names},
    }
    return record if replay is None else record | {"replay": replay.to_json()}


def _print(
    subject: str,
    attack: AttackOptions,
    result: "Audit",
    replay: "Replay | None",
    usual_runs: int,
) -> None:
    from confide.audit.mechanisms import TWINS

    broken = f", broken variant ({TWINS[attack.twin]})" if attack.twin else ""
    typer.echo(f"{subject}{broken}: {result.runs:,} runs on each of two neighbouring data sets")
    mu = f", mu = {result.mu:.4g}" if result.mu is not None else ""
    typer.echo(f"  stated     epsilon = {result.epsilon:.4g} at delta = {result.delta:g}{mu}")
    mu_lower = f", mu >= {result.mu_lower:.4g}" if result.mu_lower is not None else ""
    typer.echo(
        f"  measured   epsilon >= {result.epsilon_lower:.4g}{mu_lower} "
        f"at {100 * attack.confidence:g} % confidence"
    )
    if result.detectable is not None:
        typer.echo(
            f"  power      a true epsilon of {result.detectable:.3g} or more is refuted by this "
            "attack with probability 90 %"
        )
    for line in [] if replay is None else replay.sentences():
        name, _, text = line.partition(": ")
        typer.echo(f"  {name:<10} {text}")
    typer.echo(f"  {_verdict(result, replay, usual_runs)}")


def _verdict(result: "Audit", replay: "Replay | None", usual_runs: int) -> str:
    """What was found. Neither an attack nor a replay proves a guarantee."""
    if result.refuted or (replay is not None and replay.refuted):
        return "REFUTED: the guarantee does not hold"
    if replay is not None and replay.undecided:
        return "NOT DECIDED: part of the output could not be compared"
    shares = {"epsilon": result.sharpness}
    if result.mu and result.mu_lower is not None:
        shares["mu"] = result.mu_lower / result.mu
    reached = " and ".join(
        f"{100 * share:.0f} % of the stated {name}" for name, share in shares.items()
    )
    verdict = f"not refuted ({reached} reached)"
    if result.sharpness >= _WEAK_SHARE:
        return verdict
    verdict += "; the attack was too weak to be conclusive, increase --runs"
    if result.runs < usual_runs:
        verdict += f": {result.runs:,} runs are few, the default is {usual_runs:,}"
    return verdict


def _subject(name: str, privacy: "CentralDP", **options: Any) -> "Subject":
    """What `confide.audit.subject` has by name, or a class of the user's own as an agent."""
    from confide.agents.catalogue import agent_class
    from confide.audit import subject
    from confide.audit.agents import AgentSubject, DeviceSubject
    from confide.errors import InvalidParameter
    from confide.learning.learner import Learner

    if ":" not in name:
        return subject(name, privacy, **options)
    own_class = agent_class(name)
    if not (isinstance(own_class, type) and issubclass(own_class, Learner)):
        raise InvalidParameter(
            f"{name} is not an agent: expected a subclass of confide.learning.learner.Learner"
        )
    # The class takes the place of an agent that is attacked in the same way.
    template = subject("ucrl-vtr", privacy, **options)
    assert isinstance(template, AgentSubject | DeviceSubject)
    return replace(template, agent=name)


@dataclass(frozen=True, slots=True)
class WatchedSubject:
    """A subject that reports progress.

    It always runs in parts, so that a seed gives the same result with and without a terminal.
    """

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

        size = max(_SMALLEST_PART, runs // _PARTS)
        observations = []
        for start in range(0, runs, size):
            part = self.inner.observe(world, min(size, runs - start), rng)
            observations.append(part)
            self.advance(len(part))
        return np.concatenate(observations)

    def score(self) -> "Score | None":
        return self.inner.score()
