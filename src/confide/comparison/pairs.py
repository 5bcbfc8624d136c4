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
    """Two agents on one problem under one promise. `compared.adjusted` is corrected over all pairs of the comparison."""

    problem: str
    promise: Promise
    measure: str  # regret, or return where regret is not known
    compared: Compared

    @property
    def better(self) -> str | None:
        """The agent that did better, where that is significant."""
        if not self.compared.significant:
            return None
        first = (self.compared.difference.estimate < 0) == (self.measure == "regret")
        return self.compared.first if first else self.compared.second

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        one = self.compared
        return {
            "problem": self.problem,
            "promise": str(self.promise),
            "first": one.first,
            "second": one.second,
            "measure": self.measure,
            **plain_ends("difference", one.difference),
            "paired": one.paired,
            "p": one.p,
            "p_after_holm": one.adjusted,
            "significant": one.significant,
            "possible": one.possible,
        }


def pairs_of(rows: Sequence[Row]) -> list[Pair]:
    """All pairs of learners within each problem and guarantee, corrected by Holm over all of them together."""
    kinds: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if not row.reference and np.isfinite(row.last).all():
            kind = (row.problem, row.known, row.trust, row.promise, row.delta, row.users)
            kinds.setdefault(kind, []).append(row)
    shared = {str(i): members for i, members in enumerate(kinds.values()) if len(members) > 1}
    samples = {key: {one.agent: one.last for one in members} for key, members in shared.items()}
    seeds = {
        key: {one.agent: _distinct(one.seeds) for one in members} for key, members in shared.items()
    }
    count = sum(math.comb(len(members), 2) for members in shared.values())
    sizes = [len(one.seeds) for members in shared.values() for one in members]
    paired = None if paired_test(sizes, count) else False
    made = compare_groups(samples, seeds=seeds, paired=paired, level=LEVEL)
    return [_pair(shared[one.group][0], one) for one in made]


def _pair(row: Row, compared: Compared) -> Pair:
    return Pair(row.problem, row.promise, "regret" if row.known else "return", compared)


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
