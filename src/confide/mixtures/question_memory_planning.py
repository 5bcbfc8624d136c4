"""What planning with questions remembers from round to round: recent rounds as they were, older ones as evidence, and all questions."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.mixtures.question_history_planning import COLUMNS, answered, nothing_asked
from confide.mixtures.question_planning import Asked, Evidence
from confide.privacy.bounded import Memory, Released
from confide.privatizers.schedule import divided

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RECENT = 8  # rounds whose visits are predicted again at each release
_PARTS = ("policies", "users", "steps", "thetas", "answers")
_MOST = 2**20  # rows of the history


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a problem: weights of `dimension` kernels at each of `steps` steps, and of `rewards` features (0: known) at each of `horizon`."""

    horizon: int
    steps: int
    states: int
    actions: int
    dimension: int
    rewards: int

    @property
    def blocks(self) -> int:
        """What questions are about: the transitions of each step, then the rewards of each."""
        return self.steps + (self.horizon if self.rewards else 0)

    @property
    def width(self) -> int:
        """Of a question's direction."""
        return max(self.dimension, self.rewards)


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """All rounds so far: the recent ones, the evidence of those before them (of weights and of rewards), and the table of all questions."""

    rounds: list[Asked]
    folded: Evidence
    rewards: Evidence
    history: Array

    def after(self, first: Evidence, rewards: Evidence, history: Array) -> "Past":
        """With a new table, and without the oldest round, if there are many: `first` and `rewards` are the evidence with it."""
        if len(self.rounds) > RECENT:
            return Past(self.rounds[1:], first, rewards, history)
        return Past(self.rounds, self.folded, self.rewards, history)


def remember(
    past: Past, *, policies: Ints, shares: Array, steps: Ints, thetas: Array, users: int
) -> dict[str, npt.NDArray[np.generic]]:
    """The past, and the round that begins after so many users: policies [p, h, s] serve shares [p], who are asked (steps, thetas) [q]."""
    memory: dict[str, npt.NDArray[np.generic]] = {
        "precision": past.folded.precision,
        "information": past.folded.information,
        "reward_precision": past.rewards.precision,
        "reward_information": past.rewards.information,
        "history": past.history,
        "rounds": np.array(len(past.rounds)),
    }
    for number, asked in enumerate(past.rounds):
        memory |= {f"{number}.{part}": getattr(asked, part) for part in _PARTS} | {
            f"{number}.std": np.array(asked.std)
        }
    return memory | {
        "policies": policies,
        "shares": shares,
        "steps": steps,
        "thetas": thetas,
        "total": np.array(users),
    }


def recall(released: Released, sizes: Sizes) -> Past:
    """The past at a release, the round that it has just closed included.

    On a device a server says this, and compiled loops look things up by it: nothing in it is taken on faith.
    """
    memory = released.memory
    shapes = {
        "precision": (sizes.steps, sizes.dimension, sizes.dimension),
        "information": (sizes.steps, sizes.dimension),
        "reward_precision": (sizes.horizon, sizes.rewards, sizes.rewards),
        "reward_information": (sizes.horizon, sizes.rewards),
    }
    if set(memory) == {"seed"}:
        none = [np.zeros(shape) for shape in shapes.values()]
        return Past([], Evidence(*none[:2]), Evidence(*none[2:]), nothing_asked(sizes.width))
    rounds = [
        _asked(memory, f"{number}.") for number in range(min(int(memory["rounds"]), RECENT + 1))
    ]
    total, shares = int(memory["total"]), memory["shares"]
    if not (
        _numbers(shares) and (shares >= 0).all() and shares.any() and 0 <= total <= released.users
    ):
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")
    users = np.array(divided(released.users - total, shares), dtype=np.float64)
    last = Asked(
        memory["policies"],
        users,
        memory["steps"],
        memory["thetas"],
        released.values,
        released.noise.std,
    )
    history = memory["history"]
    fits = all(_fits(asked, sizes) for asked in [*rounds, last])
    fits = fits and all(
        memory[name].shape == shape and _numbers(memory[name]) for name, shape in shapes.items()
    )
    fits = (
        fits
        and history.dtype == np.float64
        and history.ndim == 2
        and history.shape[1] == len(COLUMNS) + sizes.width
    )
    if not fits or not len(last.answers) <= len(history) <= _MOST:
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")
    evidence = [memory[name] for name in shapes]
    told = answered(history, released.values, released.noise.std, released.users - total)
    return Past([*rounds, last], Evidence(*evidence[:2]), Evidence(*evidence[2:]), told)


def _asked(memory: Memory, place: str) -> Asked:
    policies, users, steps, thetas, answers = (memory[place + part] for part in _PARTS)
    return Asked(policies, users, steps, thetas, answers, float(memory[f"{place}std"]))


def _numbers(values: npt.NDArray[np.generic]) -> bool:
    return values.dtype == np.float64 and bool(np.isfinite(values).all())


def _fits(asked: Asked, sizes: Sizes) -> bool:
    served, questions = len(asked.users), len(asked.steps)
    shapes = {
        "policies": (served, sizes.horizon, sizes.states),
        "users": (served,),
        "steps": (questions,),
        "thetas": (questions, sizes.width),
        "answers": (questions,),
    }
    fits = served > 0 and all(getattr(asked, part).shape == shape for part, shape in shapes.items())
    for part, most in (("policies", sizes.actions), ("steps", sizes.blocks)):
        numbers = getattr(asked, part)
        fits = (
            fits and numbers.dtype == np.int64 and bool(((numbers >= 0) & (numbers < most)).all())
        )
    fits = fits and all(_numbers(getattr(asked, part)) for part in ("users", "thetas", "answers"))
    return bool(fits and (asked.users >= 0).all() and 0 <= asked.std < np.inf)
