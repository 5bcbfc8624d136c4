"""What planning with questions remembers from round to round.

PUBLIC, and part of what is saved and sent: the names, axes and types in `LAYOUT` are a format,
which saved agents and devices have. Recent rounds are kept as they were, because their visits are
predicted again at each release. Older rounds are kept as the evidence that they gave. All questions
so far are kept as a table (`history_planning`).
"""

from dataclasses import dataclass

import numpy as np

from confide.mixtures.questions.history_planning import COLUMNS, with_answers
from confide.mixtures.questions.planning import AnswerEvidence, AskedRound
from confide.planners.history import Arrays, History, Layout, Reals, Wholes, refuse_unless
from confide.planners.visits import OPEN_ROUND, users_of_round
from confide.privacy.bounded import Released

# Rounds whose visits are predicted again at each release. More are slower and hardly better.
RECENT_ROUNDS = 8
# Rows of the table of questions. A longer memory did not come from this agent, and is refused.
MAX_QUESTIONS = 2**20
_OPEN_QUESTIONS: Arrays = {
    "open_steps": Wholes(("open question",), below="block"),
    "open_thetas": Reals(("open question", "direction")),
}
# The recent rounds, and the questions of all of them together.
_RECENT: Arrays = {
    "policies": Wholes(("round", "shown policy", "step", "state"), below="action"),
    "users": Reals(("round", "shown policy"), at_least=0),
    "stds": Reals(("round",), at_least=0),
    "rounds": Wholes(("question",), below="round"),
    "steps": Wholes(("question",), below="block"),
    "thetas": Reals(("question", "direction")),
    "answers": Reals(("question",)),
}
# What the rounds before the recent ones said.
_EVIDENCE: Arrays = {
    "precision": Reals(("planned step", "weight", "weight")),
    "information": Reals(("planned step", "weight")),
    "reward_precision": Reals(("step", "reward", "reward")),
    "reward_information": Reals(("step", "reward")),
}
# Every question so far. What is not answered yet is NaN.
_TABLE: Arrays = {"table": Reals(("asked", "column"), or_nan=True)}
LAYOUT = Layout(OPEN_ROUND | _OPEN_QUESTIONS | _RECENT | _EVIDENCE | _TABLE)


@dataclass(frozen=True, slots=True)
class QuestionSizes:
    """The sizes of a problem that its memory must fit.

    There are weights of `dimension` kernels at each of `steps` steps, and of `rewards` features at
    each of `horizon` steps (0 if rewards are known). A round has `policies` policies.
    """

    horizon: int
    steps: int
    states: int
    actions: int
    dimension: int
    rewards: int
    policies: int

    @property
    def blocks(self) -> int:
        """What questions can be about: the transition of each step, then the reward of each."""
        return self.steps + (self.horizon if self.rewards else 0)

    @property
    def width(self) -> int:
        """The length of a question's direction."""
        return max(self.dimension, self.rewards)


def recall_answers(released: Released, sizes: QuestionSizes) -> History:
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
        {"round": RECENT_ROUNDS, "asked": MAX_QUESTIONS},
    )
    if released.generation == 0:
        return history
    questions = len(released.values)
    noise_std = released.noise.std
    refuse_unless(history.count("open question") == questions <= history.count("asked"))
    number = history.count("round")
    users = users_of_round(history, released)
    history = history.append("round", policies=history["shown"], users=users, stds=noise_std)
    history = history.extend(
        "question",
        rounds=np.full(questions, number),
        steps=history["open_steps"],
        thetas=history["open_thetas"],
        answers=released.values,
    )
    reported = released.users - int(history["total"])
    table = with_answers(history["table"], released.values, noise_std, reported)
    return history.replace(table=table)


def rounds_in(history: History) -> list[AskedRound]:
    """The recent rounds, the oldest first."""
    rounds = []
    for number in range(history.count("round")):
        is_here = history["rounds"] == number
        rounds.append(
            AskedRound(
                history["policies"][number],
                history["users"][number],
                history["steps"][is_here],
                history["thetas"][is_here],
                history["answers"][is_here],
                float(history["stds"][number]),
            )
        )
    return rounds


def evidence_in(history: History) -> tuple[AnswerEvidence, AnswerEvidence]:
    """What the rounds before the recent ones said: about weights, and about rewards."""
    about_weights = AnswerEvidence(history["precision"], history["information"])
    about_rewards = AnswerEvidence(history["reward_precision"], history["reward_information"])
    return about_weights, about_rewards


def fold_oldest(
    history: History, with_first: AnswerEvidence, with_first_rewards: AnswerEvidence
) -> History:
    """Drop the oldest round if there are too many recent ones.

    What it said about weights and about rewards is in the evidence that is given.
    """
    if history.count("round") <= RECENT_ROUNDS:
        return history
    history = history.select("question", history["rounds"] > 0).select("round", slice(1, None))
    return history.replace(
        rounds=history["rounds"] - 1,
        precision=with_first.precision,
        information=with_first.information,
        reward_precision=with_first_rewards.precision,
        reward_information=with_first_rewards.information,
    )
