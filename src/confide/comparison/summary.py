"""A study in numbers: a row per group of runs, and every pair of agents under the same guarantee. The one statistic of all tables, pages
and figures: `intervals.py`."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.comparison import analysis
from confide.comparison.analysis import Band, Growth, Interval, Reached
from confide.comparison.group import Array, Group, Promise
from confide.errors import InvalidParameter

LEVEL = 0.95
_LEAST = (
    # of the way from uniform to optimal play: seeds that all agree have an interval without width, and less is not learning
    1e-3
)
_POINTS = 100  # of a curve: a figure shows no more
# regret is a sum of rounded differences: below this, relative to what users earned, it is none
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Theorem:
    """What a paper proves of its agent: regret grows at most like users to the power of `exponent`, up to logarithms."""

    exponent: float
    locator: str


# By agent and promise; `pure` is delta = 0. What is missing here is not proved in the agent's paper.
THEOREMS: Mapping[tuple[str, str], Theorem] = {
    ("ucrl-vtr", "none"): Theorem(1 / 2, "[Luyo21, Thm. 7]"),
    ("ucrl-vtr", "joint"): Theorem(1 / 2, "[Luyo21, Cor. 5]"),
    ("ucrl-vtr", "local"): Theorem(3 / 4, "[Luyo21, Cor. 6]"),
    ("ucrl-vtr", "pure joint"): Theorem(1 / 2, "[Luyo21, C.4]"),
    ("ucrl-vtr", "pure local"): Theorem(3 / 4, "[Luyo21, C.4]"),
    ("ucrl-vtr-plus", "none"): Theorem(1 / 2, "[Luyo21, Thm. 9]"),
    ("ucrl-vtr-plus", "joint"): Theorem(1 / 2, "[Luyo21, Cor. 10]"),
    ("ucrl-vtr-plus", "local"): Theorem(3 / 4, "[Luyo21, Cor. 11]"),
    ("lsvi-ucb", "joint"): Theorem(3 / 5, "[Luyo21, Thm. 8]"),
    ("lsvi-ucb", "pure joint"): Theorem(2 / 3, "[Luyo21, E.3]"),
    ("linopt-vi", "none"): Theorem(1 / 2, "[Zhou22, Thm. 4.1]"),
    ("linopt-vi", "joint"): Theorem(1 / 2, "[Zhou22, Thm. 6.5]"),
    ("linopt-po", "none"): Theorem(1 / 2, "[Zhou22, Thm. 5.1]"),
    ("linopt-po", "joint"): Theorem(1 / 2, "[Zhou22, Thm. 6.5]"),
    ("ofu-lq", "none"): Theorem(1 / 2, "[Chowdhury21, Thm. 1]"),
    ("ofu-lq", "joint"): Theorem(1 / 2, "[Chowdhury21, Thm. 3]"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The mean over seeds and its band, at some numbers of users."""

    users: npt.NDArray[np.int64]
    mean: Array
    low: Array | None  # None with one seed
    high: Array | None


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What the seeds of one group say together. None: not known, or nothing that could be computed."""

    group: Group = field(repr=False)
    anchor: str  # readable, and different for every row of a study
    regret: Interval | None  # of all users
    value: Interval | None  # of the last policy
    # of optimal: where the last policy's value lies from uniform play (0) to optimal play (1)
    share: Interval | None
    mean_return: Interval | None  # of the last users, where regret is not known
    of_uniform: Interval | None  # regret over that of uniform play
    of_no_privacy: Interval | None  # regret over that of the same agent without privacy
    reached: Reached | None  # 90 % of optimal
    growth: Growth | None
    theorem: Theorem | None
    _curves: dict[str, Curve | None] = field(default_factory=dict, repr=False)

    @property
    def final(self) -> Interval | None:
        """What it comes to: regret, or what users earned where regret is not known."""
        return self.regret if self.regret is not None else self.mean_return

    @property
    def learned(self) -> bool | None:
        """Whether it did significantly better than uniform play: less regret, or in the end a better policy. One seed can only be looked
        at. None where that is not known."""
        if self.share is None or self.of_uniform is None:
            return None
        if self.share.low is None or self.of_uniform.high is None:
            return self.share.estimate > _LEAST or self.of_uniform.estimate < 1 - _LEAST
        return self.share.low > _LEAST or self.of_uniform.high < 1 - _LEAST

    def curve(self, name: str) -> Curve | None:
        """One of `regret`, `value`, `mean_return`, `noise_std` and `signal` over users, where it is known. Computed once."""
        if name not in self._curves:
            self._curves[name] = _curve(self.group, name)
        return self._curves[name]

    @property
    def users(self) -> int:
        return int(self.group.users[-1])

    @property
    def verdict(self) -> str:
        """The measured growth against the theorem's, in one word; empty where one of them is missing."""
        return (
            ""
            if self.growth is None or self.theorem is None
            else self.growth.verdict(self.theorem.exponent)
        )

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        group, growth, reached = self.group, self.growth, self.reached
        return {
            **{
                name: getattr(group, name)
                for name in ("problem", "agent", "trust", "epsilon", "delta", "true_epsilon")
            },
            "seeds": len(group.seeds),
            "users": self.users,
            **_ends("regret", self.regret),
            **_ends("value", self.value),
            **_ends("share", self.share),
            **_ends("mean_return", self.mean_return),
            **_ends("of_uniform", self.of_uniform),
            **_ends("of_no_privacy", self.of_no_privacy),
            "episodes_to_90": None if reached is None else _finite(reached.median),
            "episodes_to_90_low": None if reached is None else _finite(reached.low),
            "episodes_to_90_high": None if reached is None else _finite(reached.high),
            "not_reached": None if reached is None else reached.seeds - reached.reached,
            "growth": None if growth is None else growth.slope,
            "growth_error": None if growth is None else growth.error,
            "theorem_exponent": None if self.theorem is None else self.theorem.exponent,
            "theorem": None if self.theorem is None else self.theorem.locator,
            "verdict": self.verdict or None,
        }


@dataclass(frozen=True, slots=True)
class Pair:
    """Two agents on one problem under one promise. `compared.adjusted` is corrected over all pairs of the comparison."""

    problem: str
    promise: Promise
    measure: str  # regret, or return where regret is not known
    compared: analysis.Compared

    @property
    def better(self) -> str | None:
        """The agent that did better, where that is significant."""
        if not self.compared.significant:
            return None
        first = (self.compared.difference.estimate < 0) == (self.measure == "regret")
        return self.compared.first if first else self.compared.second

    def plain(self) -> dict[str, Any]:
        one = self.compared
        return {
            **{
                "problem": self.problem,
                "promise": str(self.promise),
                "first": one.first,
                "second": one.second,
            },
            **{
                "measure": self.measure,
                **_ends("difference", one.difference),
                "paired": one.paired,
            },
            **{
                "p": one.p,
                "p_after_holm": one.adjusted,
                "significant": one.significant,
                "possible": one.possible,
            },
        }


def rows_of(groups: Sequence[Group]) -> list[Row]:
    """A row per group, in their order."""
    return [
        _row(group, anchor, _without_privacy(groups, group))
        for group, anchor in zip(groups, _anchors(groups), strict=True)
    ]


def pairs_of(groups: Sequence[Group]) -> list[Pair]:
    """All pairs of learners within each problem and guarantee, corrected by Holm over all of them together."""
    cells: dict[tuple[Any, ...], list[Group]] = {}
    for group in groups:
        if not group.reference and np.isfinite(_last(group)).all():
            kind = (
                group.problem,
                group.known,
                group.trust,
                group.promise,
                group.delta,
                int(group.users[-1]),
            )
            cells.setdefault(kind, []).append(group)
    shared = {str(i): members for i, members in enumerate(cells.values()) if len(members) > 1}
    samples = {key: {one.agent: _last(one) for one in members} for key, members in shared.items()}
    seeds = {
        key: {one.agent: _distinct(one.seeds) for one in members} for key, members in shared.items()
    }
    count = sum(math.comb(len(members), 2) for members in shared.values())
    paired = (
        None
        if paired_test([len(one.seeds) for members in shared.values() for one in members], count)
        else False
    )
    made = analysis.compare_groups(samples, seeds=seeds, paired=paired, level=LEVEL)
    return [_pair(shared[one.group][0], one) for one in made]


def paired_test(seeds: Sequence[int], pairs: int) -> bool:
    """Whether to flip signs of paired differences rather than to exchange labels: decided by the design, never by what came out.

    Paired is sharper where seeds matter, but its smallest p-value is 2 / 2^n, which Holm multiplies by the number of pairs: eight seeds
    and seven pairs can show nothing. Exchanging labels can, from 2 / C(2n, n) on. Where neither can, paired has the better intervals.
    """
    n, least = max(seeds, default=0), (1 - LEVEL) / max(pairs, 1)
    return 2 / 2**n <= least or 2 / math.comb(2 * n, n) > least


def seeds_needed(pairs: int) -> int:
    """The fewest seeds that could show a difference among so many pairs."""
    n = 2
    while 2 / math.comb(2 * n, n) > (1 - LEVEL) / max(pairs, 1):
        n += 1
    return n


def _distinct(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Runs with secure noise may share a seed: they are not paired then."""
    return seeds if len(set(seeds)) == len(seeds) else tuple(range(-len(seeds), 0))


def theorem_of(group: Group) -> Theorem | None:
    """By the agent's own name: options other than the calibration make it another algorithm than the theorem's."""
    pure = "pure " if group.private and group.delta == 0 else ""
    return THEOREMS.get((group.variant, pure + group.trust))


def regret_curves(group: Group) -> Array:
    """[seed, checkpoint]: zero where it is nothing but rounding."""
    scale = _ROUNDING * group.users * abs(group.optimal_value or 0.0)
    return np.where(np.abs(group.regret) <= scale, 0.0, group.regret)


def _row(group: Group, anchor: str, free: Group | None) -> Row:
    if not group.known:
        earned = group.mean_return[:, -1]
        known = analysis.interval(earned) if np.isfinite(earned).all() else None
        return Row(group, anchor, None, None, None, known, None, None, None, None, None)
    curves = regret_curves(group)
    regret = analysis.interval(curves[:, -1], positive=bool((curves >= 0).all()))
    value = analysis.interval(group.value[:, -1])
    return Row(
        group=group,
        anchor=anchor,
        regret=regret,
        value=_capped(value, group.optimal_value),
        share=None
        if group.gap is None
        else _capped(_scaled(value, group.uniform_value or 0.0, group.gap), 1.0),
        mean_return=None,
        of_uniform=None
        if group.gap is None
        else _scaled(regret, 0.0, group.gap * float(group.users[-1])),
        of_no_privacy=None if free is None else _cost(group, free),
        reached=analysis.episodes_to(list(group.episodes_to_90))
        if (group.episodes_to_90 > 0).all()
        else None,
        growth=_growth(group, curves),
        theorem=theorem_of(group),
    )


def _curve(group: Group, name: str) -> Curve | None:
    """The band's last point is the interval of the final number: the same seeds, the same statistic."""
    given = regret_curves(group) if name == "regret" and group.known else getattr(group, name)
    if given is None:
        return None
    keep = np.unique(np.linspace(0, len(group.users) - 1, _POINTS).round().astype(int))
    keep = keep[np.isfinite(given[:, keep]).all(axis=0)]
    if not len(keep):
        return None
    positive = name == "regret" and bool((given >= 0).all())
    made: Band = analysis.band(given[:, keep], positive=positive)
    high = made.high
    # no policy is worth more than the optimal one
    if name == "value" and high is not None and group.optimal_value is not None:
        high = np.minimum(high, np.maximum(group.optimal_value, made.mean))
    return Curve(group.users[keep], made.mean, made.low, high)


def _anchors(groups: Sequence[Group]) -> list[str]:
    """The same the next time; with a number where names differ in signs only."""
    taken: dict[str, int] = {}
    made = []
    for group in groups:
        promise = f"{group.trust}-{group.epsilon:g}" if group.epsilon is not None else "no-privacy"
        plain = re.sub(
            r"[^a-z0-9.]+", "-", f"{group.problem}-{group.agent}-{promise}".lower()
        ).strip("-")[:80]
        taken[plain] = taken.get(plain, 0) + 1
        made.append(plain if taken[plain] == 1 else f"{plain}--{taken[plain]}")
    return made


def _without_privacy(groups: Sequence[Group], group: Group) -> Group | None:
    """The same agent after as many users: beside another one a difference need not be privacy's."""
    if not group.private:
        return None
    same = (
        one
        for one in groups
        if (one.problem, one.agent, one.users[-1]) == (group.problem, group.agent, group.users[-1])
    )
    return next((one for one in same if not one.private), None)


def _scaled(found: Interval, start: float, unit: float) -> Interval:
    """In other units: (x - start) / unit."""
    low, high = (None if end is None else (end - start) / unit for end in (found.low, found.high))
    error = None if found.error is None else found.error / unit
    return replace(found, estimate=(found.estimate - start) / unit, low=low, high=high, error=error)


def _capped(found: Interval, most: float | None) -> Interval:
    """Where nothing can be above `most`."""
    if found.high is None or most is None:
        return found
    return replace(found, high=min(found.high, max(most, found.estimate)))


def _cost(group: Group, free: Group) -> Interval | None:
    """On the seeds that both have: a run that failed leaves its partner out, too."""
    both = [seed for seed in group.seeds if seed in free.seeds]
    if not both:
        return None
    mine, other = (
        regret_curves(one)[[one.seeds.index(seed) for seed in both], -1] for one in (group, free)
    )
    if mine.mean() <= 0 or not other.mean() > 0:  # no ratio
        return None
    try:
        return analysis.privacy_cost(mine, other, paired=True)
    except InvalidParameter:  # all regret is one seed's
        return None


def _growth(group: Group, curves: Array) -> Growth | None:
    try:
        return analysis.growth(group.users, curves)
    except InvalidParameter:  # no regret on the window, or no window: there is no slope
        return None


def _last(group: Group) -> Array:
    """One number per seed."""
    return regret_curves(group)[:, -1] if group.known else group.mean_return[:, -1]


def _pair(group: Group, compared: analysis.Compared) -> Pair:
    return Pair(group.problem, group.promise, "regret" if group.known else "return", compared)


def _ends(name: str, found: Interval | None) -> dict[str, float | None]:
    ends = (None, None, None) if found is None else (found.estimate, found.low, found.high)
    return {
        name: _finite(ends[0]),
        f"{name}_low": _finite(ends[1]),
        f"{name}_high": _finite(ends[2]),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
