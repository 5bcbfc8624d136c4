"""Dynamics of a linear system from noisy residuals of one leaf of users after another, and what to do about them. All post-processing.

Theta = [A B]^T ~ N(M, Cov x I_n), from the prior N(0, bound^2 / (n p) I). A leaf of users gives G = sum z r^T around a guess Theta_0, of
mean S (Theta - Theta_0) with S = sum z z^T; with noise of covariance V in each column it adds S V^-1 S to the precision. S is not known
exactly, either: its block of states was released, and the rest follows from the gains, which are public, and from how states go on, which
is not known (`leaf_moments`). So V is v S, plus the noise of the release, plus the covariance of what errors of S do to Theta - Theta_0;
they vanish as guesses get better. v is the variance of the system's noise plus what clips take away.

Gains are judged by systems drawn from a belief (`Jury`).
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.control import _posterior_kernels as _kernels

Array = npt.NDArray[np.float64]
MODEL_ERROR = 0.1  # relative, of predicted second moments, however sure the model is
SAMPLES = 16  # of the posterior, for how far predictions may be off
FRAMES = 4  # of made-up users, for second moments
USERS = 400  # made up, for clip and cap
QUANTILES = 0.75, 0.9  # of ||G|| for the clip, and of tr S for the cap
SCALES = 10  # of B in the prior: 1, 1/2, 1/4, ... of what the bound allows
JURORS = 64  # systems drawn from a belief
SURE, MOST = 0.95, 0.9  # of the jury: that gains do no harm, and that trying inputs is worth it
CAUTIONS = 1.0, 4.0, 16.0, 64.0  # by how much the covariance is inflated, until gains do no harm
ALLOWED = 0.05  # the gate: how much more than doing nothing a run may cost, relative
LARGEST, HALVINGS = 0.7, 10  # of gains that are tried
_WORST = 1e9  # what is not finite, relative to doing nothing


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What is public of a linear system. `first` and `noise` are second moments, `reach` is where steps cease to count."""

    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    bound: float
    gain_bound: float
    reach: float = 2.0
    first: Array = field(init=False, repr=False)
    noise: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.Q)
        for name in ("Q", "R"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=float))
        object.__setattr__(self, "first", np.eye(n) / n)
        object.__setattr__(self, "noise", self.noise_radius**2 / (n + 2) * np.eye(n))

    def within(self, thetas: Array, covariance: Array) -> Array:
        """Moved [i, p, n] into the public bound on ||Theta||_F, the way that the covariance finds shortest: what is known stays.

        (1 + lambda Cov)^-1 Theta, with lambda by bisection; whatever is left, where nothing is uncertain, by shortening.
        """
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 0.0) / max(float(values[-1]), 1e-300)
        turned = vectors.T @ thetas
        sizes = (turned**2).sum(axis=2)
        low, high = np.full(len(thetas), -20.0), np.full(len(thetas), 30.0)  # of ln lambda
        for _ in range(40):
            middle = (low + high) / 2
            long = (sizes / (1 + np.exp(middle)[:, None] * values) ** 2).sum(axis=1) > self.bound**2
            low, high = np.where(long, middle, low), np.where(long, high, middle)
        weight = np.where(sizes.sum(axis=1) > self.bound**2, np.exp(high), 0.0)
        moved = vectors @ (turned / (1 + weight[:, None] * values)[:, :, None])
        length = np.linalg.norm(moved, axis=(1, 2))
        return np.ascontiguousarray(moved * np.minimum(1.0, self.bound / np.maximum(length, 1e-300))[:, None, None])


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """One leaf of users as it was released, and how they were served. Public.

    sums S [p, p] and residuals G [p, n] in their own units, with the standard deviations of their noise; guess Theta_0; gains [g, h, d, n];
    users; kept: the share of S that the clip leaves, predicted, and lost: how far off that is from one user to the next; before: the
    covariance of Theta when the guess was made; scales [p]: coordinates of z were multiplied by them before noise came, so divide it.
    """

    sums: Array
    residuals: Array
    sums_std: float
    std: float
    guess: Array
    gains: Array
    users: float
    kept: float
    lost: float
    before: Array
    scales: Array


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Theta ~ N(mean, covariance x I_n). Public."""

    mean: Array
    covariance: Array

    def draws(self, spread: float, count: int, costs: Costs, rng: np.random.Generator) -> Array:
        """[count, p, n], within the bound."""
        p, n = self.mean.shape
        drawn = rng.multivariate_normal(np.zeros(p), self.covariance, size=(count, n), method="cholesky")
        return costs.within(self.mean + spread * drawn.swapaxes(1, 2), self.covariance)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What leaves say, whatever was believed before: precision [p, p], and information [p, n], which is precision @ Theta on average."""

    precision: Array
    information: Array

    def under(self, scale: float, costs: Costs) -> tuple[Belief, float]:
        """(the belief, how likely all this was, as a logarithm) from a prior in which B is `scale` times as large as it may be."""
        variances = prior_variances(costs, scale)
        precision = self.precision + np.diag(1 / variances)
        covariance = np.linalg.inv(precision)
        mean = covariance @ self.information
        n = len(costs.Q)
        fit = float((self.information * mean).sum()) - n * float(np.linalg.slogdet(precision)[1] + np.log(variances).sum())
        symmetric = np.asarray((covariance + covariance.T) / 2, dtype=np.float64)
        return Belief(costs.within(np.asarray(mean[None], dtype=np.float64), symmetric)[0], symmetric), fit / 2

    def sceptical(self, costs: Costs) -> Belief:
        """From the prior under which all this was most likely. One with B anywhere within its bound takes noise in many directions for a
        large B, and finds gains good that are made for noise."""
        return max((self.under(2.0**-k, costs) for k in range(SCALES)), key=lambda found: found[1])[0]


def prior_variances(costs: Costs, scale: float = 1.0) -> Array:
    n, d = len(costs.Q), len(costs.R)
    return np.concatenate([np.ones(n), np.full(d, scale**2)]) * costs.bound**2 / (n * (n + d))


def prior(costs: Costs) -> Belief:
    n, d = len(costs.Q), len(costs.R)
    return Belief(np.zeros((n + d, n)), np.diag(prior_variances(costs)))


def posterior(leaves: list[Leaf], before: Belief, costs: Costs, rng: np.random.Generator) -> tuple[Belief, Evidence]:
    """From all leaves; twice, since what a leaf's S was is predicted with the estimate itself, at first with the one before."""
    believed, n = before, len(costs.Q)
    system = costs.noise_radius**2 / (n + 2)
    made_up = users_like(costs, rng)
    for _ in range(2):
        samples = list(believed.draws(1.0, SAMPLES, costs, rng))
        precision, information = np.zeros_like(before.covariance), np.zeros_like(before.mean)
        for leaf in leaves:
            S, error, spread = leaf_moments(leaf, believed.mean, samples, costs, made_up)
            v = system + (error**2 + leaf.lost**2) * float(np.trace(S @ leaf.before))
            noise = np.diag((leaf.std**2 + 1e-9) / leaf.scales**2)
            weighted = np.linalg.solve(v * S + spread + noise, S)
            precision = precision + S @ weighted
            information = information + weighted.T @ leaf.residuals + S @ weighted @ leaf.guess
        evidence = Evidence((precision + precision.T) / 2, information)
        believed = evidence.under(1.0, costs)[0]
    return believed, evidence


def users_like(costs: Costs, rng: np.random.Generator) -> tuple[Array, Array]:
    """Starts [u, n] and noise [u, h, n] of made-up users: whole frames of directions, each with noise and with its opposite, so that second
    moments of starts, and that noise has no part in them, are exact."""
    n, H = len(costs.Q), costs.horizon
    starts, shocks = [], []
    for _ in range(FRAMES):
        left, _, right = np.linalg.svd(rng.uniform(-1, 1, size=(H + 1, n, n)))
        frames = left @ right
        noise = costs.noise_radius * rng.random((n, H, 1)) ** (1 / n) * frames[1:].swapaxes(0, 1)
        starts += [frames[0], frames[0]]
        shocks += [noise, -noise]
    return np.concatenate(starts), np.concatenate(shocks)


def leaf_moments(
    leaf: Leaf, theta: Array, samples: list[Array], costs: Costs, made_up: tuple[Array, Array]
) -> tuple[Array, float, Array]:
    """S of a leaf, its relative error, and the covariance of what its error does to G. Without noise it is known. Otherwise the model's,
    turned so that its block of states is what was released, as far as that outweighs its noise: directions that no input tried stay
    without information."""
    n = len(costs.Q)
    if leaf.sums_std == 0:
        return leaf.sums, 0.0, np.zeros_like(leaf.sums)
    users = leaf.users * leaf.kept
    gains = leaf.gains[:1] if (leaf.gains == leaf.gains[0]).all() else leaf.gains
    states = [users * _kernels.state_moments(each, gains, *made_up, costs.reach) for each in (theta, *samples)]
    blocks = np.array([each.sum(axis=1).mean(axis=0) for each in states])
    sizes = np.trace(blocks, axis1=1, axis2=2) / n
    error = math.hypot(MODEL_ERROR, float(np.mean(np.abs(sizes[1:] - sizes[0]))) / sizes[0])
    w = leaf.sums_std**2 / (leaf.sums_std**2 + (error * sizes[0]) ** 2)
    values, vectors = np.linalg.eigh(w * blocks + (1 - w) * leaf.sums[:n, :n])
    roots = (vectors * np.sqrt(np.maximum(values, 0.05 * sizes[:, None]))[:, None]) @ vectors.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(blocks)
    turns = roots @ (vectors / np.sqrt(np.maximum(values, 1e-9 * sizes[:, None]))[:, None]) @ vectors.swapaxes(1, 2)
    shown = [_kernels.shown_moments(each, gains, np.ascontiguousarray(turn)) for each, turn in zip(states, turns, strict=True)]
    off = np.array(shown[1:]) - shown[0]
    spread = (off @ leaf.before @ off).mean(axis=0)
    return shown[0], math.sqrt(w) * MODEL_ERROR, spread


@dataclass(frozen=True, slots=True, eq=False)
class Jury:
    """Systems drawn from a belief [i, p, n], and what doing nothing costs in each [i].

    Each stays what it is for all steps, so that errors add up over long horizons, as they do in truth.
    """

    costs: Costs
    systems: Array
    nothing: Array

    def excess(self, gains: Array) -> Array:
        """What gains [g, h, d, n] cost more than doing nothing, relative to that [i, g]."""
        found = _costs(self.systems, gains, self.costs) / self.nothing[:, None] - 1
        return np.nan_to_num(found, nan=_WORST, posinf=_WORST)

    def savings(self) -> Array:
        """What the best gains for each system would cost less than doing nothing, relative to that [i]."""
        certain, c = np.zeros((self.systems.shape[1],) * 2), self.costs
        best = [_costs(each[None], certainty_gains(Belief(each, certain), c)[None], c)[0, 0] for each in self.systems]
        saved: Array = 1 - np.array(best) / self.nothing
        return saved

    def harmless(self, gains: Array) -> bool:
        """Whether gains [h, d, n] cost no more than doing nothing: on average, and in nearly all of the systems."""
        excess = self.excess(gains[None])[:, 0]
        return max(float(np.quantile(excess, SURE)), float(excess.mean())) <= 1e-12


def jury(believed: Belief, costs: Costs, rng: np.random.Generator) -> Jury:
    systems = believed.draws(1.0, JURORS, costs, rng)
    nothing = _costs(systems, np.zeros((1, costs.horizon, len(costs.R), len(costs.Q))), costs)[:, 0]
    return Jury(costs, systems, np.maximum(nothing, 1e-300))


def certainty_gains(believed: Belief, costs: Costs, caution: float = 1.0) -> Array:
    """The cautious gains of the belief, with its covariance inflated by `caution`, no longer than gamma."""
    return _projected(_kernels.cautious(believed.mean, caution * believed.covariance, costs.Q, costs.R, costs.horizon), costs)


def safe_gains(believed: Belief, judges: Jury) -> Array:
    """The least cautious gains [h, d, n] that the jury finds harmless; zero if there are none."""
    for caution in CAUTIONS:
        gains = certainty_gains(believed, judges.costs, caution)
        if judges.harmless(gains):
            return gains
    return np.zeros_like(gains)


def sampled_gains(believed: Belief, judges: Jury, safe: Array, count: int, spread: float, rng: np.random.Generator) -> Array:
    """Gains [count, h, d, n] for draws of the belief, each moved to the safe ones until the jury finds it harmless."""
    costs, chosen = judges.costs, []
    for theta in believed.draws(spread, count, costs, rng):
        gains = certainty_gains(Belief(theta, believed.covariance), costs)
        for _ in range(4):
            if judges.harmless(gains):
                break
            gains = (gains + safe) / 2
        else:
            gains = safe
        chosen.append(gains)
    return np.array(chosen)


def exploring_gains(costs: Costs, pairs: int, rng: np.random.Generator) -> Array:
    """+-U [2 pairs, h, d, n] for U with orthonormal rows (or columns): inputs in all directions, uncorrelated with states on average."""
    n, d, H = len(costs.Q), len(costs.R), costs.horizon
    chosen = []
    for _ in range(pairs):
        left, _, right = np.linalg.svd(rng.uniform(-1, 1, size=(d, n)), full_matrices=False)
        gains = np.zeros((H, d, n))
        gains[: H - 1] = left @ right
        chosen += [gains, -gains]
    return np.array(chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What a round of `users` may cost, in each of a jury's systems, all in units of what doing nothing costs a user there.

    The users before, `served`, cost `spent` [i] more than doing nothing. The round may cost `stake` times what a user could save at most.
    """

    spent: Array
    served: float
    users: float
    stake: float


def explored(base: Array, moves: Array, judges: Jury, account: Account) -> Array:
    """Gains [g, h, d, n] with as much of the moves added as can be afforded, in all but a few of the jury's systems.

    Whenever one of the gains is done, all users so far must have cost at most ALLOWED more than doing nothing; and the moves must cost no
    more than `stake` times what knowing the system would save a user.
    """
    share, costs = account.users / len(base), judges.costs
    before = judges.excess(base).mean(axis=1)
    to_gain = before + judges.savings()
    allowed = ALLOWED * (account.served + share * np.arange(1, len(base) + 1))
    size = min(LARGEST, costs.gain_bound)
    for _ in range(HALVINGS):
        gains = np.stack([_projected(each, costs) for each in base + size * moves])
        excess = judges.excess(gains)
        so_far = account.spent[:, None] + share * np.cumsum(excess, axis=1)
        price = account.users * (excess.mean(axis=1) - before)
        within = (np.quantile(so_far - allowed, SURE, axis=0) <= 0).all()
        if within and np.quantile(price - account.stake * to_gain, MOST) <= 0:
            return gains
        size /= 2
    return base


def scales_for(gains: Array) -> Array:
    """[p]: 1 for states, and for inputs one over how large they are beside states: small inputs are not to drown in noise."""
    d, n = gains.shape[2:]
    size = math.sqrt(float((gains[:, :-1] ** 2).sum(axis=(2, 3)).mean()) / d) if gains.shape[1] > 1 else 0.0
    return np.concatenate([np.ones(n), np.full(d, 1 / size if size > 1e-6 else 1.0)])


def limits(
    believed: Belief, gains: Array, scales: Array, costs: Costs, rng: np.random.Generator
) -> tuple[float, float, float, float]:
    """(clip, cap, the share of S that they leave, how far off that may be) for users who play these gains: by making users up. Public."""
    n, H = len(costs.Q), costs.horizon
    thetas = believed.draws(1.0, USERS, costs, rng) / scales[:, None]
    directions = rng.multivariate_normal(np.zeros(n), np.eye(n), size=(USERS, H + 1), method="cholesky")
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    shocks = costs.noise_radius * rng.random((USERS, H, 1)) ** (1 / n) * directions[:, 1:]
    starts = np.ascontiguousarray(directions[:, 0])
    guess, played = believed.mean / scales[:, None], gains * scales[n:, None]
    sizes, traces = _kernels.rehearse(thetas, guess, played, starts, shocks, costs.reach)
    clip, cap = float(np.quantile(sizes, QUANTILES[0])), float(np.quantile(traces, QUANTILES[1]))
    f = np.minimum(1.0, np.minimum(clip / np.maximum(sizes, 1e-300), cap / traces))
    kept = float((f * traces).sum() / traces.sum())
    lost = math.sqrt(float(((1 - f) ** 2 * traces).sum() / traces.sum()))
    return max(clip, 1e-9), cap, kept, lost


def _costs(systems: Array, gains: Array, costs: Costs) -> Array:
    return _kernels.costs_of(systems, gains, costs.Q, costs.R, costs.first, costs.noise)


def _projected(gains: Array, costs: Costs) -> Array:
    sizes = np.linalg.norm(gains, 2, axis=(1, 2))
    result: Array = gains * np.minimum(1.0, costs.gain_bound / np.maximum(sizes, 1e-300))[:, None, None]
    return result
