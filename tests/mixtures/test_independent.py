"""The printed algorithms, written again from the papers in plain NumPy: the same policies, episode
by episode, without noise.

The implementations below share nothing with the library but the features and the users'
transitions. An action of the library's policy must be best for their Q up to rounding, in every
state, and its softmax policies must be theirs.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from feature_mixtures import signed_mixture

from confide.mechanisms.sources import noise_source
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
from confide.privacy import NoPrivacy
from confide.problems import (
    FeatureMixtureMDP,
    SuccessorFeatures,
    TabularMDP,
    lock_rewards,
    rand,
)

EPISODES = 40
# Contributions are rounded to 2^-24 of the largest one.
ROUNDING = 1e-4


@dataclass
class World:
    """psi [s, a, s', i], in the scale of the paper, and what else its algorithm knows."""

    psi: np.ndarray
    rewards: np.ndarray | None
    varphi: np.ndarray | None
    H: int
    C_w: float

    @property
    def d(self):
        return self.psi.shape[3]


def dense(problem, unit):
    """Of a mixture of kernels or of features, divided by `unit`."""
    public = problem.public
    if hasattr(public, "kernels"):
        psi = np.moveaxis(public.kernels, 0, -1).copy()
    else:
        successor_features = public.features
        psi = np.zeros(
            (
                successor_features.states,
                successor_features.actions,
                successor_features.states,
                successor_features.dimension,
            )
        )
        for row in range(successor_features.states * successor_features.actions):
            for entry in range(successor_features.indptr[row], successor_features.indptr[row + 1]):
                s, a = divmod(row, successor_features.actions)
                psi[s, a, successor_features.successors[entry]] = successor_features.features[entry]
    return World(
        psi / unit,
        public.rewards,
        public.reward_features,
        public.horizon,
        public.weight_bound * unit,
    )


def norm(x, Lambda):
    """||x||_{Lambda^-1} for x [s, a, i]."""
    return np.sqrt(np.einsum("sai,ij,saj->sa", x, np.linalg.inv(Lambda), x))


@dataclass
class Algorithm1:
    """[Luyo21, Alg. 1] with B = 0, g = 0: UCRL-VTR. `scale` multiplies beta."""

    world: World
    K: int
    p: float
    scale: float
    Lambda: list = field(init=False)
    u: list = field(init=False)

    def __post_init__(self):
        w = self.world
        self.Lambda = [w.H**2 * np.eye(w.d) for _ in range(w.H)]
        self.u = [np.zeros(w.d) for _ in range(w.H)]

    def plan(self):
        w = self.world
        K = self.K
        H = self.world.H
        d = self.world.d
        beta = 3 * (w.C_w + 1) * math.sqrt(H**2)
        beta += math.sqrt(2 * H**2 * math.log(3 * H * (1 + K * H) ** (d / 2) / self.p))
        self.V = np.zeros((H + 1, len(w.psi)))
        self.Q = np.zeros((H, *w.psi.shape[:2]))
        for h in reversed(range(H)):
            phi = np.einsum("sati,t->sai", w.psi, self.V[h + 1])
            theta = np.linalg.solve(self.Lambda[h], self.u[h])
            bonus = self.scale * beta * norm(phi, self.Lambda[h])
            # clipped at 0 from below, too: a departure that the library states
            self.Q[h] = np.clip(w.rewards[h] + phi @ theta + bonus, 0, H)
            self.V[h] = self.Q[h].max(axis=1)

    def update(self, states, actions):
        for h in range(self.world.H):
            X = self.world.psi[states[h], actions[h]].T @ self.V[h + 1]
            self.Lambda[h] = self.Lambda[h] + np.outer(X, X)
            self.u[h] = self.u[h] + X * self.V[h + 1, states[h + 1]]


@dataclass
class Algorithm3:
    """[Luyo21, Alg. 3] without noise: UCRL-VTR+. `scale` multiplies beta hat."""

    world: World
    K: int
    p: float
    scale: float

    def __post_init__(self):
        w = self.world
        self.k = 1
        self.hat = [np.eye(w.d) for _ in range(w.H)]
        self.u_hat = [np.zeros(w.d) for _ in range(w.H)]
        self.tilde = [np.eye(w.d) for _ in range(w.H)]
        self.u_tilde = [np.zeros(w.d) for _ in range(w.H)]

    def widths(self):
        w = self.world
        K = self.K
        H = self.world.H
        d = self.world.d
        noise = 3 * (w.C_w + 1)
        union = math.log(24 * self.k**2 * H / self.p)
        check = noise + 8 * d * math.sqrt(math.log(1 + K) * union) + 4 * math.sqrt(d) * union
        hat = noise + 8 * math.sqrt(d * math.log(1 + K) * union) + 4 * math.sqrt(d) * union
        tilde = noise + 8 * math.sqrt(d * H**4 * math.log(1 + K * H**4 / d) * union)
        return check, hat, tilde + 4 * H**2 * union

    def plan(self):
        w = self.world
        H = self.world.H
        _, hat, _ = self.widths()
        self.V = np.zeros((H + 1, len(w.psi)))
        self.Q = np.zeros((H, *w.psi.shape[:2]))
        for h in reversed(range(H)):
            phi = np.einsum("sati,t->sai", w.psi, self.V[h + 1])
            theta = np.linalg.solve(self.hat[h], self.u_hat[h])
            bonus = self.scale * hat * norm(phi, self.hat[h])
            self.Q[h] = np.clip(w.rewards[h] + phi @ theta + bonus, 0, H)
            self.V[h] = self.Q[h].max(axis=1)

    def update(self, states, actions):
        w = self.world
        H = self.world.H
        d = self.world.d
        check, _, tilde = self.widths()
        for h in range(H - 1):
            psi = w.psi[states[h], actions[h]].T
            V = self.V[h + 1]
            x = psi @ V
            x2 = psi @ V**2
            mean = np.clip(x @ np.linalg.solve(self.hat[h], self.u_hat[h]), 0, H)
            square = np.clip(x2 @ np.linalg.solve(self.tilde[h], self.u_tilde[h]), 0, H**2)
            E = min(H**2, 2 * H * check * math.sqrt(x @ np.linalg.solve(self.hat[h], x)))
            E += min(H**2, tilde * math.sqrt(x2 @ np.linalg.solve(self.tilde[h], x2)))
            sbar2 = max(H**2 / d, square - mean**2 + E)
            y = V[states[h + 1]]
            self.hat[h] = self.hat[h] + np.outer(x, x) / sbar2
            self.u_hat[h] = self.u_hat[h] + x * y / sbar2
            self.tilde[h] = self.tilde[h] + np.outer(x2, x2)
            self.u_tilde[h] = self.u_tilde[h] + x2 * y**2
        self.k += 1


@dataclass
class LinOpt:
    """[Zhou22, Alg. 1 and Alg. 2] with Z = I and z = 0.

    `scale` multiplies both beta. With `eta` policies are improved (Alg. 2).
    """

    world: World
    K: int
    alpha: float
    scale: float
    eta: float | None = None
    # The bound on ||phi_V||.
    longest: float = 0.0

    def __post_init__(self):
        w = self.world
        self.Lambda_p = [np.eye(w.d) for _ in range(w.H)]
        self.u_p = [np.zeros(w.d) for _ in range(w.H)]
        if w.varphi is not None:
            d2 = w.varphi.shape[2]
            self.Lambda_r = [np.eye(d2) for _ in range(w.H)]
            self.u_r = [np.zeros(d2) for _ in range(w.H)]
        actions = w.psi.shape[1]
        self.pi = np.full((w.H, len(w.psi), actions), 1 / actions)

    def beta(self, d, L, span):
        """Lemma 3.1 with lambda_min = lambda_max = 1 and nu = 0."""
        inside = 2 * math.log(self.world.H / self.alpha) + d * math.log(1 + self.K * L**2 / d)
        return self.scale * (span / 2 * math.sqrt(inside) + math.sqrt(d))

    def plan(self):
        w = self.world
        H = self.world.H
        d = self.world.d
        beta_p = self.beta(d, self.longest, H)
        self.V = np.zeros((H + 1, len(w.psi)))
        self.Q = np.zeros((H, *w.psi.shape[:2]))
        for h in reversed(range(H)):
            phi = np.einsum("sati,t->sai", w.psi, self.V[h + 1])
            total = phi @ np.linalg.solve(self.Lambda_p[h], self.u_p[h])
            total = total + beta_p * norm(phi, self.Lambda_p[h])
            if w.varphi is None:
                total = total + w.rewards[h]
            else:
                d2 = w.varphi.shape[2]
                total = total + w.varphi @ np.linalg.solve(self.Lambda_r[h], self.u_r[h])
                total = total + self.beta(d2, 1.0, 1.0) * norm(w.varphi, self.Lambda_r[h])
            self.Q[h] = np.clip(total, 0, H - h)
            self.V[h] = (
                self.Q[h].max(axis=1) if self.eta is None else (self.Q[h] * self.pi[h]).sum(axis=1)
            )

    def update(self, states, actions, rewards):
        w = self.world
        for h in range(w.H):
            X = w.psi[states[h], actions[h]].T @ self.V[h + 1]
            self.Lambda_p[h] = self.Lambda_p[h] + np.outer(X, X)
            self.u_p[h] = self.u_p[h] + X * self.V[h + 1, states[h + 1]]
            if w.varphi is not None:
                x = w.varphi[states[h], actions[h]]
                self.Lambda_r[h] = self.Lambda_r[h] + np.outer(x, x)
                self.u_r[h] = self.u_r[h] + x * rewards[h]
        if self.eta is not None:
            weights = self.pi * np.exp(self.eta * self.Q)
            self.pi = weights / weights.sum(axis=2, keepdims=True)


def by_function():
    """A walk on a line whose features a function returns."""

    def features(s, a):
        after = sorted({max(s - 1, 0), s, min(s + 1, 6)})
        signs = np.array([t - s for t in after], dtype=float) * (1 if a else -1)
        base = np.full(len(after), 1 / len(after))
        move = signs - signs.mean()
        return after, np.column_stack([base, 0.3 * move, np.zeros(len(after))])

    features_of_function = SuccessorFeatures.from_function(
        features, states=7, actions=2, dimension=3
    )
    rewards = np.linspace(0, 1, 7)[:, None] * np.array([1.0, 0.9])
    weights = np.tile([1.0, 0.8, 0.0], (4, 1))
    return FeatureMixtureMDP(features_of_function, weights, rewards, np.eye(7)[3], weight_bound=1.4)


def table():
    rng = np.random.default_rng(0)
    tabular = TabularMDP(
        rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), np.eye(3)[0], horizon=3
    )
    return FeatureMixtureMDP.from_table(tabular)


PROBLEMS = {
    "kernels": rand(0, states=6, actions=3, dimension=3, horizon=4),
    "signed, C_w above sqrt(d)": signed_mixture(length=0.25),
    "table": table(),
    "function": by_function(),
}
SHORT = {
    **{name: PROBLEMS[name] for name in ("kernels", "table")},
    "signed": signed_mixture(length=1.0),
    "rewards": lock_rewards(0, states=5, actions=2, horizon=3, jump=2),
}


def compare(agent, ours, problem, episodes):
    """Play, plan and compare policies and values; returned is by how much a value changed over the
    episodes.
    """
    values = []
    for k in range(episodes):
        ours.plan()
        policy = agent.next_batch().policy
        statistic = agent.current_round().statistic
        later = getattr(statistic, "first", statistic)._next_values
        np.testing.assert_allclose(later, ours.V[1 : len(later) + 1], atol=ROUNDING)
        if getattr(ours, "eta", None) is None:
            of_policy = np.take_along_axis(ours.Q, policy.actions[..., None], axis=2)[..., 0]
            np.testing.assert_allclose(of_policy, ours.Q.max(axis=2), atol=ROUNDING)
        else:
            np.testing.assert_allclose(policy.weights, ours.pi, atol=ROUNDING)
        values.append(later)
        user = problem.sample(policy, 1, np.random.default_rng(k))
        agent.observe(user)
        rewards = (user.rewards[0],) if isinstance(ours, LinOpt) else ()
        ours.update(user.states[0], user.actions[0], *rewards)
    return float(np.ptp(np.stack(values), axis=0).max())


def make_problem(agent, problem, scale, **more):
    return agent(
        problem.public,
        episodes=EPISODES,
        privacy=NoPrivacy(),
        calibration="paper",
        bonus_scale=scale,
        noise=noise_source("fast", 0),
        **more,
    )


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_algorithm_1(name, scale):
    problem = PROBLEMS[name]
    ours = Algorithm1(dense(problem, problem.public.value_bound), EPISODES, 0.1, scale)
    changed = compare(make_problem(UCRLVTR, problem, scale), ours, problem, EPISODES)
    # with the printed width everything is worth H in the first episodes
    assert changed > 0.05 or scale == 1.0


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_algorithm_3(name, scale):
    problem = PROBLEMS[name]
    ours = Algorithm3(dense(problem, problem.public.value_bound), EPISODES, 0.1, scale)
    changed = compare(make_problem(UCRLVTRPlus, problem, scale), ours, problem, EPISODES)
    # with the printed width everything is worth H in the first episodes
    assert changed > 0.05 or scale == 1.0


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("scale", [1.0, 0.02])
@pytest.mark.parametrize("row_bound", ["sqrt(d)H", "H"])
@pytest.mark.parametrize("agent", [LinOptVI, LinOptPO])
def test_linopt(agent, row_bound, name, scale):
    """The last two users share a release, so the last episode is not compared."""
    problem = SHORT[name]
    narrow = row_bound == "H"
    world = dense(problem, problem.public.value_bound if narrow else 1.0)
    longest = world.H * (1.0 if narrow else math.sqrt(world.d))
    actions = world.psi.shape[1]
    eta = math.sqrt(2 * math.log(actions) / (world.H * EPISODES * world.H))
    ours = LinOpt(world, EPISODES, 0.1, scale, eta if agent is LinOptPO else None, longest)
    one = make_problem(agent, problem, scale, row_bound=row_bound)
    changed = compare(one, ours, problem, EPISODES - 1)
    # with the printed width everything is worth H in the first episodes
    assert changed > 0.05 or scale == 1.0
