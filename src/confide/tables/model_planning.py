"""Estimates the transition model of a tabular MDP from noisy sums of budgeted counts.

This is the public side of `TabularPSRL`: released arrays go in, and arrays come out. Everything
here is post-processing, so all constants and formulas may be changed without any effect on privacy.
What may not be changed freely is `LAYOUT`: its names and shapes are part of saved states and of
the rounds that a service publishes.

Release t is

    R_t = sum_{j <= t} ratio^(t - j) X_j + noise,

where X_j is the sum of what the users of round j contributed. With ratio = 0 a release is the sum
of one round alone. The entry of X_j for a cell has the mean p a_j. Here p is the cell's transition
probability, and a_j is the expected contribution of round j to the cell's pair (s, a). The model
predicts a_j from public policies and weights, and never reads it off the noisy sums. Least squares
over the releases estimates p. The estimate is scaled so that its sampling variance equals its mean.
It is therefore a number of effective samples, with noise of a known standard deviation.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners.history import (
    LAST_RELEASE,
    History,
    Layout,
    Reals,
    Wholes,
    refuse_unless,
)
from confide.privacy.bounded import Released
from confide.tables import _model_kernels as _kernels
from confide.tables.support_features import Support

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# All constants below were chosen by measurement on the problems of benchmarks/results/tables.md.

# Without a stated support, a pair (s, a) is expected to have this many successors.
EXPECTED_SUCCESSORS = 2.0
# With a stated support, a listed successor follows with this prior probability.
LISTED_SUCCESSOR_PROBABILITY = 0.9
# Expected visits per user of all pairs together that no model can predict away.
MIN_EXPECTED_VISITS = 1e-3
# Effective samples that the prior adds to each pair.
PRIOR_SAMPLES = 0.3
# The weights of releases are optimal for cells with this transition probability.
TYPICAL_PROBABILITY = 0.5
# A pair counts as untried if it has at most this many standard deviations of noise ...
UNTRIED_NOISE_STDS = 3.0
# ... and this many samples more.
UNTRIED_SAMPLES = 5.0
# A table with more cells than this is thinned before planning.
LARGE_TABLE_CELLS = 2**19
# Thinning keeps a cell whose probability is at least this multiple of an even share.
THINNING_MULTIPLE = 2.0
# Added to the diagonal of the covariance of releases, relative to its trace and absolutely.
RELATIVE_RIDGE = 1e-9
ABSOLUTE_RIDGE = 1e-12


# What planning remembers of earlier rounds.
LAYOUT = Layout(
    LAST_RELEASE
    | {
        # The mean and the variance of what the users of a round contribute to a pair, for p = 1.
        "means": Reals(("round", "pair"), at_least=0),
        "variances": Reals(("round", "pair"), at_least=0),
        # The total weight of each round in `older`.
        "used": Reals(("round", "pair")),
        # The last few releases, the variances of their noise, and who was served how before them.
        "policies": Wholes(("release", "policy", "step", "state"), below="action"),
        "users": Reals(("release", "policy"), at_least=0),
        "weights": Reals(("release", "pair"), at_least=0),
        "releases": Reals(("release", "number")),
        "noises": Reals(("release",), at_least=0),
        # The weighted sum of all earlier releases, and the variance of its noise.
        "older": Reals(("number",)),
        "noise": Reals(("pair",), at_least=0),
        # The transition probabilities of the last estimate.
        "model": Reals(("cell",), at_least=0),
        # The policies and the weights of visits of the open round, and the users before it.
        "shown": Wholes(("policy", "step", "state"), below="action"),
        "counted": Reals(("pair",), at_least=0, at_most=1),
        "total": Wholes(at_most="users"),
    }
)


def recall_rounds(
    released: Released, support: Support, *, policies: int, horizon: int, window: int
) -> History:
    """Return the checked history of earlier rounds.

    On a device the history comes from a server, so all of it is checked before it is used. Before
    the first round, every possible successor is equally likely in the model.
    """
    history = LAYOUT.recall(
        released,
        {
            "pair": support.pairs,
            "cell": support.cells,
            "state": support.states,
            "action": support.actions,
            "step": horizon,
            "policy": policies,
            "number": len(released.values),
        },
        {"release": window},
    )
    refuse_unless(history.count("release") <= history.count("round"))
    if released.generation == 0:
        no_counts = np.zeros(support.cells)
        even_model = _kernels.normalize_counts(no_counts, support.indptr, PRIOR_SAMPLES)
        return history.replace(model=even_model)
    return history


def append_round(
    history: History, released: Released, users: Array, *, differences: bool
) -> History:
    """Add the round that the release has just closed, with its users per policy [policy].

    With `differences`, the sum of the round is this release minus the last one. The contributions
    of the round are not predicted yet; `predict_contributions` does that.
    """
    values = released.values
    noise_variance = released.noise.std**2
    if differences:
        values, noise_variance = history.without_last(released)
        history = history.remember_release(released)
    not_predicted = np.zeros(len(history["counted"]))
    history = history.append(
        "round", means=not_predicted, variances=not_predicted, used=not_predicted
    )
    return history.append(
        "release",
        policies=history["shown"],
        users=users,
        weights=history["counted"],
        releases=values,
        noises=noise_variance,
    )


def expected_visits(policies: Ints, model: Array, support: Support, start: Array) -> Array:
    """Return how often one user of each policy [policy, h, s] visits each pair: [policy, pair]."""
    cells = _thin_large_table(model, support)
    return _kernels.visits(policies, start, support.layers, support.actions, *cells)


def predict_contributions(history: History, support: Support, start: Array) -> History:
    """Predict with the last model what the users of the kept rounds contributed."""
    means = history["means"].copy()
    variances = history["variances"].copy()
    first_kept = history.count("round") - history.count("release")
    policies = history["policies"]
    users = history["users"]
    weights = history["weights"]
    releases, policy_count, horizon, states = policies.shape
    all_policies = policies.reshape(releases * policy_count, horizon, states)
    visits = expected_visits(all_policies, history["model"], support, start)
    visits = np.maximum(visits, MIN_EXPECTED_VISITS / support.pairs)
    visits = visits.reshape(releases, policy_count, support.pairs)
    for release, visits_by_policy in enumerate(visits):
        # The c-th visit of a pair by one user adds sqrt(c) - sqrt(c - 1), so v expected visits
        # add at most about sqrt(v).
        counted_visits = users[release] @ np.minimum(visits_by_policy, np.sqrt(visits_by_policy))
        means[first_kept + release] = weights[release] * counted_visits
        variances[first_kept + release] = weights[release] ** 2 * counted_visits
    return history.replace(means=means, variances=variances)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Effective samples: transitions [cell], sums of rewards [pair], and noise std [pair].

    The noise is that of each transition count of the pair. `rewards` is empty where rewards are
    known, and has the unit of the counts otherwise.
    """

    moves: Array
    rewards: Array
    noise: Array


def _round_coefficients(rounds: int, window: int, ratio: float) -> Array:
    """Return the coefficient of each round in each of the last releases: [release, round]."""
    releases = np.arange(rounds - window, rounds)[:, None]
    earlier_rounds = np.arange(rounds)[None]
    age = releases - earlier_rounds
    return np.where(earlier_rounds <= releases, ratio ** np.maximum(age, 0.0), 0.0)


def _release_weights(history: History, ratio: float) -> tuple[Array, Array]:
    """Return the least-squares weights of the last releases, and what each round then counts.

    The weights are [release, pair], and what a round counts is [round, pair].
    """
    coefficients = _round_coefficients(history.count("round"), history.count("release"), ratio)
    means = coefficients @ history["means"]
    releases = len(coefficients)
    # The covariance of two releases is that of the rounds that both contain:
    # [pair, release, release].
    shared_rounds = (coefficients[:, None] * coefficients[None]).reshape(releases * releases, -1)
    sampling = (shared_rounds @ history["variances"]).T.reshape(-1, releases, releases)
    covariance = sampling * TYPICAL_PROBABILITY + np.diag(history["noises"])
    trace = np.trace(covariance, axis1=1, axis2=2)
    ridge = (RELATIVE_RIDGE * trace + ABSOLUTE_RIDGE)[:, None, None]
    covariance += ridge * np.eye(releases)
    solution = np.linalg.solve(covariance, means.T[..., None])
    weights = np.asarray(solution[..., 0].T, dtype=float)
    return weights, coefficients.T @ weights


def estimate_counts(
    history: History, support: Support, ratio: float, reward_scale: float = 0.0
) -> Counts:
    """Combine all releases into effective counts, each release with its least-squares weight.

    `reward_scale` is the factor of rewards in the released sums. It is divided out.
    """
    weights, weights_of_rounds = _release_weights(history, ratio)
    round_weights = history["used"] + weights_of_rounds
    mean = (round_weights * history["means"]).sum(axis=0)
    variance = (round_weights**2 * history["variances"]).sum(axis=0)
    has_samples = support.open & (variance > 0) & (mean > 0)
    scale = np.where(has_samples, mean / np.where(has_samples, variance, 1.0), 0.0)
    pair_of_cell = support.pair_of_cell
    cells = support.cells
    older = history["older"]
    releases = history["releases"]
    moves = older[:cells] + np.einsum("tc,tc->c", weights[:, pair_of_cell], releases[:, :cells])
    rewards = np.zeros(0)
    if older.size > cells:
        reward_sums = older[cells:] + (weights * releases[:, cells:]).sum(axis=0)
        rewards = reward_sums * scale / reward_scale
    noise = np.sqrt(history["noise"] + history["noises"] @ weights**2) * scale
    return Counts(moves * scale[pair_of_cell], rewards, noise)


def fold_old_releases(history: History, support: Support, ratio: float, window: int) -> History:
    """Keep the last `window` releases, and add earlier ones to `older` with their present weights.

    This bounds memory and time. The weights of a folded release never change again.
    """
    folded_releases = history.count("release") - window
    if folded_releases <= 0:
        return history
    weights, _ = _release_weights(history, ratio)
    weights = weights[:folded_releases]
    coefficients = _round_coefficients(history.count("round"), history.count("release"), ratio)
    coefficients = coefficients[:folded_releases]
    older = history["older"]
    # Cells come first in a release. Sums of rewards follow where rewards are learned.
    number_weights = np.concatenate([weights[:, support.pair_of_cell], weights], axis=1)
    number_weights = number_weights[:, : older.size]
    folded_sum = (number_weights * history["releases"][:folded_releases]).sum(axis=0)
    return history.select("release", slice(folded_releases, None)).replace(
        older=older + folded_sum,
        used=history["used"] + coefficients.T @ weights,
        noise=history["noise"] + history["noises"][:folded_releases] @ weights**2,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The posterior of the transition model, from effective counts."""

    counts: Counts
    # The number of samples of each pair [pair].
    totals: Array
    # The probability that the transition can happen at all [cell].
    chances: Array
    # Transition probabilities [cell].
    mean: Array


def model_posterior(counts: Counts, support: Support) -> Posterior:
    """Return the posterior under a spike-and-slab prior.

    A transition is either impossible (the spike), or its count is uniform up to the pair's total
    (the slab). With a stated support nearly all listed transitions are possible.
    """
    if support.known:
        possible = np.full(support.pairs, LISTED_SUCCESSOR_PROBABILITY)
    else:
        cells_of_pair = np.diff(support.indptr)
        possible = np.minimum(EXPECTED_SUCCESSORS / np.maximum(cells_of_pair, 1), 0.5)
    kept_counts = counts.moves
    totals = np.zeros(support.pairs)
    chances = counts.moves
    means = counts.moves
    # The first total of a pair sums all of its noisy cells. The second one sums only what the
    # posterior keeps of them, which has less noise.
    open_pairs = support.open
    for _ in range(2):
        totals[open_pairs] = np.add.reduceat(kept_counts, support.indptr[:-1][open_pairs])
        totals = np.maximum(totals, np.maximum(2 * counts.noise, 1e-12))
        chances, means = _kernels.spike_and_slab(
            counts.moves, counts.noise, totals, possible, support.indptr
        )
        kept_counts = chances * means
    model = _kernels.normalize_counts(kept_counts, support.indptr, PRIOR_SAMPLES)
    return Posterior(counts, totals, chances, model)


def draw_model(posterior: Posterior, support: Support, rng: np.random.Generator) -> Array:
    """Draw transition probabilities [cell] from the posterior."""
    return _kernels.draw_probabilities(
        posterior.counts.moves,
        posterior.counts.noise,
        posterior.totals,
        posterior.chances,
        support.indptr,
        rng,
    )


def untried_pairs(posterior: Posterior, support: Support) -> Bools:
    """Return whether the samples of each pair may be noise alone [pair]."""
    doubt = UNTRIED_NOISE_STDS * posterior.counts.noise + UNTRIED_SAMPLES
    return support.open & (posterior.totals <= doubt)


def best_policy(
    model: Array, rewards: Array, support: Support, optimistic_pairs: Bools | None = None
) -> Ints:
    """Return the best actions [h, s] for probabilities [cell] and rewards [h, s, a].

    `optimistic_pairs` [pair] are assumed to lead to the best of their possible successors.
    """
    if optimistic_pairs is None:
        optimistic_pairs = np.zeros(support.pairs, dtype=np.bool_)
    cells = _thin_large_table(model, support)
    return _kernels.best_actions(support.layers, *cells, rewards, optimistic_pairs)


def _thin_large_table(model: Array, support: Support) -> tuple[Ints, Ints, Array, Array]:
    """Return the cells for planning (indptr, successors, probabilities) and the rest [pair].

    The rest is the probability that is spread evenly over all states. It is zero in small tables.
    In large tables, most cells of small probability are noise, and planning would take most of
    its time for them. They are therefore evened out within their pair.
    """
    if support.cells <= LARGE_TABLE_CELLS:
        return support.indptr, support.successors, model, np.zeros(support.pairs)
    least = THINNING_MULTIPLE / support.states
    return _kernels.thin_cells(support.indptr, support.successors, model, support.states, least)
