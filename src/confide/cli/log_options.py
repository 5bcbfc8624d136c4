"""Groups of options of the commands that read a log, release something from it, or plan such a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, Yes

if TYPE_CHECKING:
    from confide.logs import Logs
    from confide.privacy.ledger import Ledger
    from confide.privacy.request import Request
    from confide.release.noise import ChosenNoise

Files = Annotated[
    list[str],
    typer.Argument(help="Parquet or Arrow files, glob patterns or folders.", show_default=False),
]
State = Annotated[str, typer.Option(help="Column of states.")]
Reward = Annotated[str, typer.Option(help="Column of rewards.")]
Action = Annotated[str, typer.Option(help="Column of actions, if needed.")]
Probability = Annotated[
    str, typer.Option(help="Column of the probabilities with which actions were chosen, if needed.")
]
MaxTrajectories = Annotated[
    int, typer.Option(help="Use at most this many trajectories per user.", min=1)
]
States = Annotated[
    int | None,
    typer.Option(
        help="Number of states; states are numbered from 0.",
        min=1,
        show_default="as the log declares",
    ),
]
Discount = Annotated[float, typer.Option(help="Discount factor of future rewards.")]
ESTIMATORS = (
    "counts-and-sums, dp-lsw, dp-lsl, sufficient-statistics, lstd, importance-sampling or "
    "weighted-importance-sampling."
)
EstimatorName = Annotated[str, typer.Option(help=ESTIMATORS)]
ChosenEstimator = Annotated[
    str | None,
    typer.Option(
        help=ESTIMATORS,
        show_default="counts-and-sums, or weighted-importance-sampling with --target",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The columns of a log, and how much of each user is used."""

    max_trajectories: MaxTrajectories = 1
    max_steps: Annotated[
        int, typer.Option(help="Use at most this many steps per trajectory.", min=1)
    ] = 10_000
    user: Annotated[
        str, typer.Option(help="Column of user ids. A user is the unit of privacy.")
    ] = "user"
    trajectory: Annotated[
        str, typer.Option(help="Column of trajectory ids; empty if each user has one trajectory.")
    ] = "trajectory"
    step: Annotated[
        str, typer.Option(help="Column of step numbers; empty if rows are in order.")
    ] = "step"
    state: State = "state"
    reward: Reward = "reward"
    action: Action = ""
    probability: Probability = ""

    def layout(self, **more: str | None) -> dict[str, Any]:
        """The arguments of `confide.logs.open`, without actions and their probabilities but with `more`."""
        return {
            "user": self.user,
            "trajectory": self.trajectory or None,
            "step": self.step or None,
            "state": self.state,
            "reward": self.reward,
            "max_trajectories": self.max_trajectories,
            "max_steps": self.max_steps,
        } | more


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyOptions:
    """The guarantee that is asked for, of a release that adds noise."""

    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy budget: smaller is more private.", show_default=False),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(help="Privacy parameter delta; should be below 1/users.", show_default=False),
    ] = None
    relation: Annotated[
        str,
        typer.Option(
            help="Neighbouring data sets: replace (one user is replaced) or null (one user contributes zero)."
        ),
    ] = "replace"

    def request(self) -> "Request":
        """The privacy request. An incomplete one is refused."""
        from confide.errors import InvalidParameter
        from confide.privacy.request import CentralDP, parse_relation

        neighbours = parse_relation(self.relation)
        values = {"--epsilon": self.epsilon, "--delta": self.delta}
        missing = [option for option, value in values.items() if value is None]
        if self.epsilon is None or self.delta is None:
            raise InvalidParameter(
                f"give --epsilon and --delta (below one over the number of users), {' and '.join(missing)} missing"
            )
        return CentralDP(self.epsilon, self.delta, neighbours)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePrivacyOptions(PrivacyOptions):
    """The guarantee that is asked for, or that there is none."""

    no_privacy: Annotated[
        bool,
        typer.Option("--no-privacy", help="Add no noise. NOT PRIVATE: for the data holder only."),
    ] = False

    def request(self) -> "Request":
        """The privacy request. No privacy must be requested explicitly."""
        from confide.errors import InvalidParameter
        from confide.privacy.request import NoPrivacy, parse_relation

        if not self.no_privacy:
            return PrivacyOptions.request(self)
        parse_relation(self.relation)
        if self.epsilon is not None or self.delta is not None:
            raise InvalidParameter(
                "--no-privacy cannot be combined with --epsilon or --delta: omit one or the other"
            )
        return NoPrivacy()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeOptions:
    """Who is charged for a release, and under which identifier."""

    ledger: Annotated[
        Path | None, typer.Option(help="Ledger file to charge.", show_default=False)
    ] = None
    yes: Yes = False
    name: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="Identifier of this release in the ledger. A new identifier makes, and charges, a new release.",
            show_default=False,
        ),
    ] = None

    def open_ledger(self, privacy: "Request") -> "Ledger | None":
        """The ledger. Without privacy nothing is charged."""
        from confide.privacy.ledger import Ledger
        from confide.privacy.request import NoPrivacy

        if self.ledger is None or isinstance(privacy, NoPrivacy):
            return None
        return Ledger(self.ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseOptions:
    """The source of the noise of one release."""

    source: Annotated[
        str | None,
        typer.Option(
            help="Noise source: secure (for real data) or fast (seeded, for simulation).",
            show_default="secure",
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option(help="Seed of fast noise.", min=0, show_default=False)
    ] = None

    def choose(self, *, lattice: bool, no_privacy: bool) -> "ChosenNoise":
        from confide.release.noise import choose_noise

        return choose_noise(self.source, self.seed, lattice=lattice, no_privacy=no_privacy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """Where a log is read."""

    backend: Annotated[
        str, typer.Option(help="Where the log is read: local (processes), ray or dask.")
    ] = "local"
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes that read the log.", min=1, show_default=False),
    ] = None

    def check(self) -> None:
        from confide.execution import check_backend

        check_backend(self.backend, self.workers)

    def prepare(self, logs: "Logs") -> "Logs":
        return logs.on(self.backend, workers=self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Where a result goes."""

    out: Annotated[
        Path | None,
        typer.Option(help="Save the estimate, its certificate and a report to this folder."),
    ] = None
    as_json: AsJson = False


def declared_size(kind: str, given: int | None, files: Sequence[str]) -> int:
    """The number of states or actions: as given, or that of the labels which the log's files declare."""
    from confide.errors import InvalidParameter
    from confide.logs.labels import labels_of

    if given is not None:
        return given
    labels = getattr(labels_of(files), kind)
    if not labels:
        raise InvalidParameter(
            f"--{kind}s is missing: the log declares no labels of {kind}s (confide logs import --{kind}s-file does)"
        )
    return len(labels)
