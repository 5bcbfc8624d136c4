"""Settings from public knowledge, with reasons in words. Nothing here takes a log."""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.evaluation.counts_and_sums import CountsAndSums
from confide.privacy.bounded import Array

_USUAL = 20  # different states in a trajectory, where nothing is known: sqrt(20) is not much noise
_PLENTY = 2_000  # visits of a state that outweigh any prior under a usual promise


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings for `CountsAndSums`, and why."""

    states: int
    discount: float
    visits: int
    return_bound: float
    centre: float
    shrink: str
    prior_std: float
    reasons: tuple[str, ...]

    def estimator(self, *, components: Array | None = None, second_moments: bool = False) -> CountsAndSums:
        return CountsAndSums(
            states=self.states,
            discount=self.discount,
            return_bound=self.return_bound,
            visits=self.visits,
            shrink="fixed" if components is None and self.shrink == "fixed" else "empirical-bayes",
            components=components,
            prior_std=self.prior_std,
            centre=self.centre,
            second_moments=second_moments,
        )

    def __str__(self) -> str:
        chosen = f"visits={self.visits}, return_bound={self.return_bound:g}, centre={self.centre:g}, shrink={self.shrink!r}"
        return "\n".join([chosen, *(f"  - {reason}" for reason in self.reasons)])


def propose(
    *,
    states: int,
    users: int,
    max_steps: int,
    reward_range: tuple[float, float] = (0.0, 1.0),
    discount: float = 1.0,
    once: bool = False,
    usual_steps: int | None = None,
) -> Proposal:
    """Visits, return range and shrinkage from what is public; `once` says that a trajectory is rewarded at most once, `usual_steps` how
    many different states trajectories usually see, if that is public. Settings tuned on the log would themselves have to be paid for.
    """
    low, high = reward_range
    if states < 1 or users < 1 or max_steps < 1 or not low < high or not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidParameter("states, users and max_steps must be at least 1, and reward_range two different finite numbers")
    least, most, range_reason = _returns(low, high, max_steps, discount, once)
    visits = min(states, max_steps, usual_steps or _USUAL)
    expected = users * visits / states
    shrink = "fixed" if expected >= _PLENTY else "empirical-bayes"
    bound = most - least
    reasons = (
        _visits_reason(visits, states, max_steps, usual_steps),
        range_reason,
        f"{users} users make about {expected:.3g} visits per state if all states were equal: "
        + (
            "the data outweigh any prior, so a fixed one will do"
            if shrink == "fixed"
            else "few, so states borrow from their mean"
        ),
    )
    return Proposal(states, discount, visits, bound, (most + least) / 2, shrink, 0.3, reasons)


def _returns(low: float, high: float, steps: int, discount: float, once: bool) -> tuple[float, float, str]:
    if once:
        return min(low, 0.0), max(high, 0.0), f"one reward per trajectory: returns are in [{min(low, 0.0):g}, {max(high, 0.0):g}]"
    total = float(steps) if discount == 1 else (1 - discount**steps) / (1 - discount)
    least, most = min(low * total, low), max(high * total, high)
    return (
        least,
        most,
        (
            f"up to {steps} rewards in [{low:g}, {high:g}] at discount {discount:g} add up to {total:.4g} times as much at most: returns "
            f"are in [{least:.4g}, {most:.4g}]. A smaller range that is public means less noise; returns outside are clipped"
        ),
    )


def _visits_reason(visits: int, states: int, max_steps: int, usual: int | None) -> str:
    if visits == states:
        return "all states of a trajectory count: there are no more"
    if visits == max_steps:
        return f"a trajectory has {max_steps} steps at most, so no more than {max_steps} different states"
    known = "as many as trajectories usually see" if usual else "a usual number: say usual_steps if more is known"
    return f"the first {visits} different states of a trajectory count, {known}; noise grows with the square root of it"
