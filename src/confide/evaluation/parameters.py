"""Checks of public parameters before anything is charged, and their normal form, so that one release has one id in a ledger."""

from numbers import Real
from typing import Any

import numpy as np

from confide import arguments
from confide.arguments import shown
from confide.errors import InvalidParameter
from confide.privacy.bounded import Array, real_numbers
from confide.release.parameters import keep

# noise grows with the root of it, and later states of a long trajectory are earlier ones of another
USUAL_VISITS = 20
# The prior standard deviation of a value, as a share of half the range of returns.
SPREAD = 0.6
_MOST = 2**31 - 1
_FARTHEST = 1e9


def whole(name: str, value: Any) -> int:
    """A count, also one of NumPy's."""
    return arguments.whole(name, value, at_least=1, at_most=_MOST)


def real(name: str, value: Any, what: str, low: float, high: float) -> float:
    """A number from `low` to `high`; `what` says in words which those are."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= value <= high:  # type: ignore[operator]
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
        wrong = int((~np.isfinite(table)).sum())
        raise InvalidParameter.of(
            name, f"must be finite, got NaN or infinity in {wrong} of {table.size} numbers"
        )
    return table


def keep_returns(model: Any) -> None:
    """Discount and range of returns, which all estimators have; and the range's centre, where they have one."""
    keep(
        model,
        discount=share_of_one("discount", model.discount),
        return_bound=positive("return_bound", model.return_bound),
    )
    if getattr(model, "centre", None) is not None:
        # farther away, floating point cannot tell returns apart
        most = _FARTHEST * model.return_bound
        keep(
            model,
            centre=real(
                "centre",
                model.centre,
                f"finite, and at most {_FARTHEST:g} times return_bound from zero",
                -most,
                most,
            ),
        )


def visits_and_returns(states: int, counts: Array, returns: Array) -> tuple[Array, Array]:
    """Visits and sums of returns by state. PRIVATE: an error about them names their shapes alone."""
    visits, sums = real_numbers(counts), real_numbers(returns)
    if visits.shape != (states,) or sums.shape != (states,):
        raise InvalidParameter(
            f"counts and returns must have shape ({states},), got {visits.shape} and {sums.shape}"
        )
    return visits, sums


def nobody(states: int) -> str:
    return f"a user with a state of {states:,} or more contributes zero (confide logs check --states shows the data holder how many)"
