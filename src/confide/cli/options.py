"""Options that several commands share."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

if TYPE_CHECKING:
    from confide.privacy.request import DistributedDP, JointDP, LocalDP, Request

# The delta of a run that states only epsilon. A usual choice in the literature.
DELTA = 1e-5
# What `--trust` takes.
TRUST_MODELS = ("joint", "local", "distributed")
# Headings of the help pages that more than one file uses.
PRIVACY_PANEL = "Privacy"
LEARNING_PANEL = "Learning"
PROBLEM_PANEL = "Problem"
OUTPUT_PANEL = "Output"

_TRUST_HELP = (
    "Who is trusted. joint: a curator sees all data and releases noisy statistics. local: every "
    "user's device adds noise before it sends anything. distributed: every device adds a share of "
    "the noise, and an ideal aggregator, which is simulated here, shows nothing but sums."
)

Epsilon = Annotated[float, typer.Option(help="Privacy budget: smaller is more private.")]
Delta = Annotated[
    float, typer.Option(help="Privacy parameter delta: the additive term of the guarantee.")
]
Trust = Annotated[str, typer.Option(metavar="|".join(TRUST_MODELS), help=_TRUST_HELP)]
Dropouts = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="With --trust distributed: the share of a batch's devices that may drop out. The "
        "guarantee holds without their noise.",
        show_default="0.1",
    ),
]
Episodes = Annotated[
    int,
    typer.Option("--episodes", "--users", help="Number of users; each plays one episode."),
]
ProblemSeed = Annotated[
    int,
    typer.Option(
        help="Seed that generates the instance of the problem.", rich_help_panel=PROBLEM_PANEL
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        help="Steps per episode, for problems that have no fixed horizon.",
        show_default=False,
        rich_help_panel=PROBLEM_PANEL,
    ),
]
Rewards = Annotated[
    str | None,
    typer.Option(
        metavar="learned|public",
        help="For gym:ID with a table. learned: the agent learns the rewards. public: it knows the "
        "mean reward of each state and action, which reveals something about the dynamics.",
        show_default="learned",
        rich_help_panel=PROBLEM_PANEL,
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Public range of the rewards of gym:ID, which is mapped to [0, 1]. Required if the "
        "environment has no table and --features is not given.",
        show_default=False,
        rich_help_panel=PROBLEM_PANEL,
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        metavar="tight|paper",
        help="tight: the least noise that the guarantee needs. paper: the constants printed in the "
        "paper.",
        show_default="tight",
    ),
]
BonusScale = Annotated[
    float | None,
    typer.Option(help="Scale of the exploration bonus.", show_default="depends on the agent"),
]
ReleaseSchedule = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        metavar="geometric|every|adaptive|N",
        help="When statistics are released. geometric: after batches that grow. every: after each "
        "user. adaptive: when the statistics have changed enough (lsvi-ucb only). A number N: "
        "after every N users.",
        show_default="depends on the agent",
    ),
]
CompareWith = Annotated[
    list[str] | None,
    typer.Option(
        metavar="AGENT",
        help="Compare with another agent, which has its own defaults. no-privacy stands for the "
        "same agent without privacy, and paper for the same agent with the constants printed in "
        "its paper. Can be given several times.",
        show_default=False,
        rich_help_panel=LEARNING_PANEL,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set another option of the agent's class. Can be given several times.",
        show_default=False,
        rich_help_panel=LEARNING_PANEL,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of text.", rich_help_panel=OUTPUT_PANEL),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes", help="Charge the ledger without a question. Needed where no terminal is attached."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPrivacyOptions:
    """The guarantee of an agent; without --epsilon there is none."""

    PANEL: ClassVar = PRIVACY_PANEL

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy budget: smaller is more private. Without it the agent runs without "
            "privacy.",
            show_default=False,
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            help="Privacy parameter delta; 0 for pure differential privacy.", show_default="1e-5"
        ),
    ] = None
    trust: Annotated[
        str | None,
        typer.Option(metavar="|".join(TRUST_MODELS), help=_TRUST_HELP, show_default="joint"),
    ] = None
    dropouts: Dropouts = None

    def request(self) -> "Request":
        """The privacy request.

        An incomplete request is refused, because it would run without privacy.
        """
        from confide.errors import InvalidParameter
        from confide.privacy.request import DistributedDP, NoPrivacy

        if self.trust is not None and self.trust not in TRUST_MODELS:
            raise InvalidParameter.of(
                "trust", f"must be joint, local or distributed, got {self.trust!r}"
            )
        if self.epsilon is None:
            self._refuse_options_without_epsilon()
            return NoPrivacy()
        delta = DELTA if self.delta is None else self.delta
        if self.dropouts is None:
            return _request_class(self.trust or "joint")(self.epsilon, delta)
        if self.trust != "distributed":
            raise InvalidParameter(
                "--dropouts is for --trust distributed: "
                "under other trust models a device that drops out takes no noise with it"
            )
        return DistributedDP(self.epsilon, delta, dropouts=self.dropouts)

    def _refuse_options_without_epsilon(self) -> None:
        from confide.errors import InvalidParameter

        others = {"--delta": self.delta, "--trust": self.trust, "--dropouts": self.dropouts}
        for option, value in others.items():
            if value is not None:
                raise InvalidParameter(
                    f"{option} needs --epsilon: "
                    f"add --epsilon, or omit {option} to run without privacy"
                )


def _request_class(trust: str) -> "type[JointDP | LocalDP | DistributedDP]":
    from confide.privacy.request import DistributedDP, JointDP, LocalDP

    if trust == "local":
        return LocalDP
    return DistributedDP if trust == "distributed" else JointDP


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How long an agent learns, and the options that many agents have."""

    PANEL: ClassVar = LEARNING_PANEL

    episodes: Episodes = 100_000
    calibration: Calibration = None
    bonus_scale: BonusScale = None
    schedule: ReleaseSchedule = None

    def for_spec(self, settings: list[str] | None = None) -> tuple[tuple[str, Any], ...]:
        """The options that were given, in the form of `RunSpec.options`.

        `settings` are those of --set. An agent refuses an option that it does not have.
        """
        from confide.agents.catalogue import schedule_of
        from confide.errors import InvalidParameter
        from confide.runs.spec import Named, read_value

        schedule = None
        if self.schedule is not None:
            schedule = Named(self.schedule, schedule_of(self.schedule, self.episodes))
        values = {
            "calibration": self.calibration,
            "bonus_scale": self.bonus_scale,
            "schedule": schedule,
        }
        options = {name: value for name, value in values.items() if value is not None}
        for setting in settings or ():
            name, equals, value = setting.partition("=")
            if not equals or not name or name in options:
                raise InvalidParameter(
                    f"--set needs NAME=VALUE, once for each name, got {setting!r}"
                )
            options[name] = read_value(value)
        return tuple(options.items())


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
