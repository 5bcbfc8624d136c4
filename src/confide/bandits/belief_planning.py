"""Estimates the weights of a linear bandit from releases, and plans rounds.

This is the public side of `LinTS` and `LinUCB`. Everything here is post-processing, so constants
and formulas may be changed without any effect on privacy. The names and shapes in `LAYOUT` are part
of saved states and of published rounds.

Release t is R_t = sum_{j <= t} ratio^(t - j) X_j + noise, where X_j is the sum of
(x x^T, kappa x y) over the users of round j. Here x is the context of the action that was played,
y its centred reward, and kappa the balance of the bound. With ratio = 0 a release is the sum of one
round alone. Least squares over all releases estimates a user's mean contribution. The weights of
the releases follow from the numbers of users and from the noise, and never from the noisy sums.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners.history import LAST_RELEASE, History, Layout, Reals, Wholes
from confide.planners.public_round import PublicRound
from confide.planners.regression import Shift, least_squares
from confide.policy import ContextPolicy
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
# The ridge of the regression, as a multiple of half the norm of the noise. Chosen by measurement.
RIDGE = 0.3
# An estimate of the weights is not longer than this.
MAX_WEIGHT_NORM = 1.0
# The largest variance of a reward in [0, 1].
REWARD_VARIANCE = 1 / 4
# Noise on x x^T matters in proportion to the squared length of the weights, which is at most this.
SQUARED_WEIGHT_LENGTH = 1 / 16
# Added to the diagonal of the covariance of releases, relative to its trace and absolutely. Without
# noise the matrix may be singular. Any tiny numbers will do.
RELATIVE_RIDGE = 1e-12
ABSOLUTE_RIDGE = 1e-300
# Eigenvalues are at least this, so that quotients are finite.
MIN_EIGENVALUE = 1e-12

LAYOUT = Layout(
    LAST_RELEASE
    | {
        "releases": Reals(("release", "number")),
        "noises": Reals(("release",), at_least=0),
        "users": Reals(("release",), at_least=0),
        "total": Wholes(at_most="users"),
    }
)


def recall_releases(released: Released, *, differences: bool) -> History:
    """Return all releases so far with their users and the variances of their noise.

    The last release is included. With `differences`, each of them is a difference of prefix sums.
    """
    history = LAYOUT.recall(released, {"number": len(released.values)})
    if released.generation == 0:
        return history
    values = released.values
    noise_variance = released.noise.std**2
    if differences:
        values, noise_variance = history.without_last(released)
    users_of_round = released.users - history["total"]
    history = history.append(
        "release", releases=values, noises=noise_variance, users=users_of_round
    )
    return history.remember_release(released).replace(total=np.array(released.users))


def combine_releases(
    history: History, ratio: float, contribution_variance: float
) -> tuple[Array, float]:
    """Return the least-squares sums of all releases, and the standard deviation of their noise.

    The sums are scaled so that they are those of as many users as the releases are worth.
    `contribution_variance` is the approximate variance of one number of a user's contribution.
    """
    users = history["users"]
    rounds = history.count("release")
    releases = np.arange(rounds)[:, None]
    earlier_rounds = np.arange(rounds)[None]
    age = releases - earlier_rounds
    # The coefficient of each round in each release: [release, round].
    coefficients = np.where(age >= 0, ratio ** np.maximum(age, 0.0), 0.0)
    covariance = contribution_variance * (coefficients * users) @ coefficients.T
    covariance = covariance + np.diag(history["noises"])
    ridge = RELATIVE_RIDGE * np.trace(covariance) + ABSOLUTE_RIDGE
    covariance += ridge * np.eye(rounds)
    weights = np.linalg.solve(covariance, coefficients @ users)
    round_weights = coefficients.T @ weights
    squared_weight = float(round_weights**2 @ users)
    scale = float(round_weights @ users) / squared_weight if squared_weight > 0 else 0.0
    noise = scale * float(np.sqrt(weights**2 @ history["noises"]))
    return scale * (weights @ history["releases"]), noise


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """A normal belief about the weights: its mean [i], and a root [i, k] of its covariance.

    The covariance is root root^T.
    """

    mean: Array
    root: Array

    def draw(self, spread: float, rng: np.random.Generator) -> Array:
        """Draw weights [i], with `spread` times the standard deviation of the belief."""
        sample: Array = self.mean + spread * self.root @ rng.normal(size=len(self.mean))
        return sample


def shrink_to_round(gram: Array, noise: float) -> Array:
    """Move a noisy Gram matrix [i, i] towards a multiple of the identity.

    The trace has little noise, so m I with m = tr(gram) / d is nearly exact. On average, noise
    makes up noise^2 (d (d + 1) / 2 - 1) of ||gram - m I||_F^2. This share is taken away, as by the
    rule of James and Stein. If noise alone explains the whole distance, the result is m I.
    """
    d = len(gram)
    round_gram = float(np.trace(gram)) / d * np.eye(d)
    squared_distance = float(((gram - round_gram) ** 2).sum())
    kept_share = 0.0
    if squared_distance > 0:
        kept_share = max(1 - noise**2 * (d * (d + 1) / 2 - 1) / squared_distance, 0.0)
    shrunk_gram: Array = round_gram + kept_share * (gram - round_gram)
    return shrunk_gram


def estimate_belief(gram: Array, responses: Array, *, noise: float, balance: float) -> Belief:
    """Return the belief for the sums gram [i, i] and responses [i] of `combine_releases`.

    `noise` is the standard deviation of the noise on the diagonal of the Gram matrix, and
    noise / balance is that on a response.
    """
    dimension = len(responses)
    regression = least_squares(
        shrink_to_round(gram, noise)[None], responses[None], noise_std=noise, ridge=RIDGE
    )
    mean = regression.weights[0]
    eigenvalues, vectors = np.linalg.eigh(regression.precision[0])
    eigenvalues = np.maximum(eigenvalues, MIN_EIGENVALUE)
    noise_variance = noise**2 * (1 / balance**2 + SQUARED_WEIGHT_LENGTH)
    variances = REWARD_VARIANCE / eigenvalues + noise_variance / eigenvalues**2
    # The squared length of the weights is below one, so their variances sum to one at most.
    variances *= min(1.0, 1.0 / float(variances.sum()))
    length = float(np.linalg.norm(mean))
    clipped_mean = np.zeros(dimension)
    if length > 0:
        clipped_mean = mean * min(1.0, MAX_WEIGHT_NORM / length)
    return Belief(clipped_mean, vectors * np.sqrt(variances))


def random_round(
    history: History, generation: int, *, dimension: int, policies: int
) -> PublicRound:
    """Return the round before the first release: each policy prefers a random direction."""
    rng = _generator(history, generation)
    directions = rng.normal(size=(policies, dimension))
    return PublicRound(tuple(ContextPolicy(weights) for weights in directions), history.arrays)


def sampled_round(
    history: History,
    generation: int,
    belief: Belief,
    *,
    signal: float,
    spread: float,
    policies: int,
) -> PublicRound:
    """Return policies for samples of the belief, and one for its mean.

    The samples lie `spread` standard deviations around the mean.
    """
    rng = _generator(history, generation)
    samples = [belief.draw(spread, rng) for _ in range(policies - 1)]
    batch_policies = tuple(ContextPolicy(weights) for weights in (*samples, belief.mean))
    return PublicRound(batch_policies, history.arrays, signal)


def optimistic_round(
    history: History, belief: Belief, *, signal: float, spread: float
) -> PublicRound:
    """Return a round of one policy: the mean of the belief, with a bonus.

    The bonus of an action is `spread` standard errors of its value.
    """
    policy = ContextPolicy(belief.mean, spread * belief.root.T)
    return PublicRound((policy,), history.arrays, signal)


def printed_round(
    released: Released,
    gram: Array,
    responses: Array,
    *,
    shift: float,
    width: Callable[[float], float],
) -> PublicRound:
    """Return the round of [Shariff18, Alg. 1].

    Its policy is the estimate after the paper's shift, with the paper's bonus.

    `gram` [1, i, i] and `responses` [1, i] are the released sums. `width` is the paper's width of
    the confidence set, a function of log det V, where V is the shifted Gram matrix.
    """
    estimate = Shift(shift, 0.0).estimate(gram, responses, noise_std=released.noise.std)
    eigenvalues, vectors = np.linalg.eigh(estimate.precision[0])
    log_determinant = float(np.log(eigenvalues).sum())
    bonus = width(log_determinant) * (vectors / np.sqrt(eigenvalues)).T
    policy = ContextPolicy(estimate.weights[0], bonus)
    signal = float(np.trace(gram[0])) / len(eigenvalues) if released.generation else None
    return PublicRound((policy,), {"seed": released.memory["seed"]}, signal)


def mean_visits(gram: Array) -> float:
    """Return how many users played each direction, on average."""
    return float(np.trace(gram)) / len(gram)


def _generator(history: History, generation: int) -> np.random.Generator:
    return np.random.default_rng([int(history["seed"]), generation])
