"""confide plan learn: how many users a log needs until the learned policy improves on the logged one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.plan import Delta, Discount, Epsilon, Relation, promise_of

if TYPE_CHECKING:
    from confide.problems import TabularMDP

_STEPS = 21
_TIMES = (0.5, 1.0, 2.0)  # the epsilon that is asked for


def learn(
    on: Annotated[
        str | None,
        typer.Option(
            help="Public problem similar to yours: a table from `confide list`, or a saved problem.",
            show_default=False,
        ),
    ] = None,
    states: Annotated[
        int | None,
        typer.Option(
            help="Without --on: number of states of a random table.", min=2, show_default=False
        ),
    ] = None,
    actions: Annotated[
        int | None,
        typer.Option(help="Number of actions of the random table.", min=2, show_default=False),
    ] = None,
    successors: Annotated[
        int, typer.Option(help="Successors of each state and action of the random table.", min=1)
    ] = 3,
    epsilon: Epsilon = None,
    delta: Delta = None,
    discount: Discount = 0.95,
    transitions: Annotated[
        int, typer.Option(help="Number of transitions counted per user.", min=1)
    ] = 20,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of steps of a trajectory.",
            min=2,
            show_default="21, or those of a saved problem",
        ),
    ] = None,
    known_rewards: Annotated[
        bool, typer.Option("--known-rewards/--learned-rewards", help="Whether rewards are public.")
    ] = True,
    usual: Annotated[
        float | None,
        typer.Option(
            help="Probability of the usual action of each state under the logged policy.",
            show_default="all alike",
        ),
    ] = None,
    pessimism: Annotated[float, typer.Option(help="As for `confide learn`.", min=0)] = 1.0,
    score: Annotated[
        float,
        typer.Option(
            help="Required improvement, as a share of the gap between the logged and the best policy."
        ),
    ] = 0.1,
    runs: Annotated[
        int,
        typer.Option(
            help="Simulations for each number of users; half of them must succeed.",
            min=1,
            max=10_000,
        ),
    ] = 40,
    relation: Relation = "replace",
    problem_seed: Annotated[
        int, typer.Option(help="Seed that generates the instance of the problem.", min=0)
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Predict how many users `confide learn` needs to improve on the logged policy, for several epsilons. No data are read."""
    from confide.errors import InvalidParameter
    from confide.offline.people_needed import people_needed, rehearsal

    privacy = promise_of(epsilon, delta, relation)
    world = _world(on, (states, actions, successors), problem_seed, steps)
    made, behaviour = _release(world, problem_seed, discount, transitions, known_rewards, usual)
    found, rows = rehearsal(made, world, behaviour), []
    for one in [times * privacy.epsilon for times in _TIMES]:
        try:
            needed = people_needed(
                found,
                promise_of(one, privacy.delta, relation),
                pessimism=pessimism,
                score=score,
                runs=runs,
            )
        except InvalidParameter:
            if one == privacy.epsilon:
                raise
            continue
        rows.append({"epsilon": one, "people": needed})
    sizes = (
        f"{made.states:,} states, {made.actions:,} actions, trajectories of {world.horizon:,} steps"
    )
    assumed = f"the log is like {world.name if on else 'a random table'}: {sizes}"
    if not on:
        assumed += ". In a table with another structure the number may be many times larger or smaller: use --on with a table like yours"
    if as_json:
        print_json({"people": rows, "score": score, "assumed": assumed, "delta": privacy.delta})
        return
    _print(rows, privacy.epsilon, score, assumed)


def _world(
    on: str | None, sizes: tuple[int | None, int | None, int], seed: int, steps: int | None
) -> "TabularMDP":
    """The public problem: a table by name, of a file, or a random one of these states, actions and successors."""
    from confide.errors import InvalidParameter
    from confide.problems import TabularMDP, garnet
    from confide.problems.catalogue import PROBLEMS, make

    states, actions, successors = sizes
    if on is None:
        if states is None or actions is None:
            raise InvalidParameter("give --on, a table similar to yours, or --states and --actions")
        few = min(successors, states)
        return garnet(
            states=states,
            actions=actions,
            branches=few,
            rewarded=max(1, states // 10),
            horizon=steps or _STEPS,
            seed=seed,
        )
    if states is not None or actions is not None:
        raise InvalidParameter("--on has its own states and actions: omit --states and --actions")
    world = make(on, seed=seed, horizon=steps or (_STEPS if on in PROBLEMS else None))
    if not isinstance(world, TabularMDP):
        raise InvalidParameter(
            f"{on} is not a table: choose riverswim, garnet or another one from `confide list`"
        )
    return world


def _release(
    world: "TabularMDP",
    seed: int,
    discount: float,
    transitions: int,
    known: bool,
    usual: float | None,
) -> Any:
    """What is released, and the behaviour [s, a]; None if all actions are alike."""
    import numpy as np

    from confide.arguments import real
    from confide.offline import ModelRelease

    rewards = world.rewards[0]
    S, A = rewards.shape
    made = ModelRelease(
        states=S,
        actions=A,
        discount=discount,
        transitions=transitions,
        rewards=rewards if known else None,
        reward_range=(0.0, 1.0),
        terminal=world.terminal,
        ends=False,
    )
    if usual is None:
        return made, None
    habit = np.full((S, A), (1 - real("--usual", usual, at_least=0, at_most=1)) / max(A - 1, 1))
    habit[np.arange(S), np.random.default_rng(seed).integers(A, size=S)] = usual
    return made, habit / habit.sum(axis=1, keepdims=True)


def _print(rows: list[dict[str, Any]], epsilon: float, score: float, assumed: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    title = f"Users needed until the learned policy closes {100 * score:g} % of the gap between the logged and the best policy:"
    console.print(Text(title, style="bold"))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for head in ("epsilon", "people"):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            f"{row['epsilon']:g}",
            f"{row['people']:,}",
            style="bold" if row["epsilon"] == epsilon else None,
        )
    console.print(table)
    console.print(
        Text(
            f"assumed: {assumed}. With --holdout, this many are needed in the part that the policy is learned from."
        )
    )
    console.print(Text("No data were read, and no budget was spent."))
