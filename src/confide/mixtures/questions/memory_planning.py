"""What planning with questions remembers from round to round: recent rounds as they were, older ones as evidence, and all questions."""

from dataclasses import dataclass

import numpy as np

from confide.mixtures.questions.history_planning import COLUMNS, answered
from confide.mixtures.questions.planning import AnswerEvidence, AskedRound
from confide.planners.history import History, Layout, Reals, Wholes, refuse_unless
from confide.planners.visits import OPEN_ROUND, users_of_round
from confide.privacy.bounded import Released

RECENT = 8  # rounds whose visits are predicted again at each release
_MOST = 2**20  # rows of the table of questions
LAYOUT = Layout(
    OPEN_ROUND
    | {
        "open_steps": Wholes(("open question",), below="block"),
        "open_thetas": Reals(("open question", "direction")),
        # the recent rounds, and the questions of all of them together
        "policies": Wholes(("round", "shown policy", "step", "state"), below="action"),
        "users": Reals(("round", "shown policy"), at_least=0),
        "stds": Reals(("round",), at_least=0),
        "rounds": Wholes(("question",), below="round"),
        "steps": Wholes(("question",), below="block"),
        "thetas": Reals(("question", "direction")),
        "answers": Reals(("question",)),
        # of the rounds before the recent ones
        "precision": Reals(("planned step", "weight", "weight")),
        "information": Reals(("planned step", "weight")),
        "reward_precision": Reals(("step", "reward", "reward")),
        "reward_information": Reals(("step", "reward")),
        # every question so far
        "table": Reals(("asked", "column"), or_nan=True),
    }
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a problem: weights of `dimension` kernels at each of `steps` steps, and of `rewards` features (0: known) at each of `horizon`."""

    horizon: int
    steps: int
    states: int
    actions: int
    dimension: int
    rewards: int
    # of each round
    policies: int

    @property
    def blocks(self) -> int:
        """What questions are about: the transitions of each step, then the rewards of each."""
        return self.steps + (self.horizon if self.rewards else 0)

    @property
    def width(self) -> int:
        """Of a question's direction."""
        return max(self.dimension, self.rewards)


def recall_answers(released: Released, sizes: Sizes) -> History:
    """The rounds so far, the one that the release has just closed included."""
    history = LAYOUT.recall(
        released,
        {
            "step": sizes.horizon,
            "planned step": sizes.steps,
            "state": sizes.states,
            "action": sizes.actions,
            "weight": sizes.dimension,
            "reward": sizes.rewards,
            "block": sizes.blocks,
            "direction": sizes.width,
            "column": len(COLUMNS) + sizes.width,
            "shown policy": sizes.policies,
        },
        {"round": RECENT, "asked": _MOST},
    )
    if released.generation == 0:
        return history
    questions, std = len(released.values), released.noise.std
    refuse_unless(history.count("open question") == questions <= history.count("asked"))
    number = history.count("round")
    users = users_of_round(history, released)
    history = history.append("round", policies=history["shown"], users=users, stds=std)
    history = history.extend(
        "question",
        rounds=np.full(questions, number),
        steps=history["open_steps"],
        thetas=history["open_thetas"],
        answers=released.values,
    )
    reported = released.users - int(history["total"])
    return history.replace(table=answered(history["table"], released.values, std, reported))


def rounds_in(history: History) -> list[AskedRound]:
    rounds = []
    for number in range(history.count("round")):
        mine = history["rounds"] == number
        rounds.append(
            AskedRound(
                history["policies"][number],
                history["users"][number],
                history["steps"][mine],
                history["thetas"][mine],
                history["answers"][mine],
                float(history["stds"][number]),
            )
        )
    return rounds


def evidence_in(history: History) -> tuple[AnswerEvidence, AnswerEvidence]:
    """Of the rounds before the recent ones: about weights, and about rewards."""
    about_rewards = AnswerEvidence(history["reward_precision"], history["reward_information"])
    return AnswerEvidence(history["precision"], history["information"]), about_rewards


def fold_oldest(history: History, first: AnswerEvidence, first_rewards: AnswerEvidence) -> History:
    """If there are too many recent rounds: without the oldest, which the evidence about weights and about rewards contains."""
    if history.count("round") <= RECENT:
        return history
    history = history.select("question", history["rounds"] > 0).select("round", slice(1, None))
    return history.replace(
        rounds=history["rounds"] - 1,
        precision=first.precision,
        information=first.information,
        reward_precision=first_rewards.precision,
        reward_information=first_rewards.information,
    )
