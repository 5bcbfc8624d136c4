"""Contextual linear bandits: contexts on a sphere, and news for groups of readers."""

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, choice, sizes, whole
from confide.errors import InvalidParameter
from confide.problems.bandit import LinearBandit
from confide.problems.zoo import describe

Array = npt.NDArray[np.float64]
# Groups of readers, and features of a reader.
GROUPS = 6
READER_FEATURES = 5


@describe(
    "one step, ten actions with a context each, rewards linear in contexts", family="linear bandit"
)
def linear_bandit(
    dimension: int = 10,
    actions: int = 10,
    seed: int = 0,
    *,
    contexts: str = "sphere",
    population: int = 4096,
) -> LinearBandit:
    """Rewards are 1 with probability 1/2 + <x, theta>, where ||theta|| = 1/2.

    Each user is drawn from a population, with a context per action.

    `contexts="sphere"`: contexts are independent and uniform on the unit sphere.
    `contexts="news"`: readers come from six groups, the k-th 1/k as frequent as the first, each
    with noise of its own (5 features). Articles are the same for all (dimension / 5 features). A
    context is the outer product of reader and article.

    From default_rng(seed), in this order: theta; then contexts of the population, or of news:
    groups, articles, each reader's group, noise.
    """
    d, A, n = sizes(dimension=(dimension, 1), actions=(actions, 1), population=(population, 1))
    whole("seed", seed, at_least=0)
    check_size(population=n, actions=A, dimension=d)
    rng = np.random.default_rng(seed)
    theta = _unit_rows(rng.normal(size=d)) / 2
    if choice("contexts", contexts, ("sphere", "news")) == "sphere":
        return LinearBandit(theta, _unit_rows(rng.normal(size=(n, A, d))))
    if d % READER_FEATURES:
        raise InvalidParameter(
            f"the dimension of news must be a multiple of {READER_FEATURES}, got dimension={d}"
        )
    groups = _unit_rows(rng.normal(size=(GROUPS, READER_FEATURES)))
    articles = _unit_rows(rng.normal(size=(A, d // READER_FEATURES)))
    frequencies = 1 / np.arange(1, GROUPS + 1)
    group_of_reader = rng.choice(GROUPS, size=n, p=frequencies / frequencies.sum())
    readers = groups[group_of_reader]
    readers = _unit_rows(readers + 0.3 * rng.normal(size=readers.shape))
    contexts_of_readers = np.einsum("ui,aj->uaij", readers, articles).reshape(n, A, d)
    return LinearBandit(theta, contexts_of_readers, name="news")


@describe("which of ten articles to show to readers of six groups", family="linear bandit")
def news(*, actions: int = 10, seed: int = 0) -> LinearBandit:
    """`linear_bandit` with 20 numbers per context: readers of six groups, the same articles."""
    return linear_bandit(20, actions, seed, contexts="news")


def _unit_rows(rows: Array) -> Array:
    """The rows, over the last axis, divided by their norms."""
    unit: Array = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
