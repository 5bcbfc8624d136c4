"""The range of returns that follows from the public range of one reward."""

from confide.errors import InvalidParameter
from confide.evaluation.parameters import numbers


def range_of_returns(
    reward_range: tuple[float, float], steps: int, discount: float
) -> tuple[float, float, str]:
    """The range of the returns of up to so many steps, from the public range of one reward, and the reason in words."""
    given = numbers("reward_range", reward_range)
    if given.shape != (2,) or not given[0] < given[1]:
        raise InvalidParameter.of(
            "reward_range",
            f"must be two different finite numbers, the lower first, got {reward_range!r}",
        )
    low, high = float(given[0]), float(given[1])
    total = float(steps) if discount == 1 else (1 - discount**steps) / (1 - discount)
    least, most = min(low * total, low), max(high * total, high)
    reason = (
        f"up to {steps} rewards in [{low:g}, {high:g}] at discount {discount:g} add up to at most {total:.4g} times one "
        f"reward: returns are in [{least:.4g}, {most:.4g}], and rewards in their range are never clipped. A smaller range that is "
        "public means less noise"
    )
    return least, most, reason
