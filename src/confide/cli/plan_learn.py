"""confide plan learn: how many people a log needs until what is learned beats what was done."""

from typing import Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.plan import Delta, Discount, Epsilon, Relation, promise_of

_TIMES = (0.5, 1.0, 2.0)  # the epsilon that is asked for


def learn(
    on: Annotated[
        str,
        typer.Option(help="Public stand-in: a table from `confide list`, or the file of a saved problem.", show_default=False),
    ],
    epsilon: Epsilon = None,
    delta: Delta = None,
    discount: Discount = 0.95,
    transitions: Annotated[int, typer.Option(help="Transitions counted per user.", min=1)] = 20,
    steps: Annotated[int, typer.Option(help="Steps of a trajectory.", min=2)] = 21,
    known_rewards: Annotated[bool, typer.Option("--known-rewards/--learned-rewards", help="Whether rewards are public.")] = True,
    usual: Annotated[
        float | None,
        typer.Option(help="Share of the time that one action is taken in each state, by habit.", show_default="all alike"),
    ] = None,
    pessimism: Annotated[float, typer.Option(help="As of `confide learn`.", min=0)] = 1.0,
    score: Annotated[
        float, typer.Option(help="Share of the way from what was done to the best policy that counts as better.")
    ] = 0.1,
    runs: Annotated[int, typer.Option(help="Rehearsals for each number of people; half of them must succeed.", min=1, max=10_000)] = 40,
    relation: Relation = "replace",
    problem_seed: Annotated[int, typer.Option(help="Instance of the stand-in.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Predict how many people `confide learn` needs to beat what was done, for several epsilons. No data are read."""
    from confide.errors import InvalidParameter
    from confide.offline.people_needed import people_needed, rehearsal

    privacy = promise_of(epsilon, delta, relation)
    made, world, behaviour = _stand_in(on, problem_seed, steps, discount, transitions, known_rewards, usual)
    found, rows = rehearsal(made, world, behaviour), []
    for one in [times * privacy.epsilon for times in _TIMES]:
        try:
            needed = people_needed(found, promise_of(one, privacy.delta, relation), pessimism=pessimism, score=score, runs=runs)
        except InvalidParameter:
            if one == privacy.epsilon:
                raise
            continue
        rows.append({"epsilon": one, "people": needed})
    assumed = f"the log is like {world.name}: {made.states:,} states, {made.actions:,} actions, trajectories of {steps:,} steps"
    if as_json:
        print_json({"people": rows, "score": score, "assumed": assumed, "delta": privacy.delta})
        return
    _print(rows, privacy.epsilon, score, assumed)


def _stand_in(on: str, seed: int, steps: int, discount: float, transitions: int, known: bool, usual: float | None) -> Any:
    import numpy as np

    from confide.arguments import real
    from confide.errors import InvalidParameter
    from confide.offline import ModelRelease
    from confide.problems import TabularMDP
    from confide.problems.catalogue import make

    world = make(on, seed=seed, horizon=steps)
    if not isinstance(world, TabularMDP):
        raise InvalidParameter(f"{on} is no table: choose riverswim, garnet or another one from `confide list`")
    rewards = world.rewards[0]
    S, A = rewards.shape
    made = ModelRelease(
        states=S,
        actions=A,
        discount=discount,
        transitions=transitions,
        rewards=rewards if known else None,
        terminal=world.terminal,
        ends=False,
    )
    if usual is None:
        return made, world, None
    habit = np.full((S, A), (1 - real("--usual", usual, at_least=0, at_most=1)) / max(A - 1, 1))
    habit[np.arange(S), np.random.default_rng(seed).integers(A, size=S)] = usual
    return made, world, habit / habit.sum(axis=1, keepdims=True)


def _print(rows: list[dict[str, Any]], epsilon: float, score: float, assumed: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    title = f"People needed until what is learned is {100 * score:g} % of the way from what was done to the best policy:"
    console.print(Text(title, style="bold"))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for head in ("epsilon", "people"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(f"{row['epsilon']:g}", f"{row['people']:,}", style="bold" if row["epsilon"] == epsilon else None)
    console.print(table)
    console.print(Text(f"assumed: {assumed}. With --holdout, so many are needed in the part that learns."))
    console.print(Text("No data were read, and no budget was spent."))
