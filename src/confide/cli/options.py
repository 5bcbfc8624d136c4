"""Options that several commands share."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from confide.privacy.request import Request

DELTA = 1e-5

Epsilon = Annotated[float, typer.Option(help="Privacy budget: smaller is more private.")]
Delta = Annotated[
    float, typer.Option(help="Privacy parameter delta: the additive term of the guarantee.")
]
Trust = Annotated[
    str,
    typer.Option(
        help="Trust model: joint (a trusted curator), local (noise is added on each user's device), or distributed (each device adds a "
        "share of the noise, and an ideal aggregator, which is simulated here, shows the sums).",
    ),
]
Dropouts = Annotated[
    float | None,
    typer.Option(
        help="Under distributed trust: share of the devices of a batch that may drop out. The guarantee holds without their noise.",
        show_default="0.1",
    ),
]
Episodes = Annotated[int, typer.Option(help="Number of users; each plays one episode.")]
ProblemSeed = Annotated[int, typer.Option(help="Seed that generates the instance of the problem.")]
Horizon = Annotated[
    int | None,
    typer.Option(
        help="Steps per episode, for problems that have no fixed horizon.", show_default=False
    ),
]
Rewards = Annotated[
    str | None,
    typer.Option(
        help="For gym:ID with a table: learned, or public (the mean rewards of each state and action are known, which reveals something "
        "about the dynamics).",
        show_default="learned",
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Public range of the rewards of gym:ID, which is mapped to [0, 1]; "
        "required if the environment has no table and no --features.",
        show_default=False,
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        help="tight: the least noise that the guarantee needs; paper: the constants printed in the paper.",
        show_default="tight",
    ),
]
BonusScale = Annotated[
    float | None,
    typer.Option(help="Scale of the exploration bonus.", show_default="depends on the agent"),
]
When = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        help="Release schedule: geometric, every (after each user), adaptive (lsvi-ucb only), or a number N (after every N users).",
        show_default="depends on the agent",
    ),
]
CompareWith = Annotated[
    list[str] | None,
    typer.Option(
        help="Another agent to compare with, with its own defaults; `no-privacy` is the same agent without privacy, `paper` the same "
        "agent with the constants printed in its paper. Can be given several times.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Set another option of the agent's class, as NAME=VALUE. Can be given several times.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


Yes = Annotated[
    bool,
    typer.Option(
        "--yes", help="Charge the ledger without a question. Needed where no terminal is attached."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPrivacyOptions:
    """The guarantee of an agent; without --epsilon there is none."""

    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy budget: smaller is more private. Without it the agent runs without privacy.",
            show_default=False,
        ),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            help="Privacy parameter delta; 0 for pure differential privacy.",
            show_default=f"{DELTA:g}",
        ),
    ] = None
    trust: Annotated[
        str | None,
        typer.Option(
            help="Trust model: joint (a trusted curator), local (noise is added on each user's device), or distributed (each device adds "
            "a share of the noise, and an ideal aggregator, which is simulated here, shows the sums).",
            show_default="joint",
        ),
    ] = None
    dropouts: Dropouts = None

    def request(self) -> "Request":
        """The privacy request. An incomplete request is refused: it would run without privacy."""
        from confide.errors import InvalidParameter
        from confide.privacy.request import DistributedDP, JointDP, LocalDP, NoPrivacy

        kinds: dict[str, type[JointDP | LocalDP | DistributedDP]] = {
            "joint": JointDP,
            "local": LocalDP,
            "distributed": DistributedDP,
        }
        if self.trust is not None and self.trust not in kinds:
            raise InvalidParameter.of(
                "trust", f"must be joint, local or distributed, got {self.trust!r}"
            )
        if self.epsilon is None:
            others = {"--delta": self.delta, "--trust": self.trust, "--dropouts": self.dropouts}
            for option, value in others.items():
                if value is not None:
                    raise InvalidParameter(
                        f"{option} needs --epsilon: add --epsilon, or omit {option} to run without privacy"
                    )
            return NoPrivacy()
        delta = DELTA if self.delta is None else self.delta
        if self.dropouts is None:
            return kinds[self.trust or "joint"](self.epsilon, delta)
        if self.trust != "distributed":
            raise InvalidParameter(
                "--dropouts is for --trust distributed: under other trust models no noise is missing"
            )
        return DistributedDP(self.epsilon, delta, dropouts=self.dropouts)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How long an agent learns, and the options that many agents have."""

    episodes: Episodes = 100_000
    calibration: Calibration = None
    bonus_scale: BonusScale = None
    schedule: When = None

    def chosen(self, settings: list[str] | None = None) -> tuple[tuple[str, Any], ...]:
        """The options that were given, in the form of `RunSpec.options`.

        An agent refuses an option that it does not have.
        """
        from confide.agents.catalogue import schedule_of
        from confide.errors import InvalidParameter
        from confide.runs.spec import Named, read_value

        named = self.schedule
        schedule = None if named is None else Named(named, schedule_of(named, self.episodes))
        given = {
            "calibration": self.calibration,
            "bonus_scale": self.bonus_scale,
            "schedule": schedule,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        for text in settings or ():
            name, equals, value = text.partition("=")
            if not equals or not name or name in chosen:
                raise InvalidParameter(f"--set needs NAME=VALUE, once for each name, got {text!r}")
            chosen[name] = read_value(value)
        return tuple(chosen.items())


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
