"""Contextual linear bandits: contexts on a sphere, and news for groups of readers."""

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, choice, sizes, whole
from confide.errors import InvalidParameter
from confide.problems.bandit import LinearBandit
from confide.problems.zoo import named

Array = npt.NDArray[np.float64]
GROUPS, READERS = 6, 5  # of readers; features of a reader


@named(
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
    """Rewards are 1 with probability 1/2 + <x, theta>, ||theta|| = 1/2. Each user is drawn from a population, with a context per action.

    `contexts="sphere"`: independent, uniform on the unit sphere. `contexts="news"`: readers of six groups, the k-th 1/k as frequent as the
    first, each with noise of its own (5 features); articles are the same for all (dimension / 5 features); a context is the outer product
    of reader and article.

    From default_rng(seed), in this order: theta; then contexts of the population, or of news: groups, articles, each reader's group, noise.
    """
    d, A, n = sizes(dimension=(dimension, 1), actions=(actions, 1), population=(population, 1))
    whole("seed", seed, at_least=0)
    check_size(population=n, actions=A, dimension=d)
    rng = np.random.default_rng(seed)
    theta = _unit(rng.normal(size=d)) / 2
    if choice("contexts", contexts, ("sphere", "news")) == "sphere":
        return LinearBandit(theta, _unit(rng.normal(size=(n, A, d))))
    if d % READERS:
        raise InvalidParameter(
            f"the dimension of news must be a multiple of {READERS}, got dimension={d}"
        )
    groups, articles = (
        _unit(rng.normal(size=(GROUPS, READERS))),
        _unit(rng.normal(size=(A, d // READERS))),
    )
    frequent = 1 / np.arange(1, GROUPS + 1)
    readers = groups[rng.choice(GROUPS, size=n, p=frequent / frequent.sum())]
    readers = _unit(readers + 0.3 * rng.normal(size=readers.shape))
    return LinearBandit(
        theta, np.einsum("ui,aj->uaij", readers, articles).reshape(n, A, d), name="news"
    )


@named("which of ten articles to show to readers of six groups", family="linear bandit")
def news(*, actions: int = 10, seed: int = 0) -> LinearBandit:
    """`linear_bandit` with 20 numbers per context: readers of six groups, and articles that are the same for all."""
    return linear_bandit(20, actions, seed, contexts="news")


def _unit(rows: Array) -> Array:
    unit: Array = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
