"""What releases say about the weights of a linear bandit. All post-processing.

Release t is R_t = sum_{j <= t} ratio^(t - j) X_j plus noise, X_j the sum of (x x^T, kappa x y) over the users of round j (ratio 0: the
round alone). Least squares over all releases weighs each of them by what it tells about a user's mean contribution: the weights follow from
the numbers of users and from the noise, never from the noisy sums.
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
RIDGE = 0.3  # x half of the norm of the noise
LONGEST = 1.0  # an estimate of the weights


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
    """All releases so far with the variances of their noise and their users, the last one included.

    If `differences`, each of them is the difference of two prefix sums.
    """
    history = LAYOUT.recall(released, {"number": len(released.values)})
    if released.generation == 0:
        return history
    values, variance = released.values, released.noise.std**2
    if differences:
        values, variance = history.without_last(released)
    history = history.append(
        "release", releases=values, noises=variance, users=released.users - history["total"]
    )
    return history.remember_release(released).replace(total=np.array(released.users))


def combined(history: History, ratio: float, spread: float) -> tuple[Array, float]:
    """The sums of as many users as the releases are worth, and the standard deviation of the noise on each number.

    `spread` is the variance of a number of one user's contribution, about.
    """
    n, rounds = history["users"], history.count("release")
    t, j = np.arange(rounds)[:, None], np.arange(rounds)[None]
    C = np.where(j <= t, ratio ** np.maximum(t - j, 0.0), 0.0)
    covariance = spread * (C * n) @ C.T + np.diag(history["noises"])
    covariance += (1e-12 * np.trace(covariance) + 1e-300) * np.eye(rounds)
    weights = np.linalg.solve(covariance, C @ n)
    of_rounds = C.T @ weights
    counted = float(of_rounds**2 @ n)
    scale = float(of_rounds @ n) / counted if counted > 0 else 0.0
    noise = scale * float(np.sqrt(weights**2 @ history["noises"]))
    return scale * (weights @ history["releases"]), noise


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """About the weights: mean [i], and root [i, k] with root root^T the covariance."""

    mean: Array
    root: Array

    def drawn(self, spread: float, rng: np.random.Generator) -> Array:
        sample: Array = self.mean + spread * self.root @ rng.normal(size=len(self.mean))
        return sample


def shrunk(Lambda: Array, noise: float) -> Array:
    """Lambda [i, i] moved towards a multiple of the identity: by all, if it is no farther from it than its noise alone would be.

    The trace has little noise. Of ||Lambda - m I||_F^2, m = tr Lambda / d, noise makes up noise^2 (d (d + 1) / 2 - 1) on average, and the
    rest is kept (the rule of James and Stein).
    """
    d = len(Lambda)
    round_ = float(np.trace(Lambda)) / d * np.eye(d)
    apart = float(((Lambda - round_) ** 2).sum())
    kept = max(1 - noise**2 * (d * (d + 1) / 2 - 1) / apart, 0.0) if apart > 0 else 0.0
    result: Array = round_ + kept * (Lambda - round_)
    return result


def believe(Lambda: Array, u: Array, *, noise: float, balance: float) -> Belief:
    """From the sums Lambda [i, i] and u [i] of `combined`, with noise of this standard deviation on Lambda's diagonal, 1/balance on u.

    Rewards have variance at most 1/4; noise on Lambda matters as far as the weights are long, for which 1/4 stands.
    """
    d = len(u)
    found = least_squares(shrunk(Lambda, noise)[None], u[None], noise_std=noise, ridge=RIDGE)
    mean, eigen = found.weights[0], np.linalg.eigh(found.precision[0])
    values, vectors = np.maximum(eigen[0], 1e-12), eigen[1]
    variances = 0.25 / values + noise**2 * (1 / balance**2 + 1 / 16) / values**2
    variances *= min(1.0, 1.0 / float(variances.sum()))
    length = float(np.linalg.norm(mean))
    return Belief(
        mean * min(1.0, LONGEST / length) if length > 0 else np.zeros(d),
        vectors * np.sqrt(variances),
    )


def random_round(
    history: History, generation: int, *, dimension: int, policies: int
) -> PublicRound:
    """Before the first release: each policy prefers a direction that is drawn at random."""
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
    """Policies for samples of the belief, `spread` standard deviations wide, and one for its mean."""
    rng = _generator(history, generation)
    samples = [belief.drawn(spread, rng) for _ in range(policies - 1)]
    chosen = tuple(ContextPolicy(weights) for weights in (*samples, belief.mean))
    return PublicRound(chosen, history.arrays, signal)


def optimistic_round(
    history: History, belief: Belief, *, signal: float, spread: float
) -> PublicRound:
    """One policy: the mean of the belief, and a bonus of so many standard errors."""
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
    """[Shariff18, Alg. 1]: the estimate after the printed shift, and the printed width around it, a function of log det V.

    `gram` [1, i, i] and `responses` [1, i] are the released sums.
    """
    estimate = Shift(shift, 0.0).estimate(gram, responses, noise_std=released.noise.std)
    values, vectors = np.linalg.eigh(estimate.precision[0])
    beta = width(float(np.log(values).sum()))
    policy = ContextPolicy(estimate.weights[0], beta * (vectors / np.sqrt(values)).T)
    signal = float(np.trace(gram[0])) / len(values) if released.generation else None
    return PublicRound((policy,), {"seed": released.memory["seed"]}, signal)


def mean_visits(gram: Array) -> float:
    """How many users played each direction, on average."""
    return float(np.trace(gram)) / len(gram)


def _generator(history: History, generation: int) -> np.random.Generator:
    return np.random.default_rng([int(history["seed"]), generation])
