"""The range of returns that follows from the public range of one reward."""

from confide.errors import InvalidParameter
from confide.evaluation.parameters import numbers


def range_of_returns(
    reward_range: tuple[float, float], steps: int, discount: float
) -> tuple[float, float, str]:
    """The lowest and the highest return of up to `steps` steps, and the reason in words.

    Both numbers are public and bound a user's contribution, so they must not depend on data.
    """
    bounds = numbers("reward_range", reward_range)
    if bounds.shape != (2,) or not bounds[0] < bounds[1]:
        raise InvalidParameter.of(
            "reward_range",
            f"must be two different finite numbers, the lower first, got {reward_range!r}",
        )
    low = float(bounds[0])
    high = float(bounds[1])
    total = float(steps) if discount == 1 else (1 - discount**steps) / (1 - discount)
    # A trajectory may also be a single step long.
    lowest = min(low * total, low)
    highest = max(high * total, high)
    reason = (
        f"up to {steps} rewards in [{low:g}, {high:g}] at discount {discount:g} add up to at most "
        f"{total:.4g} times one reward: returns are in [{lowest:.4g}, {highest:.4g}], and rewards "
        "in their range are never clipped. A smaller range that is public means less noise"
    )
    return lowest, highest, reason
