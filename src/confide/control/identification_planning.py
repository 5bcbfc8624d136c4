"""System identification from noisy residuals, one batch of users after another, and safe gains from
it. All post-processing.

Theta = [A B]^T ~ N(M, Cov x I_n), from the prior N(0, bound^2 / (n p) I). A batch of users
(`Experiment`) gives G = sum z r^T around a guess Theta_0, of mean S (Theta - Theta_0) with S = sum
z z^T; with noise of covariance V in each column it adds S V^-1 S to the precision. S is not known
exactly either: its block of states was released, or is predicted. The rest follows from the gains,
which are public, and from how the state evolves, which is not known (`experiment_moments`). So V is
v S, plus the noise of the release, plus the covariance of what errors of S do to Theta - Theta_0;
these errors vanish as guesses get better. v is the variance of the process noise plus what clipping
takes away.

Gains are checked on systems drawn from an estimate (`Scenarios`), against the open loop (u = 0).
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.control import _identification_kernels as _kernels
from confide.planners.optimistic_policy import project_gains

Array = npt.NDArray[np.float64]
# Relative, of predicted second moments, however sure the model is.
MODEL_ERROR = 0.1
# Of the posterior, for how far predictions may be off.
SAMPLES = 16
# Of simulated users, for second moments.
FRAMES = 4
# Simulated, for clip and cap.
USERS = 400
# Of ||G|| for the clip, and of tr S for the cap.
QUANTILES = 0.75, 0.9
# Of B in the prior: 1, 1/2, 1/4, ... of what the bound allows.
SCALES = 10
# Systems drawn from an estimate.
SCENARIOS = 64
# Of the scenarios: in which gains are safe, and in which exploration pays.
SURE, MOST = 0.95, 0.9
# By how much the covariance is inflated, until gains are safe.
CAUTIONS = 1.0, 4.0, 16.0, 64.0
# How much more than the open loop a run may cost, relative.
EXCESS_ALLOWED = 0.05
# Of gains for exploration.
LARGEST, HALVINGS = 0.7, 10
# Standard deviation of second moments that were not released.
NOT_RELEASED = 1e100
# What is not finite, relative to the open loop.
_WORST = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What is public of a linear system.

    `first` and `noise` are second moments, `reach` is where steps cease to count.
    """

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
        """Moved [i, p, n] into the public bound on ||Theta||_F, the way that the covariance finds
        shortest: what is known stays.

        (1 + lambda Cov)^-1 Theta, with lambda by bisection; whatever is left, where nothing is
        uncertain, by shortening.
        """
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 0.0) / max(float(values[-1]), 1e-300)
        turned = vectors.T @ thetas
        sizes = (turned**2).sum(axis=2)
        # Of ln lambda.
        low, high = np.full(len(thetas), -20.0), np.full(len(thetas), 30.0)
        for _ in range(40):
            middle = (low + high) / 2
            long = (sizes / (1 + np.exp(middle)[:, None] * values) ** 2).sum(axis=1) > self.bound**2
            low = np.where(long, middle, low)
            high = np.where(long, high, middle)
        weight = np.where(sizes.sum(axis=1) > self.bound**2, np.exp(high), 0.0)
        moved = vectors @ (turned / (1 + weight[:, None] * values)[:, :, None])
        length = np.linalg.norm(moved, axis=(1, 2))
        return np.ascontiguousarray(
            moved * np.minimum(1.0, self.bound / np.maximum(length, 1e-300))[:, None, None]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """One batch of users as it was released, and how they were controlled. Public.

    sums S [p, p] and residuals G [p, n] in their own units, with the standard deviations of their
    noise; guess Theta_0; gains [g, h, d, n]; users; kept: the share of S that the clip leaves,
    predicted, and lost: how far off that is from one user to the next; before: the covariance of
    Theta when the guess was made; scales [p]: coordinates of z were multiplied by them before noise
    came, so divide it.
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
class SystemEstimate:
    """Theta ~ N(mean, covariance x I_n). Public."""

    mean: Array
    covariance: Array

    def draws(self, spread: float, count: int, costs: Costs, rng: np.random.Generator) -> Array:
        """[count, p, n], within the bound."""
        p, n = self.mean.shape
        drawn = rng.multivariate_normal(
            np.zeros(p), self.covariance, size=(count, n), method="cholesky"
        )
        return costs.within(self.mean + spread * drawn.swapaxes(1, 2), self.covariance)


@dataclass(frozen=True, slots=True, eq=False)
class InformationForm:
    """What all experiments say, without a prior: precision [p, p], and information [p, n], which is
    precision @ Theta on average.
    """

    precision: Array
    information: Array

    def posterior(self, scale: float, costs: Costs) -> tuple[SystemEstimate, float]:
        """(the posterior, the log-likelihood of the data) under a prior in which B is `scale` times
        as large as it may be.
        """
        variances = prior_variances(costs, scale)
        precision = self.precision + np.diag(1 / variances)
        covariance = np.linalg.inv(precision)
        mean = covariance @ self.information
        n = len(costs.Q)
        fit = float((self.information * mean).sum()) - n * float(
            np.linalg.slogdet(precision)[1] + np.log(variances).sum()
        )
        symmetric = np.asarray((covariance + covariance.T) / 2, dtype=np.float64)
        return SystemEstimate(
            costs.within(np.asarray(mean[None], dtype=np.float64), symmetric)[0], symmetric
        ), fit / 2

    def conservative(self, costs: Costs) -> SystemEstimate:
        """Under the prior that makes the data most likely (empirical Bayes).

        A prior with B anywhere within its bound takes noise in many directions for a large B, and
        prefers gains that fit the noise.
        """
        return max(
            (self.posterior(2.0**-k, costs) for k in range(SCALES)),
            key=lambda estimate: estimate[1],
        )[0]


def prior_variances(costs: Costs, scale: float = 1.0) -> Array:
    n = len(costs.Q)
    d = len(costs.R)
    return np.concatenate([np.ones(n), np.full(d, scale**2)]) * costs.bound**2 / (n * (n + d))


def prior(costs: Costs) -> SystemEstimate:
    n = len(costs.Q)
    d = len(costs.R)
    return SystemEstimate(np.zeros((n + d, n)), np.diag(prior_variances(costs)))


def identify(
    experiments: list[Experiment], before: SystemEstimate, costs: Costs, rng: np.random.Generator
) -> tuple[SystemEstimate, InformationForm]:
    """From all experiments.

    Two passes: S of an experiment is predicted with the estimate itself, at first with the one
    before.
    """
    estimate = before
    n = len(costs.Q)
    system = costs.noise_radius**2 / (n + 2)
    simulated = simulated_users(costs, rng)
    for _ in range(2):
        samples = list(estimate.draws(1.0, SAMPLES, costs, rng))
        precision = np.zeros_like(before.covariance)
        information = np.zeros_like(before.mean)
        for experiment in experiments:
            S, error, spread = experiment_moments(
                experiment, estimate.mean, samples, costs, simulated
            )
            v = system + (error**2 + experiment.lost**2) * float(np.trace(S @ experiment.before))
            noise = np.diag((experiment.std**2 + 1e-9) / experiment.scales**2)
            weighted = np.linalg.solve(v * S + spread + noise, S)
            precision = precision + S @ weighted
            information = (
                information + weighted.T @ experiment.residuals + S @ weighted @ experiment.guess
            )
        information_form = InformationForm((precision + precision.T) / 2, information)
        estimate = information_form.posterior(1.0, costs)[0]
    return estimate, information_form


def simulated_users(costs: Costs, rng: np.random.Generator) -> tuple[Array, Array]:
    """Starts [u, n] and noise [u, h, n] of simulated users: whole frames of directions, each with
    noise and with its opposite. So second moments of starts are exact, and noise has no part in
    them.
    """
    n = len(costs.Q)
    H = costs.horizon
    starts = []
    shocks = []
    for _ in range(FRAMES):
        left, _, right = np.linalg.svd(rng.uniform(-1, 1, size=(H + 1, n, n)))
        frames = left @ right
        noise = costs.noise_radius * rng.random((n, H, 1)) ** (1 / n) * frames[1:].swapaxes(0, 1)
        starts += [frames[0], frames[0]]
        shocks += [noise, -noise]
    return np.concatenate(starts), np.concatenate(shocks)


def experiment_moments(
    experiment: Experiment,
    theta: Array,
    samples: list[Array],
    costs: Costs,
    simulated: tuple[Array, Array],
) -> tuple[Array, float, Array]:
    """S of an experiment, its relative error, and the covariance of what its error does to G.

    Without noise S is known. Otherwise it is the model's, turned so that its block of states is
    what was released, as far as that outweighs its noise. Directions that no input excited stay
    without information.
    """
    n = len(costs.Q)
    if experiment.sums_std == 0:
        return experiment.sums, 0.0, np.zeros_like(experiment.sums)
    if experiment.users == 0:
        return np.zeros_like(experiment.sums), 0.0, np.zeros_like(experiment.sums)
    users = experiment.users * experiment.kept
    gains = (
        experiment.gains[:1]
        if (experiment.gains == experiment.gains[0]).all()
        else experiment.gains
    )
    states = [
        users * _kernels.state_moments(each, gains, *simulated, costs.reach)
        for each in (theta, *samples)
    ]
    blocks = np.array([each.sum(axis=1).mean(axis=0) for each in states])
    sizes = np.trace(blocks, axis1=1, axis2=2) / n
    error = math.hypot(MODEL_ERROR, float(np.mean(np.abs(sizes[1:] - sizes[0]))) / sizes[0])
    w = experiment.sums_std**2 / (experiment.sums_std**2 + (error * sizes[0]) ** 2)
    values, vectors = np.linalg.eigh(w * blocks + (1 - w) * experiment.sums[:n, :n])
    roots = (
        vectors * np.sqrt(np.maximum(values, 0.05 * sizes[:, None]))[:, None]
    ) @ vectors.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(blocks)
    turns = (
        roots
        @ (vectors / np.sqrt(np.maximum(values, 1e-9 * sizes[:, None]))[:, None])
        @ vectors.swapaxes(1, 2)
    )
    shown = [
        _kernels.shown_moments(each, gains, np.ascontiguousarray(turn))
        for each, turn in zip(states, turns, strict=True)
    ]
    off = np.array(shown[1:]) - shown[0]
    spread = (off @ experiment.before @ off).mean(axis=0)
    return shown[0], math.sqrt(w) * MODEL_ERROR, spread


@dataclass(frozen=True, slots=True, eq=False)
class Scenarios:
    """Systems drawn from an estimate [i, p, n], and the cost of the open loop in each [i].

    Each system stays the same for all steps, so that errors add up over long horizons, as they do
    in truth.
    """

    costs: Costs
    systems: Array
    open_loop: Array

    def excess(self, gains: Array) -> Array:
        """What gains [g, h, d, n] cost more than the open loop, relative to it [i, g]."""
        excess_costs = _costs(self.systems, gains, self.costs) / self.open_loop[:, None] - 1
        return np.nan_to_num(excess_costs, nan=_WORST, posinf=_WORST)

    def savings(self) -> Array:
        """What the best gains for each system would cost less than the open loop, relative to it
        [i].
        """
        certain = np.zeros((self.systems.shape[1],) * 2)
        c = self.costs
        best = [
            _costs(
                each[None], certainty_equivalent_gains(SystemEstimate(each, certain), c)[None], c
            )[0, 0]
            for each in self.systems
        ]
        saved: Array = 1 - np.array(best) / self.open_loop
        return saved

    def share_above_gain_bound(self) -> float:
        """In how many of the systems the best gains are longer than the bound on gains allows, as a
        share.
        """
        p = self.systems.shape[1]
        c = self.costs
        best = [
            _kernels.cautious(each, np.zeros((p, p)), c.Q, c.R, c.horizon) for each in self.systems
        ]
        longest = np.linalg.norm(np.array(best), 2, axis=(2, 3)).max(axis=1)
        return float((longest > c.gain_bound * (1 + 1e-9)).mean())

    def is_safe(self, gains: Array) -> bool:
        """Whether gains [h, d, n] cost no more than the open loop: on average, and in nearly all of
        the systems.
        """
        excess = self.excess(gains[None])[:, 0]
        return max(float(np.quantile(excess, SURE)), float(excess.mean())) <= 1e-12


def draw_scenarios(estimate: SystemEstimate, costs: Costs, rng: np.random.Generator) -> Scenarios:
    systems = estimate.draws(1.0, SCENARIOS, costs, rng)
    open_loop = _costs(systems, np.zeros((1, costs.horizon, len(costs.R), len(costs.Q))), costs)[
        :, 0
    ]
    return Scenarios(costs, systems, np.maximum(open_loop, 1e-300))


def certainty_equivalent_gains(
    estimate: SystemEstimate, costs: Costs, caution: float = 1.0
) -> Array:
    """Riccati gains that account for the estimate's covariance, inflated by `caution`; no longer
    than gamma.
    """
    return project_gains(
        _kernels.cautious(
            estimate.mean, caution * estimate.covariance, costs.Q, costs.R, costs.horizon
        ),
        costs.gain_bound,
    )


def safe_gains(estimate: SystemEstimate, scenarios: Scenarios) -> Array:
    """The least cautious gains [h, d, n] that are safe in the scenarios; zero if there are none."""
    for caution in CAUTIONS:
        gains = certainty_equivalent_gains(estimate, scenarios.costs, caution)
        if scenarios.is_safe(gains):
            return gains
    return np.zeros_like(gains)


def sampled_gains(
    estimate: SystemEstimate,
    scenarios: Scenarios,
    safe: Array,
    count: int,
    spread: float,
    rng: np.random.Generator,
) -> Array:
    """Gains [count, h, d, n] for draws of the estimate, each moved towards the safe ones until it
    is safe itself.
    """
    costs = scenarios.costs
    chosen = []
    for theta in estimate.draws(spread, count, costs, rng):
        gains = certainty_equivalent_gains(SystemEstimate(theta, estimate.covariance), costs)
        for _ in range(4):
            if scenarios.is_safe(gains):
                break
            gains = (gains + safe) / 2
        else:
            gains = safe
        chosen.append(gains)
    return np.array(chosen)


def excitation_gains(costs: Costs, pairs: int, rng: np.random.Generator) -> Array:
    """+-U [2 pairs, h, d, n] for U with orthonormal rows (or columns): inputs in all directions,
    uncorrelated with states on average.
    """
    n = len(costs.Q)
    d = len(costs.R)
    H = costs.horizon
    chosen = []
    for _ in range(pairs):
        left, _, right = np.linalg.svd(rng.uniform(-1, 1, size=(d, n)), full_matrices=False)
        gains = np.zeros((H, d, n))
        gains[: H - 1] = left @ right
        chosen += [gains, -gains]
    return np.array(chosen)


@dataclass(frozen=True, slots=True, eq=False)
class ExplorationBudget:
    """What a batch of `users` may cost, in each scenario, all in units of what the open loop costs
    a user there.

    The users before, `served`, cost `spent` [i] more than the open loop. The batch may cost `stake`
    times what a user could save at most.
    """

    spent: Array
    served: float
    users: float
    stake: float


def with_exploration(
    base: Array, moves: Array, scenarios: Scenarios, budget: ExplorationBudget
) -> Array:
    """Gains [g, h, d, n] with as much excitation added as can be afforded, in all but a few of the
    scenarios.

    After each of the gains, all users so far must have cost at most EXCESS_ALLOWED more than the
    open loop; and the excitation must cost no more than `stake` times what knowing the system would
    save a user.
    """
    share = budget.users / len(base)
    costs = scenarios.costs
    before = scenarios.excess(base).mean(axis=1)
    to_gain = before + scenarios.savings()
    allowed = EXCESS_ALLOWED * (budget.served + share * np.arange(1, len(base) + 1))
    size = min(LARGEST, costs.gain_bound)
    for _ in range(HALVINGS):
        gains = np.stack([project_gains(each, costs.gain_bound) for each in base + size * moves])
        excess = scenarios.excess(gains)
        so_far = budget.spent[:, None] + share * np.cumsum(excess, axis=1)
        price = budget.users * (excess.mean(axis=1) - before)
        within = (np.quantile(so_far - allowed, SURE, axis=0) <= 0).all()
        if within and np.quantile(price - budget.stake * to_gain, MOST) <= 0:
            return gains
        size /= 2
    return base


def input_scales(gains: Array) -> Array:
    """[p]: 1 for states, and for inputs one over how large they are beside states: small inputs are
    not to drown in noise.
    """
    d, n = gains.shape[2:]
    size = (
        math.sqrt(float((gains[:, :-1] ** 2).sum(axis=(2, 3)).mean()) / d)
        if gains.shape[1] > 1
        else 0.0
    )
    return np.concatenate([np.ones(n), np.full(d, 1 / size if size > 1e-6 else 1.0)])


def clipping_limits(
    estimate: SystemEstimate,
    gains: Array,
    scales: Array,
    costs: Costs,
    rng: np.random.Generator,
    *,
    capped: bool = True,
) -> tuple[float, float, float, float]:
    """(clip, cap, the share of S that they leave, how far off that may be) for users who play these
    gains: by simulating users. Public.
    """
    n = len(costs.Q)
    H = costs.horizon
    thetas = estimate.draws(1.0, USERS, costs, rng) / scales[:, None]
    directions = rng.standard_normal((USERS, H + 1, n))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    shocks = costs.noise_radius * rng.random((USERS, H, 1)) ** (1 / n) * directions[:, 1:]
    starts = np.ascontiguousarray(directions[:, 0])
    guess = estimate.mean / scales[:, None]
    played = gains * scales[n:, None]
    sizes, traces = _kernels.simulate(thetas, guess, played, starts, shocks, costs.reach)
    clip = float(np.quantile(sizes, QUANTILES[0]))
    cap = float(np.quantile(traces, QUANTILES[1]))
    f = np.minimum(1.0, clip / np.maximum(sizes, 1e-300))
    if capped:
        f = np.minimum(f, cap / traces)
    kept = float((f * traces).sum() / traces.sum())
    lost = math.sqrt(float(((1 - f) ** 2 * traces).sum() / traces.sum()))
    return max(clip, 1e-9), cap, kept, lost


def _costs(systems: Array, gains: Array, costs: Costs) -> Array:
    return _kernels.costs_of(systems, gains, costs.Q, costs.R, costs.first, costs.noise)
