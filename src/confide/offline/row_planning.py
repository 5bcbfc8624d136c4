"""Transition probabilities from noisy counts: empirical Bayes on two levels.

All of it is post-processing of a release: arrays go in, `EstimatedRows` come out. It may be changed
without an effect on privacy, but then values and plans must be measured again
(benchmarks/results/offline.md and values_learn.md).

A row is a pair (s, a), and a cell is a triple (s, a, s') of the support. The count of a cell is n p
plus noise, with n the visits to its row and p the probability that is looked for.

- Which p there are is read off all cells together. s' can follow s at all with probability rho. If
  it cannot, p is zero; if it can, p is zero or in one of several bins, with weights g that all
  cells share.
- rho and g maximise the likelihood (EM), as if each bin had been met once before: few cells do not
  rule out a bin.
- So actions share what can follow a state, and a table of few successors can be distinguished from
  one of many without a public support.
- In a row whose noise hides a bin, this bin counts as zero in the mean, and as it is in the
  variance. Pessimism therefore sees what may be hidden below the noise.

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
# The numbers down to MAX_MISSED_SHARE were chosen by measurement, on the problems and the seeds
# that the docstring of benchmarks/offline.py names. None of them matters for privacy.
# Bins of probabilities, from the least that can be distinguished from noise up to one.
BINS = 14
EM_ROUNDS = 80
# How many cells each bin has met before the first count.
PRIOR_CELLS = 1.0
# A typical row distinguishes a cell from zero if its count is so many standard deviations of noise.
VISIBLE_STDS = 2.0
# The least standard deviation of noise that is computed with.
LEAST_NOISE = 0.3
# Rows are projected if more than this share of all visits is in cells that are not seen.
MAX_MISSED_SHARE = 0.15
# Bins are fitted to about so many cells. Of larger tables every k-th state is used, to save time.
FITTED_CELLS = 2**19
# Cells that are computed at a time, to save memory. Another number changes last bits of results.
CELLS_AT_A_TIME = 2**17
# The numbers below only keep floating-point operations finite and fast.
_TINY = 1e-300
# Smaller probabilities are zero: products of them would be subnormal numbers, which are slow.
_NEGLIGIBLE_PROBABILITY = 1e-100
_MAX_LOG_ODDS = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class EstimatedRows:
    """Transition probabilities with their errors, and noisy visits."""

    # Transition probabilities [cell], and their variances given the release.
    probabilities: Array = field(repr=False)
    variances: Array = field(repr=False)
    # Noisy visits to all rows [row], and their standard deviations.
    visits: Array = field(repr=False)
    visit_std: Array = field(repr=False)
    # The standard deviation of the noise on the share of one successor [row], whatever the other
    # rows say about it.
    hidden: Array = field(repr=False)
    # The share of all visits that is in cells which are too small to be seen.
    missed: float
    # "exact", "empirical-bayes" or "projection".
    method: str
    # Visits whose next state is known [row]. Transition probabilities are estimated from them.
    moves: Array = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Some cells of the table, with all that is known of them before bins are fitted."""

    # Noisy counts [cell].
    counts: Array
    # Visits to the row of each cell [cell].
    visits: Array
    # The standard deviation of each count [cell], noise and sampling together.
    spread: Array
    # The least probability that can be distinguished from zero in the row of each cell [cell].
    least: Array
    # The number of the group of each cell [cell]. Cells with the same s and s' are one group.
    group: Ints
    # The edges of the bins [edge], rising to one.
    edges: Array
    # The standard deviation of the noise on a count.
    noise: float

    @property
    def log_density_of_zero(self) -> Array:
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

    def densities(self, scaled: Array) -> Array:
        """The density of a count [cell, bin] for p uniform in a bin. In a bin that noise hides, it
        is that of zero.
        """
        density: Array = _between(scaled) / (self.visits[:, None] * np.diff(self.edges))
        return np.where(self.unseen, np.exp(self.log_density_of_zero)[:, None], density)

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """Bins [cell, bin] that noise hides, because they cannot be distinguished from zero."""
        return self.edges[1:] <= self.least[:, None]

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> "_Cells":
        """These cells alone, with the same bins."""
        return _Cells(
            counts=self.counts[chosen],
            visits=self.visits[chosen],
            spread=self.spread[chosen],
            least=self.least[chosen],
            group=self.group[chosen],
            edges=self.edges,
            noise=self.noise,
        )


def rows_of(
    counts: Array,
    totals: Array,
    noise: float,
    total_weight: float,
    support: Support,
    cuts: Array | None = None,
    counted: npt.NDArray[np.bool_] | None = None,
) -> EstimatedRows:
    """Estimate rows from noisy counts [cell] and row totals [row] (empty if total_weight is zero).

    `noise` is the standard deviation of the noise on a count. `cuts` [row], if they are released,
    are rows whose next state is not known. `counted` [row] says which rows people can be in;
    without it those that something can follow. Without noise, probabilities are shares of counts.

    Of a table of more than FITTED_CELLS cells, the states to which bins are fitted also decide
    between the two methods for noisy counts.
    """
    cut_rows = np.zeros(0) if cuts is None else cuts
    if noise == 0:
        return _exact(counts, cut_rows, support)
    noise = max(noise, LEAST_NOISE)
    visits, visit_std = visits_of(counts, totals, noise, total_weight, support, cut_rows, counted)
    moves, moves_std = moves_of(cut_rows, visits, visit_std, noise, support)
    state_step = max(1, support.cells // FITTED_CELLS)
    fitted_rows = np.arange(support.pairs) // support.actions % state_step == 0
    cells = _cells(counts, moves, moves_std, noise, support, fitted_rows)
    rho, g = _fit_bins(cells)
    mean, variance = _moments(cells, rho, g)
    missed = _missed_share(mean, moves, moves_std, support, fitted_rows)
    if missed > MAX_MISSED_SHARE:
        method = "projection"
        probabilities, variances = _project_rows(counts, moves, moves_std, noise, support)
    else:
        method = "empirical-bayes"
        if state_step > 1:
            # The bins were fitted to some rows. Now they are used for all of them.
            every_row = np.ones(support.pairs, bool)
            cells = _cells(counts, moves, moves_std, noise, support, every_row)
            mean, variance = _moments(cells, rho, g)
        probabilities, variances = _normalise_rows(mean, variance, support)
    return EstimatedRows(
        probabilities=probabilities,
        variances=variances,
        visits=visits,
        visit_std=visit_std,
        hidden=np.minimum(noise / np.maximum(moves, moves_std / 2), 1.0),
        missed=missed,
        method=method,
        moves=moves,
    )


def _normalise_rows(mean: Array, variance: Array, support: Support) -> tuple[Array, Array]:
    """Probabilities and variances [cell] of rows that add up to one.

    A row without any mass is even.
    """
    row = _row(support)
    sums = np.bincount(row, mean, support.pairs)
    scale = np.where(sums > 0, sums, 1.0)[row]
    even = 1 / np.maximum(np.diff(support.indptr), 1)[row]
    empty = (sums <= 0)[row]
    probabilities = np.where(empty, even, mean / scale)
    return probabilities, np.where(empty, even, variance / scale**2)


def _exact(counts: Array, cuts: Array, support: Support) -> EstimatedRows:
    """Shares of exact counts, with multinomial variances. A row that nobody was in is even."""
    row = _row(support)
    # Exact counts are not negative. This also makes distributions of other numbers.
    counts = np.maximum(counts, 0.0)
    moves = np.bincount(row, counts, support.pairs).astype(float)
    row_moves = np.where(moves > 0, moves, 1.0)[row]
    even = 1 / np.maximum(np.diff(support.indptr), 1)[row]
    empty = (moves <= 0)[row]
    probabilities = np.where(empty, even, counts / row_moves)
    variances = probabilities * (1 - probabilities) / row_moves
    no_noise = np.zeros(support.pairs)
    return EstimatedRows(
        probabilities=probabilities,
        variances=np.where(empty, even, variances),
        visits=moves + cuts if cuts.size else moves,
        visit_std=no_noise,
        hidden=no_noise,
        missed=0.0,
        method="exact",
        moves=moves,
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
    """The cells of the chosen rows (`some` [row]), with bins for the whole table."""
    # A row of few visits counts as one of half a standard deviation, so that no share is divided
    # by less than noise.
    row_visits = np.maximum(visits, visit_std / 2)
    # The limits keep the width of bins sensible in very large and very small logs. No page measures
    # them.
    least = np.clip(VISIBLE_STDS * noise / row_visits, 1e-4, 0.3)
    edges = np.geomspace(least[support.open].min(), 1.0, BINS + 1)
    row = _row(support)
    successors = support.successors
    if not some.all():
        chosen = some[row]
        row = row[chosen]
        counts = counts[chosen]
        successors = successors[chosen]
    cell_visits = row_visits[row]
    share = np.clip(counts / cell_visits, edges[0], 1.0)
    # The noise of the count, the chance of a binomial count, and the error of the visits.
    variance = noise**2 + cell_visits * share * (1 - share) + (visit_std[row] * share) ** 2
    return _Cells(
        counts=counts,
        visits=cell_visits,
        spread=np.sqrt(variance),
        least=least[row],
        group=(row // support.actions) * support.states + successors,
        edges=edges,
        noise=noise,
    )


def _missed_share(
    mean: Array, visits: Array, visit_std: Array, support: Support, some: npt.NDArray[np.bool_]
) -> float:
    """The share of the visits to these rows that is in cells which are not seen.

    Rows whose visits are at most three standard deviations of noise are left out.
    """
    lengths = np.where(some, np.diff(support.indptr), 0)
    sums = np.bincount(np.repeat(np.arange(support.pairs), lengths), mean, support.pairs)
    enough_visits = some & (visits > 3 * visit_std)
    missed_visits = visits * np.maximum(1 - sums, 0.0)
    return float(missed_visits[enough_visits].sum() / max(visits[enough_visits].sum(), _TINY))


def visits_of(
    counts: Array,
    totals: Array,
    noise: float,
    total_weight: float,
    support: Support,
    cuts: Array | None = None,
    counted: npt.NDArray[np.bool_] | None = None,
) -> tuple[Array, Array]:
    """Visits [row] and their standard deviations.

    Visits are the inverse-variance mean of the released total and the sum of the cells. Precisions
    are in units of 1 / noise^2.
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
    possible_rows = support.open if counted is None else counted
    return np.where(possible_rows, sums, 0.0), noise / np.sqrt(precision)


def moves_of(
    cuts: Array, visits: Array, visit_std: Array, noise: float, support: Support
) -> tuple[Array, Array]:
    """Visits whose next state is known [row], and their standard deviations.

    They are the visits less the cut ones. One noisy number per row says how many were cut. It is
    shrunk to the share of cut rows in the whole table, as far as shares differ by no more than
    noise and chance.
    """
    if not cuts.size:
        return visits, visit_std
    open_rows = support.open
    positive_visits = np.where(open_rows, np.maximum(visits, 0.0), 0.0)
    total = max(float(positive_visits.sum()), _TINY)
    share = float(np.clip(cuts[open_rows].sum() / total, 0.0, 1.0))
    # How far each row is from the common share, and how far noise and chance alone would take it.
    difference = np.where(open_rows, cuts - share * positive_visits, 0.0)
    chance = np.where(open_rows, noise**2 + share * (1 - share) * positive_visits, 0.0)
    # What is left is the variance of the shares themselves, by the method of moments.
    # Noise may leave no visit at all. Then no share can differ, and nothing is divided by zero:
    # a release must not fail after the charge because of its noise.
    squares = float((positive_visits**2).sum())
    share_variance = 0.0
    if squares > 0.0:
        share_variance = max(float((difference**2 - chance).sum()) / squares, 0.0)
    row_variance = share_variance * positive_visits**2
    trust = np.where(open_rows, row_variance / np.maximum(row_variance + chance, _TINY), 0.0)
    cut = np.clip(share * positive_visits + trust * difference, 0.0, positive_visits)
    moves = np.where(open_rows, visits - cut, 0.0)
    moves_std = np.hypot((1 - share) * visit_std, np.sqrt(trust) * noise)
    return moves, np.maximum(moves_std, noise / 2)


def simplex(counts: Array) -> Array:
    """Probabilities from noisy counts.

    They are the nearest counts that are not negative and have the same sum, divided by it. If the
    sum is not positive, all are equal.
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
    return np.where(mass < _NEGLIGIBLE_PROBABILITY, 0.0, mass)


def _fit_bins(cells: _Cells) -> tuple[float, Array]:
    """Fit rho and g by EM.

    rho is the probability that a successor can follow. g [1 + bin] are the weights of zero and of
    the bins among successors that can follow.
    """
    density = cells.densities(cells.edges_in_spreads())  # [cell, bin]
    log_zero = cells.log_density_of_zero
    zero_density = np.exp(log_zero)
    # Groups are numbered anew, because only some states may be here.
    group = np.unique(cells.group, return_inverse=True)[1]
    # EM starts here. No page measures other starts.
    rho = 0.2
    g = np.full(BINS + 1, 1 / (BINS + 1))
    for _ in range(EM_ROUNDS):
        # E step: how likely each successor can follow, given the counts of all actions.
        mixture = _mixture_density(density, zero_density, g)
        can_follow = _probability_of_odds(_log_odds(mixture, log_zero, group, rho))
        # M step: the mean responsibilities, with the cells that each bin has met before.
        responsibility = can_follow[group] / mixture
        g = g * np.append(responsibility @ zero_density, responsibility @ density) + PRIOR_CELLS
        g = np.where(g < _NEGLIGIBLE_PROBABILITY * g.sum(), 0.0, g / g.sum())
        rho = (can_follow.sum() + PRIOR_CELLS) / (can_follow.size + 2 * PRIOR_CELLS)
        rho = float(np.clip(rho, 1e-4, 1 - 1e-4))
    return rho, g


def _mixture_density(density: Array, zero_density: Array, g: Array) -> Array:
    """The density of each count [cell], if its successor can follow."""
    mixture: Array = np.maximum(g[0] * zero_density + density @ g[1:], _TINY)
    return mixture


def _log_odds(mixture: Array, log_zero: Array, group: Ints, rho: float) -> Array:
    """The logarithm of the odds that a successor can follow [group]."""
    evidence = np.log(mixture) - np.maximum(log_zero, np.log(_TINY))
    odds: Array = np.bincount(group, evidence) + np.log(rho / (1 - rho))
    return odds


def _probability_of_odds(log_odds: Array) -> Array:
    """Probabilities from the logarithms of odds."""
    probability: Array = 1 / (1 + np.exp(-np.clip(log_odds, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)))
    return probability


def _moments(cells: _Cells, rho: float, g: Array) -> tuple[Array, Array]:
    """Mean and variance [cell] of p given the counts, some cells at a time."""
    mean = np.zeros(cells.counts.size)
    square = np.zeros(cells.counts.size)
    groups = int(cells.group.max(initial=-1)) + 1
    log_odds = np.full(groups, np.log(rho / (1 - rho)))
    for first in range(0, cells.counts.size, CELLS_AT_A_TIME):
        block = slice(first, first + CELLS_AT_A_TIME)
        part = cells.part(block)
        scaled = part.edges_in_spreads()
        log_zero = part.log_density_of_zero
        density = part.densities(scaled)
        mixture = g[0] * np.exp(log_zero) + density @ g[1:]
        evidence = np.log(np.maximum(mixture, _TINY)) - np.maximum(log_zero, np.log(_TINY))
        log_odds += np.bincount(part.group, evidence, groups)
        # A count may be farther away than any bin. Then its own share stands for p.
        outside = mixture < _TINY
        share = np.clip(part.counts / part.visits, 0.0, 1.0)
        weight = density * g[1:] / np.where(outside, 1.0, mixture)[:, None]  # [cell, bin]
        bin_mean, bin_square = _bin_moments(part, scaled)
        mean[block] = np.where(outside, share, (weight * bin_mean).sum(axis=1))
        square[block] = np.where(
            outside,
            share**2 + (part.spread / part.visits) ** 2,
            (weight * bin_square).sum(axis=1),
        )
    # The moments so far are those of successors that can follow. Of all others p is zero.
    can_follow = _probability_of_odds(log_odds)[cells.group]
    variance = np.maximum(can_follow * square - (can_follow * mean) ** 2, 0.0)
    return can_follow * mean, variance


def _bin_moments(cells: _Cells, scaled: Array) -> tuple[Array, Array]:
    """Mean and mean square [cell, bin] of p in each bin: those of a truncated normal law.

    A bin that noise hides has mean zero.
    """
    # With phi the density of N(0, 1) at the edges a, b of a bin, and m the mass between them:
    # E z = (phi(a) - phi(b)) / m, and Var z = 1 + (a phi(a) - b phi(b)) / m - (E z)^2.
    mass = np.maximum(_between(scaled), 1e-12)
    density = np.exp(-0.5 * np.clip(scaled, -38, 38) ** 2) / np.sqrt(2 * np.pi)
    low = scaled[:, :-1]
    high = scaled[:, 1:]
    shift = (density[:, :-1] - density[:, 1:]) / mass
    turn = (low * density[:, :-1] - high * density[:, 1:]) / mass
    # p = (count + spread z) / visits.
    visits = cells.visits[:, None]
    spread = cells.spread[:, None]
    mean = (cells.counts[:, None] + spread * shift) / visits
    mean = np.clip(mean, cells.edges[:-1], cells.edges[1:])
    variance = (spread / visits) ** 2 * np.clip(1 + turn - shift**2, 0.0, 1.0)
    middle = (cells.edges[:-1] + cells.edges[1:]) / 2
    square = np.where(cells.unseen, middle**2, mean**2 + variance)
    return ~cells.unseen * mean, square


def _project_rows(
    counts: Array, visits: Array, visit_std: Array, noise: float, support: Support
) -> tuple[Array, Array]:
    """Probabilities and variances [cell] of rows that are projected on the simplex.

    A row of few visits is moved towards the row of its state with all actions together. Arrays of
    cells can be large, so they are changed in place.
    """
    S = support.states
    A = support.actions
    row = _row(support)
    state_and_successor = (row // A) * S + support.successors  # [cell]
    row_visits = np.maximum(visits, 0.0)
    state_visits = np.maximum(row_visits.reshape(S, A).sum(axis=1), _TINY)
    # The row of each state with all actions together, [(s, s')].
    pooled: Array = np.bincount(state_and_successor, counts, S * S).astype(float)
    pooled_rows = _kernels.project(pooled, state_visits, np.arange(S + 1) * S)
    pooled_rows = pooled_rows / np.repeat(state_visits, S)
    # A row whose visits are three standard deviations counts as much as the pooled row. No page
    # measures other numbers.
    trust = row_visits**2 / (row_visits**2 + (3 * visit_std) ** 2)
    probabilities = _kernels.project(counts, row_visits, support.indptr)
    probabilities *= (trust / np.maximum(row_visits, _TINY))[row]
    probabilities += (1 - trust)[row] * pooled_rows[state_and_successor]
    # It is as large as the table, and is not needed below.
    del state_and_successor
    sums = np.bincount(row, probabilities, support.pairs)
    probabilities /= np.where(sums > 0, sums, 1.0)[row]
    # A row without any mass is even.
    probabilities[(sums <= 0)[row]] = 0.0
    even = np.where(sums > 0, 0.0, 1.0) / np.maximum(np.diff(support.indptr), 1)
    probabilities += even[row]
    cell_visits = np.maximum(row_visits, visit_std)[row]
    variances = probabilities * (1 - probabilities) / cell_visits
    variances += (probabilities > 0) * (noise / cell_visits) ** 2
    return probabilities, variances
