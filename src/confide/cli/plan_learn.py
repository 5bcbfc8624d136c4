"""confide plan learn: how many users a log needs until its policy can be improved."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.groups import with_groups
from confide.cli.log_options import Discount, PrivacyOptions
from confide.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from confide.problems import TabularMDP

# Steps of a trajectory where the problem states none. A matter of taste.
_STEPS = 21
# The number of users is predicted for these multiples of the requested epsilon.
_EPSILON_MULTIPLES = (0.5, 1.0, 2.0)
# A random problem has one rewarded state for so many states. A matter of taste.
_STATES_PER_REWARD = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarProblemOptions:
    """A public problem that is similar to the one in the log."""

    PANEL: ClassVar = "A similar problem"

    on: Annotated[
        str | None,
        typer.Option(
            metavar="PROBLEM",
            help="Public problem similar to yours: a tabular MDP from `confide list`, or the file "
            "of a saved problem.",
            show_default=False,
        ),
    ] = None
    states: Annotated[
        int | None,
        typer.Option(
            help="Without --on: number of states of a random tabular MDP.",
            min=2,
            show_default=False,
        ),
    ] = None
    actions: Annotated[
        int | None,
        typer.Option(help="Number of its actions.", min=2, show_default=False),
    ] = None
    successors: Annotated[
        int, typer.Option(help="Successors of each of its states and actions.", min=1)
    ] = 3
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of steps of a trajectory.",
            min=2,
            show_default="21, or those of a saved problem",
        ),
    ] = None
    problem_seed: Annotated[
        int, typer.Option(help="Seed that generates the instance of the problem.", min=0)
    ] = 0

    def problem(self) -> "TabularMDP":
        """A tabular MDP by name or from a file, or a random one of these sizes."""
        from confide.errors import InvalidParameter
        from confide.problems import TabularMDP, garnet
        from confide.problems.catalogue import PROBLEMS, make

        if self.on is None:
            if self.states is None or self.actions is None:
                raise InvalidParameter(
                    "give --on, a tabular MDP similar to yours, or --states and --actions"
                )
            return garnet(
                states=self.states,
                actions=self.actions,
                branches=min(self.successors, self.states),
                rewarded=max(1, self.states // _STATES_PER_REWARD),
                horizon=self.steps or _STEPS,
                seed=self.problem_seed,
            )
        if self.states is not None or self.actions is not None:
            raise InvalidParameter(
                "--on has its own states and actions: omit --states and --actions"
            )
        usual_steps = _STEPS if self.on in PROBLEMS else None
        world = make(self.on, seed=self.problem_seed, horizon=self.steps or usual_steps)
        if not isinstance(world, TabularMDP):
            raise InvalidParameter(
                f"{self.on} is not a tabular MDP: "
                "choose riverswim, garnet or another one from `confide list`"
            )
        return world


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModelOptions:
    """The model that would be released, and the policy that would make the log."""

    PANEL: ClassVar = "Model"

    discount: Discount = 0.95
    transitions: Annotated[
        int, typer.Option(help="Number of transitions counted per user.", min=1)
    ] = 20
    known_rewards: Annotated[
        bool, typer.Option("--known-rewards/--learned-rewards", help="Whether rewards are public.")
    ] = True
    usual: Annotated[
        float | None,
        typer.Option(
            metavar="PROBABILITY",
            help="Probability of the usual action of each state under the logged policy.",
            show_default="that of every action",
        ),
    ] = None

    def question(self, world: "TabularMDP") -> Any:
        from confide.offline import ModelRelease

        rewards = world.rewards[0]
        return ModelRelease(
            states=rewards.shape[0],
            actions=rewards.shape[1],
            discount=self.discount,
            transitions=self.transitions,
            rewards=rewards if self.known_rewards else None,
            reward_range=(0.0, 1.0),
            terminal=world.terminal,
            ends=False,
        )

    def behaviour(self, states: int, actions: int, seed: int) -> Any:
        """The probabilities [s, a] of the logged policy; None if it plays uniformly."""
        import numpy as np

        from confide.arguments import real

        if self.usual is None:
            return None
        usual = real("--usual", self.usual, at_least=0, at_most=1)
        behaviour = np.full((states, actions), (1 - usual) / max(actions - 1, 1))
        usual_actions = np.random.default_rng(seed).integers(actions, size=states)
        behaviour[np.arange(states), usual_actions] = usual
        return behaviour / behaviour.sum(axis=1, keepdims=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalOptions:
    """What must be reached, and how that is simulated."""

    PANEL: ClassVar = "Goal"

    pessimism: Annotated[
        float,
        typer.Option(
            help="Number of standard deviations by which uncertain values are lowered.", min=0
        ),
    ] = 1.0
    score: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Required improvement, as a share of the gap between the logged and the best "
            "policy.",
        ),
    ] = 0.1
    runs: Annotated[
        int,
        typer.Option(
            help="Simulations for each number of users; half of them must succeed.",
            min=1,
            max=10_000,
        ),
    ] = 40


@with_groups
def learn(
    similar: SimilarProblemOptions,
    model: PlannedModelOptions,
    goal: GoalOptions,
    privacy: PrivacyOptions,
    as_json: AsJson = False,
) -> None:
    """Predict how many users `confide learn` needs.

    For several epsilons, that many are needed until the learned policy improves on the logged
    one. No data are read.

    Examples:
        confide plan learn --on riverswim --epsilon 1 --delta 1e-6
        confide plan learn --states 20 --actions 4 --epsilon 1 --delta 1e-6
    """
    from confide.errors import InvalidParameter
    from confide.offline.people_needed import people_needed, rehearsal

    request = privacy.request()
    world = similar.problem()
    question = model.question(world)
    behaviour = model.behaviour(question.states, question.actions, similar.problem_seed)
    rehearsed = rehearsal(question, world, behaviour)
    rows = []
    for epsilon in [multiple * request.epsilon for multiple in _EPSILON_MULTIPLES]:
        try:
            users = people_needed(
                rehearsed,
                replace(privacy, epsilon=epsilon).request(),
                pessimism=goal.pessimism,
                score=goal.score,
                runs=goal.runs,
            )
        except InvalidParameter:
            if epsilon == request.epsilon:
                raise
            continue
        rows.append({"epsilon": epsilon, "people": users})
    assumed = _assumption(question, world, is_similar=bool(similar.on))
    if as_json:
        record = {"people": rows, "score": goal.score, "assumed": assumed, "delta": request.delta}
        print_json(record)
        return
    _print(rows, request.epsilon, goal.score, assumed)


def _assumption(question: Any, world: "TabularMDP", *, is_similar: bool) -> str:
    sizes = (
        f"{question.states:,} states, {question.actions:,} actions, "
        f"trajectories of {world.horizon:,} steps"
    )
    if is_similar:
        return f"the log is like {world.name}: {sizes}"
    return (
        f"the log is like a random tabular MDP: {sizes}. In an MDP with another structure the "
        "number may be many times larger or smaller: use --on with one like yours"
    )


def _print(rows: list[dict[str, Any]], epsilon: float, score: float, assumed: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    title = (
        f"Users needed until the learned policy closes {100 * score:g} % of the gap "
        "between the logged and the best policy:"
    )
    console.print(Text(title, style="bold"))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("epsilon", "users"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['epsilon']:g}",
            f"{row['people']:,}",
            style="bold" if row["epsilon"] == epsilon else None,
        )
    console.print(table)
    holdout = "With --holdout, this many are needed in the part from which the policy is learned."
    console.print(Text(f"assumed: {assumed}. {holdout}"))
    console.print(Text("No data were read, and no budget was spent."))
