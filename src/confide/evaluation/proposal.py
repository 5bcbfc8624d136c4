"""Propose settings from public knowledge, with reasons. No log is read."""

from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.evaluation.counts_and_sums import CountsAndSums
from confide.evaluation.parameters import USUAL_VISITS, numbers, share_of_one, whole
from confide.privacy.bounded import Array

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
    reward_range: tuple[float, float],
    discount: float = 1.0,
    once: bool = False,
    usual_steps: int | None = None,
    components: bool = False,
) -> Proposal:
    """Visits, return range and shrinkage from what is public; `once` says that a trajectory is rewarded at most once, `usual_steps` how
    many different states trajectories usually see, if that is public, `components` that public components of states will be given.
    Settings tuned on the log would cost privacy budget themselves.
    """
    states, users, max_steps = whole("states", states), whole("users", users), whole("max_steps", max_steps)
    usual_steps = None if usual_steps is None else whole("usual_steps", usual_steps)
    discount, (low, high) = share_of_one("discount", discount), _range(reward_range)
    least, most, range_reason = _returns(low, high, max_steps, discount, once)
    visits = min(states, max_steps, usual_steps or USUAL_VISITS)
    expected = users * visits / states
    shrink = "fixed" if expected >= _PLENTY and not components else "empirical-bayes"
    bound = most - least
    reasons = (
        _visits_reason(visits, states, max_steps, usual_steps),
        range_reason,
        _shrink_reason(users, expected, components),
    )
    return Proposal(states, discount, visits, bound, (most + least) / 2, shrink, 0.3, reasons)


def _range(reward_range: tuple[float, float]) -> tuple[float, float]:
    given = numbers("reward_range", reward_range)
    if given.shape != (2,) or not given[0] < given[1]:
        raise InvalidParameter(f"reward_range must be two different finite numbers, the lower first, got {reward_range!r}")
    return float(given[0]), float(given[1])


def range_of_returns(reward_range: tuple[float, float], steps: int, discount: float) -> tuple[float, float, str]:
    """The range of the returns of up to so many steps, from the public range of one reward, and the reason in words."""
    low, high = _range(reward_range)
    return _returns(low, high, steps, discount, once=False)


def _returns(low: float, high: float, steps: int, discount: float, once: bool) -> tuple[float, float, str]:
    if once:
        return min(low, 0.0), max(high, 0.0), f"one reward per trajectory: returns are in [{min(low, 0.0):g}, {max(high, 0.0):g}]"
    total = float(steps) if discount == 1 else (1 - discount**steps) / (1 - discount)
    least, most = min(low * total, low), max(high * total, high)
    return (
        least,
        most,
        (
            f"up to {steps} rewards in [{low:g}, {high:g}] at discount {discount:g} add up to at most {total:.4g} times one "
            f"reward: returns are in [{least:.4g}, {most:.4g}], and rewards in their range are never clipped. A smaller range that is "
            "public means less noise"
        ),
    )


def _shrink_reason(users: int, expected: float, components: bool) -> str:
    said = f"{users} users make about {expected:.3g} visits per state if all states were equal: "
    if components:
        return said + "values are shrunk towards what the given components explain"
    plenty = "the data outweigh any prior, so a fixed one suffices"
    return said + (plenty if expected >= _PLENTY else "few, so values are shrunk towards their mean")


def _visits_reason(visits: int, states: int, max_steps: int, usual: int | None) -> str:
    if visits == states:
        return "all states of a trajectory count"
    if visits == max_steps:
        return f"a trajectory has {max_steps} steps at most, so no more than {max_steps} different states"
    known = "as many as trajectories usually see" if usual else "a default: give usual_steps if it is known"
    return f"the first {visits} different states of a trajectory count, {known}; noise grows with the square root of it"
