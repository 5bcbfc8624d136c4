"""A model of a table from noisy sums of budgeted counts. All post-processing.

Release t is R_t = sum_{j <= t} ratio^(t - j) X_j plus noise, X_j what the users of round j contributed (ratio 0: the round alone). X_j of a
cell has the mean p a_j, where p is the cell's transition probability and a_j(s, a) is predicted from public policies and weights by the
model, never read off the noisy sums. Least squares over the releases estimates p; scaled so that its sampling variance is its mean, the
estimate is a count of effective samples, with noise of a known standard deviation.
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
FEW = 2.0  # successors that a state and an action are expected to have, where nobody said which
LISTED = 0.9  # the probability that a listed successor really follows
LEAST = 1e-3  # visits per user of all pairs together that no model can predict away
PRIOR = 0.3  # effective samples of a pair that nobody has seen
TYPICAL = 0.5  # transition probability, for which the weights of releases are best
# a pair with so many standard deviations of noise, and samples, or fewer, counts as untried
FAINT, SCARCE = 3.0, 5.0
LARGE = 2**19  # cells of a table that is thinned for planning
THIN = 2.0  # the share that a cell needs to be kept there, times an even one


# What planning remembers of earlier rounds. `means` and `variances` are of what a round's users contribute to a pair, for p = 1.
# `older` is the weighted sum of the releases before the kept ones, `used` is what each round counts in it, and `noise` is its variance.
LAYOUT = Layout(
    LAST_RELEASE
    | {
        "means": Reals(("round", "pair"), at_least=0),
        "variances": Reals(("round", "pair"), at_least=0),
        "used": Reals(("round", "pair")),
        # the last few releases, with the variances of their noise, and who was served how before them
        "policies": Wholes(("release", "policy", "step", "state"), below="action"),
        "users": Reals(("release", "policy"), at_least=0),
        "weights": Reals(("release", "pair"), at_least=0),
        "releases": Reals(("release", "number")),
        "noises": Reals(("release",), at_least=0),
        "older": Reals(("number",)),
        "noise": Reals(("pair",), at_least=0),
        # transition probabilities of the last estimate
        "model": Reals(("cell",), at_least=0),
        # the round that is open
        "shown": Wholes(("policy", "step", "state"), below="action"),
        "counted": Reals(("pair",), at_least=0, at_most=1),
        "total": Wholes(at_most="users"),
    }
)


def recall_rounds(
    released: Released, support: Support, *, policies: int, horizon: int, window: int
) -> History:
    """Before the first round, every successor that can be is as likely as any other."""
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
        nothing_seen = np.zeros(support.cells)
        return history.replace(model=_kernels.normalised(nothing_seen, support.indptr, PRIOR))
    return history


def append_round(
    history: History, released: Released, users: Array, *, differences: bool
) -> History:
    """With the round that the release has just closed; its predictions are made by `predicted`."""
    values, variance = released.values, released.noise.std**2
    if differences:
        values, variance = history.without_last(released)
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
        noises=variance,
    )


def expected_visits(policies: Ints, model: Array, support: Support, start: Array) -> Array:
    """Of one user of each policy [q, h, s]: [q, pair]."""
    return _kernels.visits(policies, start, support.layers, support.actions, *_thin(model, support))


def predicted(history: History, support: Support, start: Array) -> History:
    """What the users of the last rounds contributed, by the last model."""
    means, variances = history["means"].copy(), history["variances"].copy()
    first = history.count("round") - history.count("release")
    least = LEAST / support.pairs
    W, Q, H, S = history["policies"].shape
    policies, users, weights = history["policies"], history["users"], history["weights"]
    visits = expected_visits(policies.reshape(W * Q, H, S), history["model"], support, start)
    for i, v in enumerate(np.maximum(visits, least).reshape(W, Q, support.pairs)):
        seen = users[i] @ np.minimum(v, np.sqrt(v))
        means[first + i], variances[first + i] = weights[i] * seen, weights[i] ** 2 * seen
    return history.replace(means=means, variances=variances)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Effective samples: counts [cell] of transitions, with the noise [pair] on each count, and sums of rewards [pair] in the same unit."""

    moves: Array
    rewards: Array
    noise: Array


def _coefficients(rounds: int, window: int, ratio: float) -> Array:
    """What each of the last releases counts each round with, [w, round]."""
    t, j = np.arange(rounds - window, rounds)[:, None], np.arange(rounds)[None]
    return np.where(j <= t, ratio ** np.maximum(t - j, 0.0), 0.0)


def _weights(history: History, ratio: float) -> tuple[Array, Array]:
    """Of the last releases in the estimate, [w, pair], and of each round then, [round, pair]."""
    C = _coefficients(history.count("round"), history.count("release"), ratio)
    m = C @ history["means"]
    t = len(C)
    sampling = ((C[:, None] * C[None]).reshape(t * t, -1) @ history["variances"]).T.reshape(
        -1, t, t
    )
    covariance = sampling * TYPICAL + np.diag(history["noises"])
    covariance += (1e-9 * np.trace(covariance, axis1=1, axis2=2) + 1e-12)[:, None, None] * np.eye(
        len(C)
    )
    w = np.asarray(np.linalg.solve(covariance, m.T[..., None])[..., 0].T, dtype=float)
    return w, C.T @ w


def estimate(history: History, support: Support, ratio: float, balance: float = 0.0) -> Counts:
    """The sums of all releases, each weighted by what it tells; those of rewards with the balance divided out."""
    w, rounds = _weights(history, ratio)
    used = history["used"] + rounds
    mean = (used * history["means"]).sum(axis=0)
    variance = (used**2 * history["variances"]).sum(axis=0)
    open_ = support.open & (variance > 0) & (mean > 0)
    scale = np.where(open_, mean / np.where(open_, variance, 1.0), 0.0)
    of_cell = np.repeat(np.arange(support.pairs), np.diff(support.indptr))
    cells = support.cells
    older, releases = history["older"], history["releases"]
    moves = older[:cells] + np.einsum("tc,tc->c", w[:, of_cell], releases[:, :cells])
    rewards = np.zeros(0)
    if older.size > cells:
        rewards = older[cells:] + (w * releases[:, cells:]).sum(axis=0)
    noise = np.sqrt(history["noise"] + history["noises"] @ w**2) * scale
    return Counts(
        moves * scale[of_cell], rewards * scale / balance if rewards.size else rewards, noise
    )


def folded(history: History, support: Support, ratio: float, window: int) -> History:
    """Without the oldest releases beyond the window: their weights are fixed now. Bounds memory and time."""
    drop = history.count("release") - window
    if drop <= 0:
        return history
    w = _weights(history, ratio)[0][:drop]
    C = _coefficients(history.count("round"), history.count("release"), ratio)[:drop]
    of_cell = np.repeat(np.arange(support.pairs), np.diff(support.indptr))
    older = history["older"]
    each = np.concatenate([w[:, of_cell], w], axis=1)[:, : older.size]
    return history.select("release", slice(drop, None)).replace(
        older=older + (each * history["releases"][:drop]).sum(axis=0),
        used=history["used"] + C.T @ w,
        noise=history["noise"] + history["noises"][:drop] @ w**2,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """What is known of the table: the counts, how many samples each pair has [pair], and for each cell the chance that it is no zero."""

    counts: Counts
    totals: Array
    chances: Array
    mean: Array  # transition probabilities [cell]


def posterior(counts: Counts, support: Support) -> Posterior:
    lengths = np.diff(support.indptr)
    slab = (
        np.full(support.pairs, LISTED)
        if support.known
        else np.minimum(FEW / np.maximum(lengths, 1), 0.5)
    )
    kept, totals = counts.moves, np.zeros(support.pairs)
    chances = means = counts.moves
    # the samples of a pair: first all of its cells, then what is left of them, with less noise
    for _ in range(2):
        totals[support.open] = np.add.reduceat(kept, support.indptr[:-1][support.open])
        totals = np.maximum(totals, np.maximum(2 * counts.noise, 1e-12))
        chances, means = _kernels.spike_and_slab(
            counts.moves, counts.noise, totals, slab, support.indptr
        )
        kept = chances * means
    return Posterior(counts, totals, chances, _kernels.normalised(kept, support.indptr, PRIOR))


def drawn(known: Posterior, support: Support, rng: np.random.Generator) -> Array:
    """Transition probabilities [cell] from the posterior."""
    return _kernels.draw(
        known.counts.moves, known.counts.noise, known.totals, known.chances, support.indptr, rng
    )


def untried(known: Posterior, support: Support) -> Bools:
    """Whether the samples of a pair [pair] may be noise alone."""
    return support.open & (known.totals <= FAINT * known.counts.noise + SCARCE)


def best_policy(
    model: Array, rewards: Array, support: Support, hopeful: Bools | None = None
) -> Ints:
    """Actions [h, s] for transition probabilities [cell] and rewards [h, s, a]; `hopeful` pairs [pair] lead to the best that may follow."""
    hopes = np.zeros(support.pairs, dtype=np.bool_) if hopeful is None else hopeful
    return _kernels.best_actions(support.layers, *_thin(model, support), rewards, hopes)


def _thin(model: Array, support: Support) -> tuple[Ints, Ints, Array, Array]:
    """Cells for planning (indptr, successors, probabilities), and the rest [pair] that is spread evenly over all states.

    In large tables cells with less than THIN times an even share are evened out within their pair: most of them are noise, and planning
    would take its time from them.
    """
    if support.cells <= LARGE:
        return support.indptr, support.successors, model, np.zeros(support.pairs)
    return _kernels.thinned(
        support.indptr, support.successors, model, support.states, THIN / support.states
    )
