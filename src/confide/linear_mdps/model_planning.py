"""A model of a linear MDP from noisy sums of phi e_{s'}^T and phi (r - 1/2), forward in time.

PUBLIC: everything here is post-processing of releases and of a public seed, so its constants decide
how well the agent learns, and not the guarantee. What leaves is the round: policies, their shares
and a memory with the layout `LAYOUT`, which saved agents and devices have. The order in which
random numbers are drawn is part of the results: a device draws what its server drew.

With Lambda_h = sum phi phi^T, sum phi e_{s'}^T has the mean Lambda_h mu_h, and sum phi r has the
mean Lambda_h theta_h. Lambda is not released. Policies and the start are public, so visits are
predicted, step by step, with the estimates for the steps before, and predicted again after each
release. In y = Lambda X + e, the errors e have the covariance C = v Lambda + s^2 I of sampling and
noise. The estimate of X is

    (Lambda C^-1 Lambda + k D)^-1 (Lambda C^-1 y + k D prior).

Then P(. | s, a) = phi.mu is projected on the simplex, and theta to where phi.theta is in [0, 1],
which is known for sure. Samples of the posterior are estimates from perturbed sums with a random
prior. D is d times the mean of phi phi^T over all (s, a). A prior is what is thought of d pairs
(s, a), the anchors. So nothing but the noise depends on the coordinates of the features.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from confide.linear_mdps._model_kernels import project_rows, project_to_unit_interval
from confide.planners import _visit_kernels as _visits
from confide.planners.backward_induction import optimal
from confide.planners.history import Layout
from confide.planners.public_round import PublicRound
from confide.planners.visits import (
    SERVED,
    ServedPolicies,
    fold,
    recall_served_policies,
    users_of_round,
    with_open_round,
)
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# The numbers below were chosen for a small regret on `latent` and `one-hot`
# (docs/agents/linear_mdps.md).
# v: the variance of an indicator of s', a typical one, and that of a reward, which is at most 1/4.
MOVE_VARIANCE = 0.1
REWARD_VARIANCE = 0.1
# k: a prior is as good as so many users who try everything alike.
MOVE_PRIOR = 3.0
REWARD_PRIOR = 1.0
# The concentration of the random priors, which are drawn from a Dirichlet distribution.
CONCENTRATION = 0.3
# So many samples of the posterior are played in a round, besides the estimate.
SAMPLES = 8
# So many random policies are played in the first round.
RANDOM_POLICIES = 32
# So many policies are remembered, and their visits are predicted again at each release.
RECENT_POLICIES = 32 * (SAMPLES + 1)
# Differences of value below this are none, so actions are then chosen at random.
TIES = 1e-7
# After t users, of whom t_0 came in the first round, the samples' share of the users is
# (t_0 / t)^SHARE_DECAY, and at least MIN_SHARE.
SHARE_DECAY = 0.3
MIN_SHARE = 0.03
# An eigenvalue of D that is at most this share of the largest one is a rounding error.
RANK_TOLERANCE = 1e-9
# Two small numbers that keep matrices invertible: without noise and users, and without a prior.
MIN_VARIANCE = 1e-6
MIN_PRIOR = 1e-9
LAYOUT = Layout(SERVED)


@dataclass(frozen=True, slots=True, eq=False)
class ModelProblem:
    """All that is public before the first user, besides the features.

    `spread` is that of the samples, in standard deviations of the sums, and `first_round` is the
    number of users of the first round. Shapes: start [s].
    """

    horizon: int
    states: int
    actions: int
    start: Array
    spread: float
    first_round: int


@dataclass(frozen=True, slots=True, eq=False)
class TransitionModel:
    """An estimate, or a sample. Public.

    Shapes: transitions [h, s, a, s'] for the steps but the last, rewards [h, s, a].
    """

    transitions: Array
    rewards: Array


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """The features, and what priors are made of. Public.

    Shapes: rows [s a, i] are all features, and `different_rows` those that differ; prior_shape
    [i, i] is D. anchors [i, n] turns what is thought of n pairs (s, a) into parameters. These pairs
    are as far apart as there are, by pivoting on whitened features.
    """

    rows: Array
    different_rows: Array
    prior_shape: Array
    anchors: Array


def prepare_features(features: Array) -> FeatureTable:
    """Make the table of features [s, a, i].

    If they span fewer than all dimensions, parameters outside of their span are zero.
    """
    d = features.shape[-1]
    rows = np.ascontiguousarray(features, dtype=float).reshape(-1, d)
    prior_shape = d * (rows.T @ rows) / len(rows)
    eigenvalues, vectors = np.linalg.eigh(prior_shape)
    is_spanned = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    whitened = rows @ (vectors[:, is_spanned] / np.sqrt(eigenvalues[is_spanned]))
    _, _, order = scipy.linalg.qr(whitened.T, mode="economic", pivoting=True)
    anchor_rows = rows[order[: is_spanned.sum()]]
    anchors = np.asarray(np.linalg.pinv(anchor_rows), dtype=np.float64)
    return FeatureTable(rows, np.unique(rows, axis=0), prior_shape, anchors)


@dataclass(frozen=True, slots=True, eq=False)
class FittedModels:
    """models[0] is the estimate, and the others are samples. Public.

    Shapes: states [h, q, s] are the predicted state distributions of the policies. `signal` is the
    mean eigenvalue of Lambda.
    """

    models: tuple[TransitionModel, ...]
    states: Array
    signal: float


def fit_models(
    moves: Array,
    rewards: Array,
    served: ServedPolicies,
    *,
    noise_std: float,
    reward_noise_std: float,
    table: FeatureTable,
    start: Array,
    samples: int,
    spread: float,
    rng: np.random.Generator,
) -> FittedModels:
    """Estimate and sample models from moves [h, i, s'] and rewards [h, i]."""
    H, d = rewards.shape
    S = len(start)
    A = len(table.rows) // S
    models = tuple(
        TransitionModel(np.empty((H - 1, S, A, S)), np.empty((H, S, A))) for _ in range(samples + 1)
    )
    policy_states = np.empty((H, len(served.users), S))
    signals = np.empty(H)
    states = np.tile(start, (len(served.users), 1))
    for h in range(H):
        policy_states[h] = states
        policies = served.policies[:, h]
        visits = served.earlier[h] + _visits.visits(policies, served.users, states, A)
        feature_sum = visits.ravel() @ table.rows
        Lambda = (table.rows * visits.ravel()[:, None]).T @ table.rows
        signals[h] = np.trace(Lambda) / d

        # What is released about rewards is centred at 1/2.
        reward_sum = rewards[h] + feature_sum / 2
        thetas = fit_rewards(reward_sum, Lambda, reward_noise_std, table, samples, spread, rng)
        for model, theta in zip(models, thetas, strict=True):
            model.rewards[h] = np.clip(table.rows @ theta, 0.0, 1.0).reshape(S, A)
        if h == H - 1:
            break
        measures = fit_measures(moves[h], Lambda, noise_std, table, samples, spread, rng)
        for model, measure in zip(models, measures, strict=True):
            model.transitions[h] = project_rows(table.rows @ measure).reshape(S, A, S)
        states = _visits.move(policies, states, models[0].transitions[h])
    return FittedModels(models, policy_states, float(signals.mean()))


def fit_rewards(
    reward_sum: Array,
    Lambda: Array,
    noise_std: float,
    table: FeatureTable,
    samples: int,
    spread: float,
    rng: np.random.Generator,
) -> list[Array]:
    """theta [i] of a step, the estimate first, with phi.theta in [0, 1] for all features."""
    anchors = table.anchors.shape[1]
    prior = REWARD_PRIOR * table.prior_shape
    regression = _Regression(Lambda, REWARD_VARIANCE, noise_std, prior)
    random_priors = rng.random((samples, anchors, 1))
    priors = table.anchors @ np.concatenate([np.zeros((1, anchors, 1)), random_priors])
    solutions = regression.solve(reward_sum[:, None], priors, spread, rng)
    return [
        project_to_unit_interval(theta[:, 0].copy(), regression.covariance, table.different_rows)
        for theta in solutions
    ]


def fit_measures(
    moves: Array,
    Lambda: Array,
    noise_std: float,
    table: FeatureTable,
    samples: int,
    spread: float,
    rng: np.random.Generator,
) -> Array:
    """mu [sample, i, s'] of a step, the estimate first."""
    S = moves.shape[1]
    anchors = table.anchors.shape[1]
    regression = _Regression(Lambda, MOVE_VARIANCE, noise_std, MOVE_PRIOR * table.prior_shape)
    random_priors = rng.dirichlet(np.full(S, CONCENTRATION), size=(samples, anchors))
    even_prior = np.full((1, anchors, S), 1 / S)
    priors = table.anchors @ np.concatenate([even_prior, random_priors])
    return regression.solve(moves, priors, spread, rng)


class _Regression:
    """The estimate of X in y = Lambda X + e, for all columns of X at once."""

    def __init__(self, Lambda: Array, variance: float, noise_std: float, prior: Array) -> None:
        d = len(Lambda)
        self._error = variance * Lambda + (noise_std**2 + MIN_VARIANCE) * np.eye(d)
        weighted = np.linalg.solve(self._error, Lambda).T
        precision = weighted @ Lambda + prior + MIN_PRIOR * np.trace(prior) * np.eye(d)
        self.covariance: Array = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        self._gain = self.covariance @ weighted
        self._prior_gain = self.covariance @ prior

    def solve(self, y: Array, priors: Array, spread: float, rng: np.random.Generator) -> Array:
        """Solutions [p, i, column], one for each prior [p, i, column].

        All but the first are from sums that are perturbed by `spread` standard deviations of their
        error.
        """
        count, d, columns = priors.shape
        errors = rng.multivariate_normal(
            np.zeros(d), self._error, size=(count - 1, columns), method="cholesky"
        )
        perturbed = np.concatenate([y[None], y + spread * errors.swapaxes(1, 2)])
        solutions: Array = self._gain @ perturbed + self._prior_gain @ priors
        return solutions


def plan_round(
    released: Released,
    moves: Array,
    rewards: Array,
    *,
    reward_weight: float,
    problem: ModelProblem,
    table: FeatureTable,
) -> PublicRound:
    """Decide the next round from everything released so far.

    These are sums of moves [h, i, s'], and of rewards [h, i], whose weight in the release was
    `reward_weight`.
    """
    H = problem.horizon
    S = problem.states
    A = problem.actions
    history = LAYOUT.recall(
        released,
        {"step": H, "planned step": H, "state": S, "action": A},
        {"policy": RECENT_POLICIES, "shown policy": RECENT_POLICIES},
    )
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    signal = None
    if released.generation == 0:
        actions = rng.integers(A, size=(RANDOM_POLICIES, H, S))
        shares = np.ones(RANDOM_POLICIES)
    else:
        users = users_of_round(history, released)
        history = history.extend("policy", policies=history["shown"], users=users)
        fitted = fit_models(
            moves,
            rewards,
            recall_served_policies(history),
            noise_std=released.noise.std,
            reward_noise_std=released.noise.std / reward_weight,
            table=table,
            start=problem.start,
            samples=SAMPLES,
            spread=problem.spread,
            rng=rng,
        )
        history = fold(history, fitted.states, RECENT_POLICIES)
        signal = fitted.signal
        actions = np.stack([best_actions(model, rng) for model in fitted.models])
        shares = policy_shares(problem.first_round, released.users)
    history = with_open_round(history, actions, shares, released.users)
    policies = tuple(TabularPolicy(each, A) for each in actions)
    return PublicRound(policies, history.arrays, signal, tuple(map(float, shares)))


def policy_shares(first_round: int, users: int) -> Array:
    """The shares of the estimate's policy and of each sample's, after so many users."""
    decayed = (first_round / max(users, 1)) ** SHARE_DECAY
    sampled = max(min(1.0, decayed), MIN_SHARE)
    return np.array([1 - sampled, *[sampled / SAMPLES] * SAMPLES])


def best_actions(model: TransitionModel, rng: np.random.Generator) -> Ints:
    """The actions [h, s] of the best policy for a model.

    Actions that are equally good are played at random: there, too, users can show something.
    """
    H = len(model.rewards)
    undecided = model.rewards + TIES * rng.random(model.rewards.shape)

    def expect(step: int, values: Array) -> Array:
        return model.transitions[step] @ values if step < H - 1 else np.zeros(undecided.shape[1:])

    return optimal(expect, undecided)[1].actions
