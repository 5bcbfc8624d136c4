"""Transition probabilities from noisy counts: empirical Bayes on two levels.

All post-processing of a release.

A cell (s, a, s') has count n p plus noise, n the visits to its row. Which p there are is read off
all cells together: s' can follow s at all with probability rho; then p is zero, or in one of
several bins, with weights g that all cells share. rho and g maximise the likelihood (EM), as if
each bin had been met once before: few cells do not rule out a bin. So actions share what can follow
a state, and a table of few successors is told from one of many without a public support. A bin that
is not told from zero in a row counts as zero in the mean, and as it is in the variance: pessimism
sees what may be hidden below the noise.

Where most mass lies in cells that are too small to be seen one by one (`missed`), rows are
projected on the simplex instead.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from confide.offline import _row_kernels as _kernels
from confide.tables.support_features import Support

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# The numbers down to MISSED were chosen by measurement, on the problems and the seeds that the
# docstring of benchmarks/offline.py names. None of them matters for privacy.
# Bins of probabilities, from the least that is told from noise up to one, and rounds of EM.
BINS = 14
ROUNDS = 80
# Cells that each bin has met before.
PSEUDO = 1.0
# Standard deviations of noise: a typical row tells a cell as large as this from zero.
SEEN = 2.0
# The least standard deviation that is computed with: without privacy there is none.
QUIET = 0.3
# Share of all visits in cells that are not seen, from which on rows are projected.
MISSED = 0.15
# Cells to which bins are fitted. Of larger tables every k-th state is used, to save time.
FITTED = 2**19
# Cells that are computed at a time, to save memory.
BLOCK = 2**17
_TINY = 1e-300
# Smaller probabilities are zero: products of them would be subnormal numbers, which are slow.
_NONE = 1e-100
# The largest logarithm of odds.
_SURE = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class EstimatedRows:
    """Transition probabilities [cell] and their variances given the release; visits [row], noisy,
    with standard deviations.

    Visits count all rows. Those whose next state is known are `moves` [row]; transition
    probabilities are estimated from them. `hidden` [row]: the standard deviation of the noise on
    the share of one successor, whatever the other rows say about it.
    """

    probabilities: Array = field(repr=False)
    variances: Array = field(repr=False)
    visits: Array = field(repr=False)
    visit_std: Array = field(repr=False)
    hidden: Array = field(repr=False)
    missed: float
    # Exact | empirical-bayes | projection.
    method: str
    moves: Array = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Some cells: counts with their rows' visits, groups of cells with the same s and s', and the
    probability of each bin.
    """

    counts: Array
    visits: Array
    # Standard deviation of a count, noise and sampling together.
    spread: Array
    # Probability that is told from zero.
    least: Array
    group: Ints
    edges: Array
    noise: float

    @property
    def zero(self) -> Array:
        """The logarithm of the density of a count [cell], if p is zero."""
        logarithm: Array = -0.5 * (self.counts / self.noise) ** 2 - np.log(
            self.noise * np.sqrt(2 * np.pi)
        )
        return logarithm

    def edges_in_spreads(self) -> Array:
        """The edges of the bins in units of the spread [cell, edge]."""
        scaled: Array = (self.visits[:, None] * self.edges - self.counts[:, None]) / self.spread[
            :, None
        ]
        return scaled

    def bins(self, scaled: Array) -> Array:
        """The density of a count [cell, bin] for p uniform in a bin; in a bin that is not told from
        zero, that of zero.
        """
        density: Array = _between(scaled) / (self.visits[:, None] * np.diff(self.edges))
        return np.where(self.unseen, np.exp(self.zero)[:, None], density)

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """Bins [cell, bin] that are not told from zero."""
        return self.edges[1:] <= self.least[:, None]

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> "_Cells":
        of = (self.counts[chosen], self.visits[chosen], self.spread[chosen], self.least[chosen])
        return _Cells(*of, self.group[chosen], self.edges, self.noise)


def rows_of(
    counts: Array,
    totals: Array,
    noise: float,
    total_weight: float,
    support: Support,
    cuts: Array | None = None,
    counted: npt.NDArray[np.bool_] | None = None,
) -> EstimatedRows:
    """From noisy counts [cell] and row totals [row] (empty if total_weight is zero), with this
    standard deviation of noise.

    `cuts` [row], if they are released, are rows whose next state is not known; `counted` [row] says
    which rows people can be in: without it those that something can follow. Without noise,
    probabilities are shares of counts. Of a table of more than FITTED cells, the states to which
    bins are fitted also decide between the two methods for noisy counts.
    """
    cut_rows = np.zeros(0) if cuts is None else cuts
    if noise == 0:
        return _exact(counts, cut_rows, support)
    noise = max(noise, QUIET)
    all_visits, all_std = visits_of(counts, totals, noise, total_weight, support, cut_rows, counted)
    visits, visit_std = moves_of(cut_rows, all_visits, all_std, noise, support)
    step = max(1, support.cells // FITTED)
    # Rows.
    some = np.arange(support.pairs) // support.actions % step == 0
    cells = _cells(counts, visits, visit_std, noise, support, some)
    fitted = _fit_bins(cells)
    mean, variance = _moments(cells, *fitted)
    missed = _missed_share(mean, visits, visit_std, support, some)
    hidden = np.minimum(noise / np.maximum(visits, visit_std / 2), 1.0)
    if missed > MISSED:
        p, spread = _project_rows(counts, visits, visit_std, noise, support)
        return EstimatedRows(p, spread, all_visits, all_std, hidden, missed, "projection", visits)
    if step > 1:
        mean, variance = _moments(
            _cells(counts, visits, visit_std, noise, support, np.ones(support.pairs, bool)), *fitted
        )
    row = _row(support)
    sums = np.bincount(row, mean, support.pairs)
    scale = np.where(sums > 0, sums, 1.0)[row]
    even = 1 / np.maximum(np.diff(support.indptr), 1)[row]
    empty = (sums <= 0)[row]
    probabilities = np.where(empty, even, mean / scale)
    return EstimatedRows(
        probabilities,
        np.where(empty, even, variance / scale**2),
        all_visits,
        all_std,
        hidden,
        missed,
        "empirical-bayes",
        visits,
    )


def _exact(counts: Array, cuts: Array, support: Support) -> EstimatedRows:
    """Shares of exact counts, with multinomial variances; a row that nobody was in is even."""
    row = _row(support)
    # Exact counts are not negative. This also makes distributions of other numbers.
    counts = np.maximum(counts, 0.0)
    moves = np.bincount(row, counts, support.pairs).astype(float)
    n = np.where(moves > 0, moves, 1.0)[row]
    even = 1 / np.maximum(np.diff(support.indptr), 1)[row]
    empty = (moves <= 0)[row]
    p = np.where(empty, even, counts / n)
    none = np.zeros(support.pairs)
    return EstimatedRows(
        p,
        np.where(empty, even, p * (1 - p) / n),
        moves + cuts if cuts.size else moves,
        none,
        none,
        0.0,
        "exact",
        moves,
    )


def _row(support: Support) -> Ints:
    """The row of each cell."""
    return np.repeat(np.arange(support.pairs), np.diff(support.indptr))


def _cells(
    counts: Array,
    visits: Array,
    visit_std: Array,
    noise: float,
    support: Support,
    some: npt.NDArray[np.bool_],
) -> _Cells:
    """The cells of some rows."""
    floor = np.maximum(visits, visit_std / 2)
    least = np.clip(SEEN * noise / floor, 1e-4, 0.3)
    edges = np.geomspace(least[support.open].min(), 1.0, BINS + 1)
    row = _row(support)
    if not some.all():
        chosen = some[row]
        row = row[chosen]
        counts = counts[chosen]
        after = support.successors[chosen]
    else:
        after = support.successors
    n = floor[row]
    near = np.clip(counts / n, edges[0], 1.0)
    spread = np.sqrt(noise**2 + n * near * (1 - near) + (visit_std[row] * near) ** 2)
    return _Cells(
        counts,
        n,
        spread,
        least[row],
        (row // support.actions) * support.states + after,
        edges,
        noise,
    )


def _missed_share(
    mean: Array, visits: Array, visit_std: Array, support: Support, some: npt.NDArray[np.bool_]
) -> float:
    """The share of the visits to these rows that is in cells which are not seen; rows that are
    hardly told from noise are left out.
    """
    lengths = np.where(some, np.diff(support.indptr), 0)
    sums = np.bincount(np.repeat(np.arange(support.pairs), lengths), mean, support.pairs)
    enough_visits = some & (visits > 3 * visit_std)
    return float(
        (visits * np.maximum(1 - sums, 0.0))[enough_visits].sum()
        / max(visits[enough_visits].sum(), _TINY)
    )


def visits_of(
    counts: Array,
    totals: Array,
    noise: float,
    total_weight: float,
    support: Support,
    cuts: Array | None = None,
    counted: npt.NDArray[np.bool_] | None = None,
) -> tuple[Array, Array]:
    """Visits [row] and their standard deviations: the inverse-variance mean of the released total
    and the sum of the cells.
    """
    lengths = np.diff(support.indptr)
    row = np.repeat(np.arange(support.pairs), lengths)
    sums: Array = np.bincount(row, counts, support.pairs).astype(float)
    if cuts is not None and cuts.size:
        sums = sums + cuts
        lengths = lengths + 1
    precision = 1 / np.maximum(lengths, 1)
    if totals.size:
        sums = (sums * precision + totals * total_weight**2) / (precision + total_weight**2)
        precision = precision + total_weight**2
    return np.where(support.open if counted is None else counted, sums, 0.0), noise / np.sqrt(
        precision
    )


def moves_of(
    cuts: Array, visits: Array, visit_std: Array, noise: float, support: Support
) -> tuple[Array, Array]:
    """Rows whose next state is known [row], and their standard deviations: visits less the cut
    ones.

    One noisy number per row says how many were cut. It is shrunk to the share of cut rows in the
    whole table, as far as shares differ by no more than noise and chance.
    """
    if not cuts.size:
        return visits, visit_std
    open_rows = support.open
    positive_visits = np.where(open_rows, np.maximum(visits, 0.0), 0.0)
    total = max(float(positive_visits.sum()), _TINY)
    share = float(np.clip(cuts[open_rows].sum() / total, 0.0, 1.0))
    apart = np.where(open_rows, cuts - share * positive_visits, 0.0)
    chance = np.where(open_rows, noise**2 + share * (1 - share) * positive_visits, 0.0)
    squares = max(float((positive_visits**2).sum()), _TINY)
    spread = max(float((apart**2 - chance).sum()) / squares, 0.0) * positive_visits**2
    trust = np.where(open_rows, spread / np.maximum(spread + chance, _TINY), 0.0)
    cut = np.clip(share * positive_visits + trust * apart, 0.0, positive_visits)
    return (
        np.where(open_rows, visits - cut, 0.0),
        np.maximum(np.hypot((1 - share) * visit_std, np.sqrt(trust) * noise), noise / 2),
    )


def simplex(counts: Array) -> Array:
    """Probabilities from noisy counts: the nearest ones that are not negative and have the same
    sum; even, if that is not positive.
    """
    total = float(counts.sum())
    if total <= 0:
        return np.full(counts.size, 1 / counts.size)
    return _kernels.project(counts, np.array([total]), np.array([0, counts.size])) / total


def _between(scaled: Array) -> Array:
    """P(a < Z < b) for neighbouring edges a, b, without losing it in a tail."""
    low = scaled[:, :-1]
    high = scaled[:, 1:]
    upper = low > 0
    mass: Array = ndtr(np.where(upper, -low, high)) - ndtr(np.where(upper, -high, low))
    return np.where(mass < _NONE, 0.0, mass)


def _fit_bins(cells: _Cells) -> tuple[float, Array]:
    """rho, and the weights g [1 + bin] of zero and of the bins among successors that can follow."""
    density = cells.bins(cells.edges_in_spreads())
    zero = cells.zero
    none = np.exp(zero)
    group = np.unique(cells.group, return_inverse=True)[1]
    rho = 0.2
    g = np.full(BINS + 1, 1 / (BINS + 1))
    for _ in range(ROUNDS):
        each, likely = _evidence(density, none, zero, group, rho, g)
        share = likely[group] / each
        g = g * np.append(share @ none, share @ density) + PSEUDO
        g = np.where(g < _NONE * g.sum(), 0.0, g / g.sum())
        rho = float(np.clip((likely.sum() + PSEUDO) / (likely.size + 2 * PSEUDO), 1e-4, 1 - 1e-4))
    return rho, g


def _evidence(
    density: Array, none: Array, zero: Array, group: Ints, rho: float, g: Array
) -> tuple[Array, Array]:
    """The density of each count [cell] if its successor can follow, and the probability [group]
    that it can.
    """
    each = np.maximum(g[0] * none + density @ g[1:], _TINY)
    odds = np.bincount(group, np.log(each) - np.maximum(zero, np.log(_TINY))) + np.log(
        rho / (1 - rho)
    )
    likely: Array = 1 / (1 + np.exp(-np.clip(odds, -_SURE, _SURE)))
    return each, likely


def _moments(cells: _Cells, rho: float, g: Array) -> tuple[Array, Array]:
    """Mean and variance [cell] of p given the counts, some cells at a time."""
    mean = np.zeros(cells.counts.size)
    square = np.zeros(cells.counts.size)
    odds = np.full(int(cells.group.max(initial=-1)) + 1, np.log(rho / (1 - rho)))
    blocks = [slice(first, first + BLOCK) for first in range(0, cells.counts.size, BLOCK)]
    for block in blocks:
        part = cells.part(block)
        scaled = part.edges_in_spreads()
        zero = part.zero
        density = part.bins(scaled)
        each = g[0] * np.exp(zero) + density @ g[1:]
        # Farther away than any bin.
        outside = each < _TINY
        odds += np.bincount(
            part.group, np.log(np.maximum(each, _TINY)) - np.maximum(zero, np.log(_TINY)), odds.size
        )
        weight = density * g[1:] / np.where(outside, 1.0, each)[:, None]
        centre, second = _within(part, scaled)
        top = np.clip(part.counts / part.visits, 0.0, 1.0)
        mean[block] = np.where(outside, top, (weight * centre).sum(axis=1))
        square[block] = np.where(
            outside, top**2 + (part.spread / part.visits) ** 2, (weight * second).sum(axis=1)
        )
    likely = (1 / (1 + np.exp(-np.clip(odds, -_SURE, _SURE))))[cells.group]
    return likely * mean, np.maximum(likely * square - (likely * mean) ** 2, 0.0)


def _within(cells: _Cells, scaled: Array) -> tuple[Array, Array]:
    """Mean and mean square [cell, bin] of p in each bin: a normal law, truncated.

    A bin that is not told from zero has mean zero.
    """
    mass = _between(scaled)
    density = np.exp(-0.5 * np.clip(scaled, -38, 38) ** 2) / np.sqrt(2 * np.pi)
    safe = np.maximum(mass, 1e-12)
    shift = (density[:, :-1] - density[:, 1:]) / safe
    turn = (scaled[:, :-1] * density[:, :-1] - scaled[:, 1:] * density[:, 1:]) / safe
    n = cells.visits[:, None]
    s = cells.spread[:, None]
    centre = np.clip((cells.counts[:, None] + s * shift) / n, cells.edges[:-1], cells.edges[1:])
    variance = (s / n) ** 2 * np.clip(1 + turn - shift**2, 0.0, 1.0)
    middle = (cells.edges[:-1] + cells.edges[1:]) / 2
    return ~cells.unseen * centre, np.where(cells.unseen, middle**2, centre**2 + variance)


def _project_rows(
    counts: Array, visits: Array, visit_std: Array, noise: float, support: Support
) -> tuple[Array, Array]:
    """Probabilities and variances [cell]: rows on the simplex, those of few visits towards their
    state's row with all actions together.
    """
    S = support.states
    A = support.actions
    row = _row(support)
    group = (row // A) * S + support.successors
    total = np.maximum(visits, 0.0)
    state = np.maximum(total.reshape(S, A).sum(axis=1), _TINY)
    pooled: Array = np.bincount(group, counts, S * S).astype(float)
    dense = _kernels.project(pooled, state, np.arange(S + 1) * S) / np.repeat(state, S)
    trust = total**2 / (total**2 + (3 * visit_std) ** 2)
    p = _kernels.project(counts, total, support.indptr)
    p *= (trust / np.maximum(total, _TINY))[row]
    p += (1 - trust)[row] * dense[group]
    del group
    sums = np.bincount(row, p, support.pairs)
    p /= np.where(sums > 0, sums, 1.0)[row]
    p[(sums <= 0)[row]] = 0.0
    p += (np.where(sums > 0, 0.0, 1.0) / np.maximum(np.diff(support.indptr), 1))[row]
    n = np.maximum(total, visit_std)[row]
    variance = p * (1 - p) / n
    variance += (p > 0) * (noise / n) ** 2
    return p, variance
