"""Options that several commands share."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from confide.privacy.request import Request

DELTA = 1e-5

Epsilon = Annotated[float, typer.Option(help="The privacy budget: smaller is more private.")]
Delta = Annotated[float, typer.Option(help="The probability that the promise may fail by.")]
Trust = Annotated[str, typer.Option(help="joint: a curator is trusted; local: nobody is.")]
Episodes = Annotated[int, typer.Option(help="How many users take part, one episode each.")]
ProblemSeed = Annotated[int, typer.Option(help="Which instance of the problem.")]
Horizon = Annotated[int | None, typer.Option(help="Steps per episode, where the problem leaves it open.", show_default=False)]
Calibration = Annotated[
    str | None,
    typer.Option(help="tight: as little noise as the promise needs; paper: constants as printed.", show_default="tight"),
]
BonusScale = Annotated[float | None, typer.Option(help="How optimistic the agent is.", show_default="the agent's own")]
When = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        help="When to release: geometric, every (user), adaptive (lsvi-ucb), or a number: after each so many users.",
        show_default="its own",
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
Beside = Annotated[list[str] | None, typer.Option(hidden=True)]  # the former name of --compare-with
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other option of the agent: NAME=VALUE, as its class takes it.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def privacy_of(epsilon: float | None, delta: float | None, trust: str | None) -> "Request":
    """What was asked for; None is what was not given. Half a promise is refused: it would run without any."""
    from confide.errors import InvalidParameter
    from confide.privacy.request import JointDP, LocalDP, NoPrivacy

    if trust not in ("joint", "local", None):
        raise InvalidParameter(f"trust must be joint or local, got {trust!r}")
    if epsilon is None:
        half = [name for name, value in (("--delta", delta), ("--trust", trust)) if value is not None]
        if half:
            raise InvalidParameter(f"{half[0]} without --epsilon promises nothing: give --epsilon, or leave {half[0]} out")
        return NoPrivacy()
    return (LocalDP if trust == "local" else JointDP)(epsilon, DELTA if delta is None else delta)


def agent_options(
    calibration: str | None,
    bonus_scale: float | None,
    schedule: str | None,
    episodes: int,
    settings: list[str] | None = None,
) -> tuple[tuple[str, Any], ...]:
    """Those that were given, as a `RunSpec` keeps them; an agent that does not take one says so."""
    from confide.agents.catalogue import schedule_of
    from confide.errors import InvalidParameter
    from confide.experiments.spec import Named, read_value

    times = None if schedule is None else Named(schedule, schedule_of(schedule, episodes))
    given = {"calibration": calibration, "bonus_scale": bonus_scale, "schedule": times}
    chosen = {name: value for name, value in given.items() if value is not None}
    for text in settings or ():
        name, equals, value = text.partition("=")
        if not equals or not name or name in chosen:
            raise InvalidParameter(f"--set needs NAME=VALUE, once for each name, got {text!r}")
        chosen[name] = read_value(value)
    return tuple(chosen.items())


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
