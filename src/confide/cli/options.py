"""Options that several commands share."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from confide.privacy.request import Request
    from confide.privatizers import Schedule

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
        help="When to release: geometric, every (user), or a number: after each so many users.",
        show_default="its own",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def privacy_of(epsilon: float | None, delta: float, trust: str) -> "Request":
    from confide.errors import InvalidParameter
    from confide.privacy.request import JointDP, LocalDP, NoPrivacy

    if trust not in ("joint", "local"):
        raise InvalidParameter(f"trust must be joint or local, got {trust!r}")
    if epsilon is None:
        return NoPrivacy()
    return JointDP(epsilon, delta) if trust == "joint" else LocalDP(epsilon, delta)


def schedule_of(text: str, episodes: int) -> "Schedule":
    """By name, or a release after each so many users."""
    from confide.errors import InvalidParameter
    from confide.privatizers import every, every_episode, geometric

    if text.isdecimal():
        return every(int(text), episodes)
    made = {"geometric": geometric, "every": every_episode}.get(text)
    if made is None:
        raise InvalidParameter(f"schedule must be geometric, every or a number of users, got {text!r}")
    return made(episodes)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
