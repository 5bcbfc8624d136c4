"""Checks of public parameters before anything is charged, and their normal form.

A ledger knows a release by its parameters. Parameters that mean the same must therefore be stored
as the same values (`keep`), so that the same release is not charged twice. Changing a normal form
changes ids.
"""

from numbers import Real
from typing import Any

import numpy as np

from confide import arguments
from confide.arguments import shown
from confide.errors import InvalidParameter
from confide.privacy.bounded import Array, real_numbers
from confide.release.parameters import keep

# How many different states of a trajectory count by default. A matter of taste: noise grows with
# the root of it, and the later states of a long trajectory are earlier ones of another trajectory.
USUAL_VISITS = 20
# The prior standard deviation of a value, as a share of half the range of returns. A matter of
# taste.
SPREAD = 0.6
# The largest count that is accepted.
_LARGEST_COUNT = 2**31 - 1
# How far the middle of the range of returns may be from zero, in units of return_bound. Farther
# away, floating point cannot tell returns apart.
_FARTHEST_CENTRE = 1e9


def whole(name: str, value: Any) -> int:
    """A count, at least 1, as Python's `int` also if it is one of NumPy's."""
    return arguments.whole(name, value, at_least=1, at_most=_LARGEST_COUNT)


def real(name: str, value: Any, what: str, low: float, high: float) -> float:
    """A number from `low` to `high`; `what` says in words which those are."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise InvalidParameter.of(name, f"must be {what}", got=shown(value))
    return float(value)


def positive(name: str, value: Any) -> float:
    return real(name, value, "positive and finite", 1e-49, 1e50)


def share_of_one(name: str, value: Any) -> float:
    return arguments.real(name, value, at_least=0, at_most=1)


def numbers(name: str, value: Any) -> Array:
    """A table of finite numbers, copied."""
    table = arguments.array(name, value, finite=False).copy()
    if not np.isfinite(table).all():
        infinite = int((~np.isfinite(table)).sum())
        raise InvalidParameter.of(
            name, f"must be finite, got NaN or infinity in {infinite} of {table.size} numbers"
        )
    return table


def keep_returns(model: Any) -> None:
    """Check and keep the discount and the range of returns, which all estimators have.

    The centre of the range is checked where the estimator has one.
    """
    keep(
        model,
        discount=share_of_one("discount", model.discount),
        return_bound=positive("return_bound", model.return_bound),
    )
    if getattr(model, "centre", None) is not None:
        farthest = _FARTHEST_CENTRE * model.return_bound
        allowed = f"finite, and at most {_FARTHEST_CENTRE:g} times return_bound from zero"
        keep(model, centre=real("centre", model.centre, allowed, -farthest, farthest))


def visits_and_returns(states: int, counts: Array, returns: Array) -> tuple[Array, Array]:
    """Visits and sums of returns by state. PRIVATE: an error about them names only their shapes."""
    visits = real_numbers(counts)
    sums = real_numbers(returns)
    if visits.shape != (states,) or sums.shape != (states,):
        raise InvalidParameter(
            f"counts and returns must have shape ({states},), got {visits.shape} and {sums.shape}"
        )
    return visits, sums


def rule_for_unknown_states(states: int) -> str:
    """The sentence of `counted` about states that are not in the public table."""
    return (
        f"a user with a state of {states:,} or more contributes zero "
        "(confide logs check --states shows the data holder how many)"
    )
