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


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """All rounds so far: the recent ones, the evidence of those before them, and the table of all questions."""

    rounds: list[Asked]
    folded: Evidence
    history: Array

    def after(self, first: Evidence) -> "Past":
        """Without the oldest round, if there are many: `first` is the evidence with it."""
        return Past(self.rounds[1:], first, self.history) if len(self.rounds) > RECENT else self


def remember(
    past: Past, *, policies: Ints, shares: Array, steps: Ints, thetas: Array, users: int
) -> dict[str, npt.NDArray[np.generic]]:
    """The past, and the round that begins after so many users: policies [p, h, s] serve shares [p], who are asked (steps, thetas) [q]."""
    memory: dict[str, npt.NDArray[np.generic]] = {
        "precision": past.folded.precision,
        "information": past.folded.information,
        "history": past.history,
        "rounds": np.array(len(past.rounds)),
    }
    for number, asked in enumerate(past.rounds):
        memory |= {f"{number}.{part}": getattr(asked, part) for part in _PARTS} | {f"{number}.std": np.array(asked.std)}
    return memory | {"policies": policies, "shares": shares, "steps": steps, "thetas": thetas, "total": np.array(users)}


def recall(released: Released, kernels: Array, steps: int, horizon: int) -> Past:
    """The past at a release, the round that it has just closed included. kernels [s, a, s', i].

    On a device a server says this, and compiled loops look things up by it: nothing in it is taken on faith.
    """
    memory, d = released.memory, kernels.shape[-1]
    if set(memory) == {"seed"}:
        return Past([], Evidence(np.zeros((steps, d, d)), np.zeros((steps, d))), nothing_asked(d))
    rounds = [_asked(memory, f"{number}.") for number in range(min(int(memory["rounds"]), RECENT + 1))]
    total, shares = int(memory["total"]), memory["shares"]
    if not (_numbers(shares) and (shares >= 0).all() and shares.any() and 0 <= total <= released.users):
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")
    users = np.array(divided(released.users - total, shares), dtype=np.float64)
    last = Asked(memory["policies"], users, memory["steps"], memory["thetas"], released.values, released.noise.std)
    folded, history = Evidence(memory["precision"], memory["information"]), memory["history"]
    fits = all(_fits(asked, kernels, steps, horizon) for asked in [*rounds, last])
    fits = fits and folded.precision.shape == (steps, d, d) and folded.information.shape == (steps, d)
    fits = fits and _numbers(folded.precision) and _numbers(folded.information)
    fits = fits and history.dtype == np.float64 and history.ndim == 2 and history.shape[1] == len(COLUMNS) + d
    if not fits or not len(last.answers) <= len(history) <= _MOST:
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")
    return Past([*rounds, last], folded, answered(history, released.values, released.noise.std))


def _asked(memory: Memory, place: str) -> Asked:
    policies, users, steps, thetas, answers = (memory[place + part] for part in _PARTS)
    return Asked(policies, users, steps, thetas, answers, float(memory[f"{place}std"]))


def _numbers(values: npt.NDArray[np.generic]) -> bool:
    return values.dtype == np.float64 and bool(np.isfinite(values).all())


def _fits(asked: Asked, kernels: Array, steps: int, horizon: int) -> bool:
    S, A, _, d = kernels.shape
    served, questions = len(asked.users), len(asked.steps)
    shapes = {
        "policies": (served, horizon, S),
        "users": (served,),
        "steps": (questions,),
        "thetas": (questions, d),
        "answers": (questions,),
    }
    fits = served > 0 and all(getattr(asked, part).shape == shape for part, shape in shapes.items())
    for part, most in (("policies", A), ("steps", steps)):
        numbers = getattr(asked, part)
        fits = fits and numbers.dtype == np.int64 and bool(((numbers >= 0) & (numbers < most)).all())
    fits = fits and all(_numbers(getattr(asked, part)) for part in ("users", "thetas", "answers"))
    return bool(fits and (asked.users >= 0).all() and 0 <= asked.std < np.inf)
