"""All pairs of agents under the same guarantee, and which of them differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.comparison.promise import Promise
from confide.comparison.row import Row, plain_ends
from confide.comparison.significance import Compared, compare_groups

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """Two agents on one problem under one guarantee.

    `compared.adjusted` is corrected over all pairs of the comparison.
    """

    problem: str
    promise: Promise
    # "regret", or "return" where regret is not known.
    measure: str
    compared: Compared

    @property
    def better(self) -> str | None:
        """The agent that did better, where that is significant."""
        if not self.compared.significant:
            return None
        first_is_smaller = self.compared.difference.estimate < 0
        first_is_better = first_is_smaller == (self.measure == "regret")
        return self.compared.first if first_is_better else self.compared.second

    def plain(self) -> dict[str, Any]:
        """The pair for JSON and CSV. The fields are part of the interface."""
        test = self.compared
        return {
            "problem": self.problem,
            "promise": str(self.promise),
            "first": test.first,
            "second": test.second,
            "measure": self.measure,
            **plain_ends("difference", test.difference),
            "paired": test.paired,
            "p": test.p,
            "p_after_holm": test.adjusted,
            "significant": test.significant,
            "possible": test.possible,
        }


def pairs_of(rows: Sequence[Row]) -> list[Pair]:
    """All pairs of learners within each problem and guarantee.

    Holm's correction is over all of them together.
    """
    rows_by_kind: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if not row.reference and np.isfinite(row.last).all():
            kind = (row.problem, row.known, row.trust, row.promise, row.delta, row.users)
            rows_by_kind.setdefault(kind, []).append(row)
    groups = {
        str(place): members
        for place, members in enumerate(rows_by_kind.values())
        if len(members) > 1
    }
    samples = {key: {row.agent: row.last for row in members} for key, members in groups.items()}
    seeds = {
        key: {row.agent: _distinct_seeds(row.seeds) for row in members}
        for key, members in groups.items()
    }
    count = sum(math.comb(len(members), 2) for members in groups.values())
    sizes = [len(row.seeds) for members in groups.values() for row in members]
    paired = None if paired_test(sizes, count) else False
    tests = compare_groups(samples, seeds=seeds, paired=paired, level=LEVEL)
    return [_pair(groups[test.group][0], test) for test in tests]


def _pair(row: Row, test: Compared) -> Pair:
    return Pair(row.problem, row.promise, "regret" if row.known else "return", test)


def paired_test(seeds: Sequence[int], pairs: int) -> bool:
    """Whether to flip signs of paired differences rather than to exchange labels.

    The design decides this, and never the results. A paired test is sharper where seeds matter, but
    its smallest p-value is 2 / 2^n, which Holm multiplies by the number of pairs: with eight seeds
    and seven pairs nothing can be significant. Exchanging labels can give p-values from
    2 / C(2n, n) on. If neither can show anything, the paired test has the better intervals.
    """
    n = max(seeds, default=0)
    needed = (1 - LEVEL) / max(pairs, 1)
    return 2 / 2**n <= needed or 2 / math.comb(2 * n, n) > needed


def seeds_needed(pairs: int) -> int:
    """The fewest seeds that could show a difference among so many pairs."""
    n = 2
    while 2 / math.comb(2 * n, n) > (1 - LEVEL) / max(pairs, 1):
        n += 1
    return n


def _distinct_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds, or other numbers if some are equal.

    Runs with secure noise may share a seed. They are not paired then.
    """
    return seeds if len(set(seeds)) == len(seeds) else tuple(range(-len(seeds), 0))
