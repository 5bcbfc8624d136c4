"""Groups of options of the commands that read a log, release something from it, or plan that."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.options import OUTPUT_PANEL, PRIVACY_PANEL, AsJson, Yes

if TYPE_CHECKING:
    from confide.logs import Logs
    from confide.privacy.ledger import Ledger
    from confide.privacy.request import Request
    from confide.release.noise import ChosenNoise

# Headings of the help pages that more than one file uses.
COLUMNS_PANEL = "Columns of the log"
LIMITS_PANEL = "How much of each user is used"
READING_PANEL = "Reading"
LEDGER_PANEL = "Ledger"
NOISE_PANEL = "Noise"

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES...",
        help="Parquet or Arrow files, glob patterns or folders.",
        show_default=False,
    ),
]
State = Annotated[str, typer.Option(metavar="COLUMN", help="Column of states.")]
Reward = Annotated[str, typer.Option(metavar="COLUMN", help="Column of rewards.")]
Action = Annotated[str, typer.Option(metavar="COLUMN", help="Column of actions, if needed.")]
Probability = Annotated[
    str,
    typer.Option(
        metavar="COLUMN",
        help="Column of the probabilities with which actions were chosen, if needed.",
    ),
]
MaxTrajectories = Annotated[
    int,
    typer.Option(
        help="Use at most this many trajectories per user.", min=1, rich_help_panel=LIMITS_PANEL
    ),
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
Relation = Annotated[
    str,
    typer.Option(
        metavar="replace|null",
        help="Which data sets are neighbours. replace: one user is replaced by another one. null: "
        "one user contributes zero.",
    ),
]
_ESTIMATORS = (
    "One of counts-and-sums, dp-lsw, dp-lsl, sufficient-statistics, lstd, importance-sampling and "
    "weighted-importance-sampling."
)
EstimatorName = Annotated[str, typer.Option(metavar="ESTIMATOR", help=_ESTIMATORS)]
ChosenEstimator = Annotated[
    str | None,
    typer.Option(
        metavar="ESTIMATOR",
        help=_ESTIMATORS,
        show_default="counts-and-sums, or weighted-importance-sampling with --target",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The columns of a log, and how much of each user is used."""

    PANEL: ClassVar = COLUMNS_PANEL

    max_trajectories: MaxTrajectories = 1
    max_steps: Annotated[
        int,
        typer.Option(
            help="Use at most this many steps per trajectory.", min=1, rich_help_panel=LIMITS_PANEL
        ),
    ] = 10_000
    user: Annotated[
        str,
        typer.Option(metavar="COLUMN", help="Column of user ids. A user is the unit of privacy."),
    ] = "user"
    trajectory: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column of trajectory ids; empty if each user has one trajectory.",
        ),
    ] = "trajectory"
    step: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", help="Column of step numbers; empty if the rows are in order."
        ),
    ] = "step"
    state: State = "state"
    reward: Reward = "reward"
    action: Action = ""
    probability: Probability = ""

    def layout(self, **more: str | None) -> dict[str, Any]:
        """The arguments of `confide.logs.open`.

        The columns of actions and of their probabilities are missing unless they are in `more`,
        because not every command needs them.
        """
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
    """The guarantee that is requested, of a release that adds noise."""

    PANEL: ClassVar = PRIVACY_PANEL

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy budget: smaller is more private. Must be stated.", show_default=False
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            help="Privacy parameter delta; it should be below 1/users. Must be stated.",
            show_default=False,
        ),
    ] = None
    relation: Relation = "replace"

    def request(self) -> "Request":
        """The privacy request. An incomplete one is refused."""
        from confide.errors import InvalidParameter
        from confide.privacy.request import CentralDP, parse_relation

        relation = parse_relation(self.relation)
        values = {"--epsilon": self.epsilon, "--delta": self.delta}
        missing = [option for option, value in values.items() if value is None]
        if self.epsilon is None or self.delta is None:
            raise InvalidParameter(
                "give --epsilon and --delta (below one over the number of users), "
                f"{' and '.join(missing)} missing"
            )
        return CentralDP(self.epsilon, self.delta, relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePrivacyOptions(PrivacyOptions):
    """The guarantee that is requested, or that there is none."""

    no_privacy: Annotated[
        bool,
        typer.Option(
            "--no-privacy",
            help="Add no noise, instead of --epsilon and --delta. NOT PRIVATE: the result is only "
            "for those who hold the data.",
        ),
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
    """The ledger that is charged for a release, and the release's identifier in it."""

    PANEL: ClassVar = LEDGER_PANEL

    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ledger file to charge. `confide ledger init` creates one.",
            show_default=False,
        ),
    ] = None
    yes: Yes = False
    name: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Identifier of this release in the ledger. A new identifier makes a new release, "
            "and charges for it.",
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

    PANEL: ClassVar = NOISE_PANEL

    source: Annotated[
        str | None,
        typer.Option(
            metavar="secure|fast",
            help="Source of the noise. secure: for real data. fast: from a seed, for simulation.",
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

    PANEL: ClassVar = READING_PANEL

    backend: Annotated[
        str,
        typer.Option(
            metavar="local|ray|dask",
            help="Where the log is read. local: in processes of this machine.",
        ),
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

    PANEL: ClassVar = OUTPUT_PANEL

    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save the estimate, its certificate and a report to this folder.",
        ),
    ] = None
    as_json: AsJson = False


def declared_size(kind: str, stated: int | None, files: Sequence[str]) -> int:
    """The number of states or actions, which `kind` ("state" or "action") chooses.

    Without a `stated` number it is that of the labels which the log's files declare.
    """
    from confide.errors import InvalidParameter
    from confide.logs.labels import labels_of

    if stated is not None:
        return stated
    labels = getattr(labels_of(files), kind)
    if not labels:
        raise InvalidParameter(
            f"--{kind}s is missing: the log declares no labels of {kind}s "
            f"(confide logs import --{kind}s-file does)"
        )
    return len(labels)
