"""How rewards of an environment are mapped to [0, 1], which agents need.

The map is public. It stands in the name of a problem (`RewardMap.suffix`), and so in results and in
the labels of saved runs: its words must not change.
"""

import math
from dataclasses import dataclass
from typing import Any

from confide.arguments import listed, real, shown
from confide.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class RewardMap:
    """The map (r - low) / (high - low), which is the same at every step."""

    low: float
    high: float

    def apply(self, reward: float) -> float:
        return (reward - self.low) / (self.high - self.low)

    @property
    def suffix(self) -> str:
        """What a problem's name says about the map; nothing if rewards are unchanged."""
        if self == UNCHANGED:
            return ""
        return f", rewards (r {-self.low:+g}) / {self.high - self.low:g}"

    def original(self, value: float, horizon: int) -> float:
        """The expected sum of the environment's own rewards, for a value of the problem."""
        return value * (self.high - self.low) + horizon * self.low


UNCHANGED = RewardMap(0.0, 1.0)


def read_reward_range(reward_range: Any) -> RewardMap:
    """The map of a range (low, high) that a user states."""
    ends = [real("reward_range", end) for end in listed("reward_range", reward_range, object)]
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise InvalidParameter.of(
            "reward_range", "must be (low, high) with low < high", got=shown(reward_range)
        )
    return RewardMap(*ends)


def check_end_reward(mapped: RewardMap, reward_range: Any) -> None:
    """Refuse a range without 0, which each step earns after the end of an episode."""
    if not mapped.low <= 0 <= mapped.high:
        raise InvalidParameter.of(
            "reward_range",
            f"must contain 0, which an episode earns when it is over, got {reward_range}",
        )


def map_reward(problem: str, mapped: RewardMap, reward: Any) -> float:
    """The image of a reward in [0, 1]. A reward outside of the range is an error of the problem.

    This is a simulation. Rewards of real people are clipped and never raise an error.
    """
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    # NaN is refused here, too, because no comparison with it holds.
    if not mapped.low <= number <= mapped.high:
        raise InvalidParameter(
            f"{problem} gave a reward that is not a number in "
            f"reward_range=({mapped.low:g}, {mapped.high:g})"
        )
    return mapped.apply(number)
