"""System identification from noisy residuals, one batch of users after another, and safe gains from
it.

All of it is post-processing of releases: arrays go in, estimates and gains come out. It may be
changed without an effect on privacy. That gains are safe was measured, not proved
(benchmarks/results/control.md), so measure again after a change. The order in which random numbers
are drawn is a part of the results: golden files notice when it changes.

Letters. There are n states and d inputs, p = n + d; H steps, numbered h; g numbers the policies of
a batch. The system is x' = A x + B u + w, Theta = [A B]^T has the shape [p, n], and z = (x, u). An
estimate is Theta ~ N(M, Cov x I_n), from the prior N(0, bound^2 / (n p) I).

A batch of users (`Experiment`) gives G = sum z r^T, the sum of residuals around a guess Theta_0.
Its mean is S (Theta - Theta_0) with S = sum z z^T. With noise of covariance V in each column it
adds S V^-1 S to the precision.

- S is not known exactly either: its block of states was released, or is predicted. The rest follows
  from the gains, which are public, and from how the state evolves, which is not known
  (`experiment_moments`).
- So V is v S, plus the noise of the release, plus the covariance of what errors of S do to Theta -
  Theta_0. These errors vanish as guesses get better. v is the variance of the process noise plus
  what clipping takes away.

Gains are checked on systems drawn from an estimate (`Scenarios`), against the open loop (u = 0).
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.control import _identification_kernels as _kernels
from confide.planners.optimistic_policy import project_gains

Array = npt.NDArray[np.float64]
# None of the numbers below matters for privacy. benchmarks/results/control.md shows the regret with
# them; where nothing else is said, it does not compare other numbers.
# The relative error of predicted second moments, however sure the model is.
MODEL_ERROR = 0.1
# Draws of the posterior that say how far predictions may be off.
PREDICTION_DRAWS = 16
# Frames of simulated users for second moments. Each is n users, with their opposites.
FRAMES = 4
# Users that are simulated to choose the clip and the cap.
SIMULATED_USERS = 400
# The clip is this quantile of ||G|| of simulated users, and the cap this quantile of tr S.
CLIP_QUANTILE = 0.75
CAP_QUANTILE = 0.9
# Priors are tried in which B is 1, 1/2, 1/4, ... of what its bound allows: so many.
PRIOR_SCALES = 10
# How many systems are drawn from an estimate to check gains.
SCENARIOS = 64
# Gains are safe if they are in this share of the scenarios.
SAFE_SHARE = 0.95
# Exploration is worth its price if it pays in this share of the scenarios.
WORTHWHILE_SHARE = 0.9
# The covariance is inflated by these factors, one after another, until gains are safe.
CAUTIONS = (1.0, 4.0, 16.0, 64.0)
# How much more than the open loop a run may cost because of exploration, relative to it. A matter
# of taste; the documentation states it.
EXCESS_ALLOWED = 0.05
# The largest gains for exploration, and how often they are halved if they cost too much.
LARGEST_EXCITATION = 0.7
EXCITATION_HALVINGS = 10
# The standard deviation that stands for second moments that were not released.
NOT_RELEASED = 1e100
# This stands for a cost that is not finite, relative to the open loop.
_INFINITE_EXCESS = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What is public of a linear system: its costs, its horizon, and bounds."""

    # A step costs x^T Q x + u^T R u: Q [n, n], R [d, d].
    Q: Array
    R: Array
    horizon: int
    # The process noise lies in a ball of this radius.
    noise_radius: float
    # The largest ||Theta||_F.
    bound: float
    # The largest norm of gains.
    gain_bound: float
    # Steps of a user count up to this sum of ||x||^2.
    reach: float = 2.0
    # The second moments [n, n] of the first state, uniform on the unit sphere, and of the noise.
    first: Array = field(init=False, repr=False)
    noise: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.Q)
        for name in ("Q", "R"):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=float))
        object.__setattr__(self, "first", np.eye(n) / n)
        object.__setattr__(self, "noise", self.noise_radius**2 / (n + 2) * np.eye(n))

    def within(self, thetas: Array, covariance: Array) -> Array:
        """Systems [i, p, n], moved into the public bound on ||Theta||_F.

        They are moved the way that the covariance finds shortest, so what is known stays: to
        (1 + lambda Cov)^-1 Theta, with lambda by bisection. Where nothing is uncertain this does
        not suffice, and the rest is done by shortening.
        """
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 0.0) / max(float(values[-1]), 1e-300)
        rotated = vectors.T @ thetas  # [i, eigenvector, n]
        squares = (rotated**2).sum(axis=2)  # [i, eigenvector]
        # The ends between which ln lambda lies [i].
        low = np.full(len(thetas), -20.0)
        high = np.full(len(thetas), 30.0)
        for _ in range(40):
            middle = (low + high) / 2
            shrunk_squares = squares / (1 + np.exp(middle)[:, None] * values) ** 2
            too_long = shrunk_squares.sum(axis=1) > self.bound**2
            low = np.where(too_long, middle, low)
            high = np.where(too_long, high, middle)
        multiplier = np.where(squares.sum(axis=1) > self.bound**2, np.exp(high), 0.0)
        moved = vectors @ (rotated / (1 + multiplier[:, None] * values)[:, :, None])
        length = np.linalg.norm(moved, axis=(1, 2))
        shortening = np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        return np.ascontiguousarray(moved * shortening[:, None, None])


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """One batch of users as it was released, and how they were controlled. Public.

    `experiment_planning.py` remembers its fields under these names.
    """

    # S [p, p] and G [p, n] in their own units, and the standard deviations of their noise.
    sums: Array
    residuals: Array
    sums_std: float
    std: float
    # Theta_0 [p, n], around which residuals were taken.
    guess: Array
    # The gains that were played [g, h, d, n].
    gains: Array
    users: float
    # The share of S that the clip leaves, as predicted, and how far off that is from one user to
    # the next.
    kept: float
    lost: float
    # The covariance of Theta when the guess was made [p, p].
    before: Array
    # Coordinates of z were multiplied by these before noise was added [p], so they divide it.
    scales: Array


@dataclass(frozen=True, slots=True, eq=False)
class SystemEstimate:
    """Theta ~ N(mean, covariance x I_n). Public."""

    mean: Array
    covariance: Array

    def draws(self, spread: float, count: int, costs: Costs, rng: np.random.Generator) -> Array:
        """Draw systems [count, p, n] that respect the public bound.

        `spread` is in standard deviations of the estimate.
        """
        p, n = self.mean.shape
        errors = rng.multivariate_normal(
            np.zeros(p), self.covariance, size=(count, n), method="cholesky"
        )
        return costs.within(self.mean + spread * errors.swapaxes(1, 2), self.covariance)


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
        mean = np.asarray(covariance @ self.information, dtype=np.float64)
        symmetric = np.asarray((covariance + covariance.T) / 2, dtype=np.float64)
        estimate = SystemEstimate(costs.within(mean[None], symmetric)[0], symmetric)
        # Twice the logarithm of the likelihood, but for a constant.
        fit = float((self.information * mean).sum())
        log_volume = float(np.linalg.slogdet(precision)[1] + np.log(variances).sum())
        return estimate, (fit - len(costs.Q) * log_volume) / 2

    def conservative(self, costs: Costs) -> SystemEstimate:
        """Under the prior that makes the data most likely (empirical Bayes).

        A prior with B anywhere within its bound takes noise in many directions for a large B, and
        prefers gains that fit the noise.
        """
        candidates = [self.posterior(2.0**-k, costs) for k in range(PRIOR_SCALES)]
        estimate, _ = max(candidates, key=lambda candidate: candidate[1])
        return estimate


def prior_variances(costs: Costs, scale: float = 1.0) -> Array:
    """The prior variances of the rows of Theta [p], if B is `scale` times as large as it may be."""
    n = len(costs.Q)
    d = len(costs.R)
    return np.concatenate([np.ones(n), np.full(d, scale**2)]) * costs.bound**2 / (n * (n + d))


def prior(costs: Costs) -> SystemEstimate:
    """The estimate before the first user."""
    n = len(costs.Q)
    d = len(costs.R)
    return SystemEstimate(np.zeros((n + d, n)), np.diag(prior_variances(costs)))


def identify(
    experiments: list[Experiment], before: SystemEstimate, costs: Costs, rng: np.random.Generator
) -> tuple[SystemEstimate, InformationForm]:
    """Estimate the system from all experiments.

    There are two passes, because S of an experiment is predicted with an estimate: first with the
    one before, then with the result of the first pass.
    """
    estimate = before
    n = len(costs.Q)
    process_variance = costs.noise_radius**2 / (n + 2)
    simulated = simulated_users(costs, rng)
    for _ in range(2):
        samples = list(estimate.draws(1.0, PREDICTION_DRAWS, costs, rng))
        precision = np.zeros_like(before.covariance)
        information = np.zeros_like(before.mean)
        for experiment in experiments:
            S, error, spread = experiment_moments(
                experiment, estimate.mean, samples, costs, simulated
            )
            # The variance of a residual: the process noise, and what S may be off by.
            relative_error = error**2 + experiment.lost**2
            v = process_variance + relative_error * float(np.trace(S @ experiment.before))
            noise = np.diag((experiment.std**2 + 1e-9) / experiment.scales**2)
            # V^-1 S, with V the covariance of a column of G.
            weighted = np.linalg.solve(v * S + spread + noise, S)
            precision = precision + S @ weighted
            information = (
                information + weighted.T @ experiment.residuals + S @ weighted @ experiment.guess
            )
        information_form = InformationForm((precision + precision.T) / 2, information)
        estimate = information_form.posterior(1.0, costs)[0]
    return estimate, information_form


def simulated_users(costs: Costs, rng: np.random.Generator) -> tuple[Array, Array]:
    """Starts [u, n] and noise [u, h, n] of simulated users.

    They are whole frames of directions, each with noise and with its opposite. So second moments of
    starts are exact, and noise has no part in them.
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

    Without noise S is known. Otherwise it is the model's, transformed so that its block of states
    is what was released, as far as that outweighs its noise. Directions that no input excited stay
    without information.
    """
    n = len(costs.Q)
    nothing = np.zeros_like(experiment.sums)
    if experiment.sums_std == 0:
        return experiment.sums, 0.0, nothing
    if experiment.users == 0:
        return np.zeros_like(experiment.sums), 0.0, nothing
    users = experiment.users * experiment.kept
    gains = experiment.gains
    if (gains == gains[0]).all():
        gains = gains[:1]
    # E x x^T as the mean system predicts it, and then as each sample does, [g, h, n, n] each.
    predicted = [
        users * _kernels.state_moments(system, gains, *simulated, costs.reach)
        for system in (theta, *samples)
    ]
    # Their blocks of states [system, n, n], as they would have been released.
    blocks = np.array([moments.sum(axis=1).mean(axis=0) for moments in predicted])
    sizes = np.trace(blocks, axis1=1, axis2=2) / n
    # How far predictions differ among the samples, relative to the prediction of the mean.
    disagreement = float(np.mean(np.abs(sizes[1:] - sizes[0]))) / sizes[0]
    error = math.hypot(MODEL_ERROR, disagreement)
    # The weight of the prediction beside the released block, by inverse variances.
    weight = experiment.sums_std**2 / (experiment.sums_std**2 + (error * sizes[0]) ** 2)
    released_block = experiment.sums[:n, :n]
    targets = weight * blocks + (1 - weight) * released_block
    transforms = _transforms(blocks, targets, sizes)
    moments_by_system = [
        _kernels.shown_moments(moments, gains, np.ascontiguousarray(transform))
        for moments, transform in zip(predicted, transforms, strict=True)
    ]
    S = moments_by_system[0]
    deviations = np.array(moments_by_system[1:]) - S
    spread = (deviations @ experiment.before @ deviations).mean(axis=0)
    return S, math.sqrt(weight) * MODEL_ERROR, spread


def _transforms(blocks: Array, targets: Array, sizes: Array) -> Array:
    """Matrices T [i, n, n] for which T block T^T is the target: target^(1/2) block^(-1/2).

    `sizes` [i] are the mean eigenvalues of the blocks. Noise can make eigenvalues of targets
    negative, so they are raised to 5 % of the mean.
    """
    values, vectors = np.linalg.eigh(targets)
    target_roots = np.sqrt(np.maximum(values, 0.05 * sizes[:, None]))
    roots = (vectors * target_roots[:, None]) @ vectors.swapaxes(1, 2)
    values, vectors = np.linalg.eigh(blocks)
    block_roots = np.sqrt(np.maximum(values, 1e-9 * sizes[:, None]))
    transforms: Array = roots @ (vectors / block_roots[:, None]) @ vectors.swapaxes(1, 2)
    return transforms


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
        return np.nan_to_num(excess_costs, nan=_INFINITE_EXCESS, posinf=_INFINITE_EXCESS)

    def savings(self) -> Array:
        """What the best gains for each system would cost less than the open loop, relative to it
        [i].
        """
        p = self.systems.shape[1]
        no_doubt = np.zeros((p, p))
        best_costs = []
        for system in self.systems:
            gains = certainty_equivalent_gains(SystemEstimate(system, no_doubt), self.costs)
            best_costs.append(_costs(system[None], gains[None], self.costs)[0, 0])
        saved: Array = 1 - np.array(best_costs) / self.open_loop
        return saved

    def share_above_gain_bound(self) -> float:
        """The share of the systems in which the best gains are longer than their bound allows."""
        p = self.systems.shape[1]
        costs = self.costs
        no_doubt = np.zeros((p, p))
        best_gains = [
            _kernels.cautious(system, no_doubt, costs.Q, costs.R, costs.horizon)
            for system in self.systems
        ]
        longest = np.linalg.norm(np.array(best_gains), 2, axis=(2, 3)).max(axis=1)
        return float((longest > costs.gain_bound * (1 + 1e-9)).mean())

    def is_safe(self, gains: Array) -> bool:
        """Whether gains [h, d, n] cost no more than the open loop: on average, and in nearly all of
        the systems.
        """
        excess = self.excess(gains[None])[:, 0]
        # The tolerance is for rounding.
        return max(float(np.quantile(excess, SAFE_SHARE)), float(excess.mean())) <= 1e-12


def draw_scenarios(estimate: SystemEstimate, costs: Costs, rng: np.random.Generator) -> Scenarios:
    """Draw systems from an estimate, and compute what the open loop costs in each."""
    systems = estimate.draws(1.0, SCENARIOS, costs, rng)
    no_gains = np.zeros((1, costs.horizon, len(costs.R), len(costs.Q)))
    open_loop = _costs(systems, no_gains, costs)[:, 0]
    return Scenarios(costs, systems, np.maximum(open_loop, 1e-300))


def certainty_equivalent_gains(
    estimate: SystemEstimate, costs: Costs, caution: float = 1.0
) -> Array:
    """Riccati gains [h, d, n] that account for the estimate's covariance, inflated by `caution`.

    They are no longer than the public bound on gains.
    """
    gains = _kernels.cautious(
        estimate.mean, caution * estimate.covariance, costs.Q, costs.R, costs.horizon
    )
    return project_gains(gains, costs.gain_bound)


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
    gains_of_draws = []
    for theta in estimate.draws(spread, count, costs, rng):
        gains = certainty_equivalent_gains(SystemEstimate(theta, estimate.covariance), costs)
        # Four halvings, then the safe gains: a matter of taste.
        for _ in range(4):
            if scenarios.is_safe(gains):
                break
            gains = (gains + safe) / 2
        else:
            gains = safe
        gains_of_draws.append(gains)
    return np.array(gains_of_draws)


def excitation_gains(costs: Costs, pairs: int, rng: np.random.Generator) -> Array:
    """Gains +-U [2 pairs, h, d, n] for U with orthonormal rows (or columns).

    They give inputs in all directions, uncorrelated with states on average.
    """
    n = len(costs.Q)
    d = len(costs.R)
    H = costs.horizon
    gains_and_opposites = []
    for _ in range(pairs):
        left, _, right = np.linalg.svd(rng.uniform(-1, 1, size=(d, n)), full_matrices=False)
        gains = np.zeros((H, d, n))
        # An input at the last step changes no state.
        gains[: H - 1] = left @ right
        gains_and_opposites += [gains, -gains]
    return np.array(gains_and_opposites)


@dataclass(frozen=True, slots=True, eq=False)
class ExplorationBudget:
    """What a batch may cost, in units of what the open loop costs a user in a scenario."""

    # How much more than the open loop the users before this batch have cost [i].
    spent: Array
    # How many users were before this batch, and how many are in it.
    served: float
    users: float
    # The batch may cost so many times what a user could save at most.
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
    users_per_policy = budget.users / len(base)
    gain_bound = scenarios.costs.gain_bound
    base_excess = scenarios.excess(base).mean(axis=1)
    # What a user would save if the system were known, against the gains without excitation [i].
    most_to_save = base_excess + scenarios.savings()
    served = budget.served + users_per_policy * np.arange(1, len(base) + 1)
    allowed = EXCESS_ALLOWED * served  # [g]
    size = min(LARGEST_EXCITATION, gain_bound)
    for _ in range(EXCITATION_HALVINGS):
        gains = np.stack([project_gains(each, gain_bound) for each in base + size * moves])
        excess = scenarios.excess(gains)  # [i, g]
        so_far = budget.spent[:, None] + users_per_policy * np.cumsum(excess, axis=1)
        is_affordable = (np.quantile(so_far - allowed, SAFE_SHARE, axis=0) <= 0).all()
        price = budget.users * (excess.mean(axis=1) - base_excess)
        loss = price - budget.stake * most_to_save
        if is_affordable and np.quantile(loss, WORTHWHILE_SHARE) <= 0:
            return gains
        size /= 2
    return base


def input_scales(gains: Array) -> Array:
    """The numbers [p] by which coordinates of z are multiplied before noise is added.

    They are 1 for states, and for inputs one over how large they are beside states. Otherwise small
    inputs would drown in noise.
    """
    d, n = gains.shape[2:]
    input_size = 0.0
    if gains.shape[1] > 1:
        # The last step is left out, because its input changes no state.
        squares = (gains[:, :-1] ** 2).sum(axis=(2, 3))
        input_size = math.sqrt(float(squares.mean()) / d)
    input_scale = 1 / input_size if input_size > 1e-6 else 1.0
    return np.concatenate([np.ones(n), np.full(d, input_scale)])


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
    gains.

    Users are simulated for this, so all four numbers are public. Privacy does not depend on them:
    real users are clipped at them, whatever they send.
    """
    n = len(costs.Q)
    H = costs.horizon
    thetas = estimate.draws(1.0, SIMULATED_USERS, costs, rng) / scales[:, None]
    directions = rng.standard_normal((SIMULATED_USERS, H + 1, n))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    # Noise is uniform in its ball.
    radii = costs.noise_radius * rng.random((SIMULATED_USERS, H, 1)) ** (1 / n)
    shocks = radii * directions[:, 1:]
    starts = np.ascontiguousarray(directions[:, 0])
    guess = estimate.mean / scales[:, None]
    played = gains * scales[n:, None]
    sizes, traces = _kernels.simulate(thetas, guess, played, starts, shocks, costs.reach)
    clip = float(np.quantile(sizes, CLIP_QUANTILE))
    cap = float(np.quantile(traces, CAP_QUANTILE))
    # Each user is shortened by this factor [u].
    shortening = np.minimum(1.0, clip / np.maximum(sizes, 1e-300))
    if capped:
        shortening = np.minimum(shortening, cap / traces)
    kept = float((shortening * traces).sum() / traces.sum())
    lost = math.sqrt(float(((1 - shortening) ** 2 * traces).sum() / traces.sum()))
    return max(clip, 1e-9), cap, kept, lost


def _costs(systems: Array, gains: Array, costs: Costs) -> Array:
    """What gains [g, h, d, n] cost in each system [i, g]."""
    return _kernels.costs_of(systems, gains, costs.Q, costs.R, costs.first, costs.noise)
