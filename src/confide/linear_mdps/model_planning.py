"""A model of a linear MDP from noisy sums of phi e_{s'}^T and phi (r - 1/2): forward in time, all post-processing.

With Lambda_h = sum phi phi^T, sum phi e_{s'}^T has mean Lambda_h mu_h and sum phi r has mean Lambda_h theta_h. Lambda is not released:
policies and the start are public, so visits are predicted, step by step, with the estimates for the steps before, and predicted again
after each release. An estimate of X in y = Lambda X + e, with the covariance C = v Lambda + s^2 I of e (sampling and noise), is

    (Lambda C^-1 Lambda + k D)^-1 (Lambda C^-1 y + k D prior),

then P(. | s, a) = phi.mu is projected on the simplex, and theta to where phi.theta is in [0, 1]: what is known of them for sure. Samples
of the posterior are estimates from perturbed sums with a random prior. D is d times the mean of phi phi^T over the table, and a prior is
what is thought of d pairs (s, a), the anchors: so nothing but the noise depends on the coordinates that features are written in.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from confide.linear_mdps._model_kernels import project_rows, within_unit
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
MOVE_VARIANCE = 0.1  # v: of an indicator of s', a typical one; a reward's is at most 1/4
REWARD_VARIANCE = 0.1
MOVE_PRIOR, REWARD_PRIOR = 3.0, 1.0  # k: as good as so many users who try everything alike
CONCENTRATION = 0.3  # of the random priors, Dirichlet
SAMPLES = 8  # of the posterior per round, besides the estimate
RANDOM_POLICIES = 32  # of the first round
# Policies whose visits are predicted again at each release.
RECENT_POLICIES = 32 * (SAMPLES + 1)
TIES = 1e-7  # differences of value that are none
# The samples' share of the users falls as (t_0 / t)^SHARE_DECAY, to LEAST_SHARE.
LEAST_SHARE = 0.03
SHARE_DECAY = 0.3
LAYOUT = Layout(SERVED)


@dataclass(frozen=True, slots=True, eq=False)
class ModelProblem:
    """All that is public before the first user, besides the features."""

    horizon: int
    states: int
    actions: int
    start: Array
    # of the samples, in standard deviations of the sums
    spread: float
    # users of the first round
    first: int


@dataclass(frozen=True, slots=True, eq=False)
class TransitionModel:
    """An estimate, or a sample: transitions [h, s, a, s'] for the steps but the last, rewards [h, s, a]. Public."""

    transitions: Array
    rewards: Array


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """The features, and what priors are made of. Public.

    `rows` [s a, i] are all features, `different` those that differ, `shape` is D, `anchors` [i, i] turns what is thought of d pairs (s, a)
    into parameters: pairs as far apart as there are, by pivoting on whitened features.
    """

    rows: Array
    different: Array
    shape: Array
    anchors: Array


def table_of(features: Array) -> FeatureTable:
    """From features [s, a, i] that span all d dimensions; where they do not, parameters outside their span are zero."""
    rows = np.ascontiguousarray(features, dtype=float).reshape(-1, features.shape[-1])
    shape = rows.shape[1] * (rows.T @ rows) / len(rows)
    eigenvalues, vectors = np.linalg.eigh(shape)
    kept = eigenvalues > 1e-9 * eigenvalues[-1]
    white = rows @ (vectors[:, kept] / np.sqrt(eigenvalues[kept]))
    _, _, order = scipy.linalg.qr(white.T, mode="economic", pivoting=True)
    return FeatureTable(
        rows,
        np.unique(rows, axis=0),
        shape,
        np.asarray(np.linalg.pinv(rows[order[: kept.sum()]]), dtype=np.float64),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """models[0] is the estimate, the others are samples; states [h, q, s] are the predicted distributions. Public."""

    models: tuple[TransitionModel, ...]
    states: Array
    signal: float


def fit(
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
) -> Fitted:
    """From moves [h, i, s'] and rewards [h, i]."""
    (H, d), S, phi = rewards.shape, len(start), table.rows
    A, n = len(phi) // S, table.anchors.shape[1]
    models = tuple(
        TransitionModel(np.empty((H - 1, S, A, S)), np.empty((H, S, A))) for _ in range(samples + 1)
    )
    states, signals = np.empty((H, len(served.users), S)), np.empty(H)
    at = np.tile(start, (len(served.users), 1))
    for h in range(H):
        states[h] = at
        visits = (
            served.earlier[h] + _visits.visits(served.policies[:, h], served.users, at, A)
        ).ravel()
        Lambda, total = (phi * visits[:, None]).T @ phi, visits @ phi
        signals[h] = np.trace(Lambda) / d
        theta = _Regression(Lambda, REWARD_VARIANCE, reward_noise_std, REWARD_PRIOR * table.shape)
        y = (rewards[h] + total / 2)[:, None]
        priors = table.anchors @ np.concatenate([np.zeros((1, n, 1)), rng.random((samples, n, 1))])
        for model, found in zip(models, theta.solve(y, priors, spread, rng), strict=True):
            possible = within_unit(found[:, 0].copy(), theta.covariance, table.different)
            model.rewards[h] = np.clip(phi @ possible, 0.0, 1.0).reshape(S, A)
        if h == H - 1:
            break
        mu = _Regression(Lambda, MOVE_VARIANCE, noise_std, MOVE_PRIOR * table.shape)
        drawn = rng.dirichlet(np.full(S, CONCENTRATION), size=(samples, n))
        priors = table.anchors @ np.concatenate([np.full((1, n, S), 1 / S), drawn])
        for model, found in zip(models, mu.solve(moves[h], priors, spread, rng), strict=True):
            model.transitions[h] = project_rows(phi @ found).reshape(S, A, S)
        at = _visits.move(served.policies[:, h], at, models[0].transitions[h])
    return Fitted(models, states, float(signals.mean()))


class _Regression:
    """X in y = Lambda X + e, for all columns at once."""

    def __init__(self, Lambda: Array, variance: float, noise_std: float, prior: Array) -> None:
        d = len(Lambda)
        # without noise and users it would be singular
        self._error = variance * Lambda + (noise_std**2 + 1e-6) * np.eye(d)
        weighted = np.linalg.solve(self._error, Lambda).T
        precision = weighted @ Lambda + prior + 1e-9 * np.trace(prior) * np.eye(d)
        self.covariance: Array = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        self._gain, self._prior = self.covariance @ weighted, self.covariance @ prior

    def solve(self, y: Array, priors: Array, spread: float, rng: np.random.Generator) -> Array:
        """One for each prior [p, i, column]; all but the first from sums perturbed by `spread` standard deviations of their error."""
        p, d, columns = priors.shape
        drawn = rng.multivariate_normal(
            np.zeros(d), self._error, size=(p - 1, columns), method="cholesky"
        )
        perturbed = np.concatenate([y[None], y + spread * drawn.swapaxes(1, 2)])
        found: Array = self._gain @ perturbed + self._prior @ priors
        return found


def plan_round(
    released: Released,
    moves: Array,
    rewards: Array,
    *,
    reward_weight: float,
    problem: ModelProblem,
    table: FeatureTable,
) -> PublicRound:
    """Decide the next round from everything released so far: sums of moves [h, i, s'] and of rewards [h, i]."""
    H, S, A = problem.horizon, problem.states, problem.actions
    history = LAYOUT.recall(
        released,
        {"step": H, "planned step": H, "state": S, "action": A},
        {"policy": RECENT_POLICIES, "shown policy": RECENT_POLICIES},
    )
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    if released.generation == 0:
        actions = rng.integers(A, size=(RANDOM_POLICIES, H, S))
        shares, signal = np.ones(RANDOM_POLICIES), None
    else:
        users = users_of_round(history, released)
        history = history.extend("policy", policies=history["shown"], users=users)
        fitted = fit(
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
        history, signal = fold(history, fitted.states, RECENT_POLICIES), fitted.signal
        actions = np.stack([best_actions(model, rng) for model in fitted.models])
        shares = sample_shares(problem.first, released.users)
    history = with_open_round(history, actions, shares, released.users)
    policies = tuple(TabularPolicy(each, A) for each in actions)
    return PublicRound(policies, history.arrays, signal, tuple(map(float, shares)))


def sample_shares(first: int, users: int) -> Array:
    """Of the estimate's policy and of each sample's, after so many users, of whom `first` came in the first round."""
    explored = max(min(1.0, (first / max(users, 1)) ** SHARE_DECAY), LEAST_SHARE)
    return np.array([1 - explored, *[explored / SAMPLES] * SAMPLES])


def best_actions(model: TransitionModel, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """The best policy for a model [h, s]. Where actions are equally good, at random: there, too, users can show something."""
    H = len(model.rewards)
    undecided = model.rewards + TIES * rng.random(model.rewards.shape)

    def expect(step: int, values: Array) -> Array:
        return model.transitions[step] @ values if step < H - 1 else np.zeros(undecided.shape[1:])

    return optimal(expect, undecided)[1].actions
