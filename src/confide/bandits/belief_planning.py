"""What releases say about the weights of a linear bandit. All post-processing.

Release t is R_t = sum_{j <= t} ratio^(t - j) X_j plus noise, X_j the sum of (x x^T, kappa x y) over the users of round j (ratio 0: the
round alone). Least squares over all releases weighs each of them by what it tells about a user's mean contribution: the weights follow from
the numbers of users and from the noise, never from the noisy sums.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners.regression import least_squares
from confide.privacy.bounded import Memory, Released

Array = npt.NDArray[np.float64]
RIDGE = 0.3  # x half of the norm of the noise
LONGEST = 1.0  # an estimate of the weights


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """All releases [t, number] with their noise variances [t] and users [t]; `last` [number] is the last prefix sum, `last_noise` its
    variance and `total` its users."""

    releases: Array
    noises: Array
    users: Array
    last: Array
    last_noise: Array
    total: Array

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {name: getattr(self, name) for name in self.__slots__}


def recall(memory: Memory, size: int) -> History:
    """On a device a server says this: nothing in it is taken on faith."""
    empty = History(
        np.zeros((0, size)), np.zeros(0), np.zeros(0), np.zeros(size), np.zeros(()), np.zeros(())
    )
    if set(memory) == {"seed"}:
        return empty
    found = {name: memory.get(name) for name in empty.arrays()}
    for name, expected in empty.arrays().items():
        given = found[name]
        rounds = name in ("releases", "noises", "users")
        if (
            not isinstance(given, np.ndarray)
            or given.dtype != np.float64
            or not np.isfinite(given).all()
        ):
            raise InvalidParameter("the memory of earlier rounds does not fit this problem")
        shape = (len(memory["users"]), *expected.shape[1:]) if rounds else expected.shape
        if given.shape != shape or (name not in ("releases", "last") and (given < 0).any()):
            raise InvalidParameter("the memory of earlier rounds does not fit this problem")
    return History(**{name: memory[name] for name in empty.arrays()})


def closed(history: History, released: Released, *, differences: bool) -> History:
    """With the round that the release has just closed."""
    values, variance = released.values, released.noise.std**2
    if differences:
        values, variance = values - history.last, max(variance - float(history.last_noise), 0.0)
    return History(
        np.concatenate([history.releases, values[None]]),
        np.append(history.noises, variance),
        np.append(history.users, released.users - history.total),
        released.values,
        np.array(released.noise.std**2),
        np.array(float(released.users)),
    )


def combined(history: History, ratio: float, spread: float) -> tuple[Array, float]:
    """The sums of as many users as the releases are worth, and the standard deviation of the noise on each number.

    `spread` is the variance of a number of one user's contribution, about.
    """
    n, rounds = history.users, len(history.users)
    t, j = np.arange(rounds)[:, None], np.arange(rounds)[None]
    C = np.where(j <= t, ratio ** np.maximum(t - j, 0.0), 0.0)
    covariance = spread * (C * n) @ C.T + np.diag(history.noises)
    covariance += (1e-12 * np.trace(covariance) + 1e-300) * np.eye(rounds)
    weights = np.linalg.solve(covariance, C @ n)
    of_rounds = C.T @ weights
    counted = float(of_rounds**2 @ n)
    scale = float(of_rounds @ n) / counted if counted > 0 else 0.0
    return scale * (weights @ history.releases), scale * float(np.sqrt(weights**2 @ history.noises))


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


def random_directions(count: int, dimension: int, rng: np.random.Generator) -> list[Array]:
    return list(rng.normal(size=(count, dimension)))
