"""Problems given by a table: riverswim (also with steps that differ), double-chain, garnet, chain and deep-sea."""

import numpy as np
import numpy.typing as npt

from confide.arguments import COPIES, check_size, real, whole
from confide.errors import InvalidParameter
from confide.problems.tabular import TabularMDP
from confide.problems.zoo import named

Array = npt.NDArray[np.float64]


@named(
    "swim against the current for a large reward, or drift to a small one",
    family="table",
    paper="Strehl08",
)
def riverswim(*, states: int = 6, horizon: int = 20) -> TabularMDP:
    """Swim right against the current for a large reward, or drift left to a small one [Strehl08].

    Action 0 (left) always succeeds. Action 1 (right) gets forward with .35, stays with .6, is carried back with .05; on the left bank it
    gets forward with .6, else stays; on the right bank it stays with .6, else is carried back.
    """
    S = whole("states", states, at_least=2)
    check_size(states=S, actions=2, successors=S)
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        P[s, 0, max(s - 1, 0)] = 1.0
        if 0 < s < S - 1:
            P[s, 1, [s - 1, s, s + 1]] = 0.05, 0.6, 0.35
    P[0, 1, [0, 1]] = 0.4, 0.6
    P[S - 1, 1, [S - 2, S - 1]] = 0.4, 0.6
    r[0, 0], r[S - 1, 1] = 0.005, 1.0
    return TabularMDP(P, r, np.eye(S)[0], horizon=horizon, name="riverswim")


@named("riverswim with the two actions swapped at random in each step and state", family="table")
def riverswim_stage(*, states: int = 6, horizon: int = 20, seed: int = 0) -> TabularMDP:
    """Riverswim whose two actions are swapped at random in each step and state, so that every step is learned on its own.

    The actions of step h in state s are swapped where default_rng(seed).integers(2, size=(horizon, states))[h, s] is 1. Rewards depend on
    the state alone (.005 on the left bank, 1 on the right one): otherwise they would tell which action is which.
    """
    usual = riverswim(states=states, horizon=horizon)
    S, H = usual.states, usual.horizon
    check_size(copies=COPIES, horizon=H, states=S, actions=2, successors=S)
    swapped = np.random.default_rng(whole("seed", seed, at_least=0)).integers(2, size=(H, S))
    P = np.repeat(usual.transitions.dense(), H, axis=0)
    h, s = np.nonzero(swapped)
    P[h, s] = P[h, s, ::-1]
    r = np.zeros((H, S, 2))
    r[:, 0], r[:, S - 1] = 0.005, 1.0
    return TabularMDP(P, r, usual.start, name="riverswim-stage")


@named("a chain with a large reward at one end and a small one at the other", family="table")
def double_chain(*, states: int = 19, horizon: int = 20) -> TabularMDP:
    """Start in the middle of a chain: the right end pays 1 per step, the left end .01.

    Action 0 moves left, action 1 right: with .6 it succeeds, with .35 nothing moves, with .05 it goes the other way.
    """
    S = whole("states", states, at_least=3)
    check_size(states=S, actions=2, successors=S)
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        left, right = max(s - 1, 0), min(s + 1, S - 1)
        for a, (there, back) in enumerate(((left, right), (right, left))):
            for after, chance in ((there, 0.6), (s, 0.35), (back, 0.05)):
                P[s, a, after] += chance
    r[0], r[S - 1] = 0.01, 1.0
    return TabularMDP(P, r, np.eye(S)[S // 2], horizon=horizon, name="double-chain")


@named("a random table with three successors for each state and action", family="table")
def garnet(
    *,
    states: int = 50,
    actions: int = 5,
    branches: int = 3,
    rewarded: int = 5,
    horizon: int = 10,
    seed: int = 0,
) -> TabularMDP:
    """A random table: each state and action has a few successors, drawn without repetition, with probabilities that are even gaps.

    The reward is 1 in `rewarded` states, whatever the action, and 0 elsewhere; starts are uniform.
    """
    S, A, b = (
        whole("states", states, at_least=1),
        whole("actions", actions, at_least=1),
        whole("branches", branches, at_least=1),
    )
    n = whole("rewarded", rewarded, at_least=0)
    if b > S or n > S:
        raise InvalidParameter(
            f"branches and rewarded must be at most states={S}, got branches={b}, rewarded={n}"
        )
    check_size(states=S, actions=A, successors=S)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    P, r = np.zeros((S, A, S)), np.zeros((S, A))
    for s, a in np.ndindex(S, A):
        cuts = np.concatenate([[0.0], np.sort(rng.random(b - 1)), [1.0]])
        P[s, a, rng.choice(S, b, replace=False)] = np.diff(cuts)
    r[rng.choice(S, n, replace=False)] = 1.0
    return TabularMDP(P, r, np.full(S, 1 / S), horizon=horizon, name="garnet")


@named(
    "forty states and no choice of actions, for policy evaluation", family="table", paper="Balle16"
)
def chain(*, states: int = 40, stay: float = 0.5, horizon: int = 200) -> TabularMDP:
    """Stages of recovery: stay with the given probability, else advance; there is one action [Balle16, Section 6].

    States 0..N-1 are the chain, and state N is the end. The reward is 1 for the step spent in state N-1, which always leads to the end,
    where every reward is 0. So an episode of the paper is what happens before the end is reached, its return is 1, and 200 steps are enough
    for all but one episode in 1e18 of the default chain. Starts are uniform on 0..N-1. Rewards carry no discount: it belongs to the
    estimator, and `chain_values` has the discounted values.

    Departures: the paper gives a reward of 1 when the final, absorbing state is reached. It leaves open whether that is the step into the
    state or the step in it, and which initial state distribution it uses; both are as above.
    """
    N, stay = whole("states", states, at_least=2), real("stay", stay, at_least=0, below=1)
    check_size(states=N + 1, successors=N + 1)
    P, r = np.zeros((N + 1, 1, N + 1)), np.zeros((N + 1, 1))
    for s in range(N - 1):
        P[s, 0, [s, s + 1]] = stay, 1 - stay
    P[[N - 1, N], 0, N] = 1.0
    r[N - 1] = 1.0
    start = np.append(np.full(N, 1 / N), 0.0)
    return TabularMDP(P, r, start, horizon=horizon, name="chain")


def chain_values(*, states: int = 40, stay: float = 0.5, discount: float = 0.99) -> Array:
    """The exact discounted values of states 0..N-1 of the chain: V(N-1) = 1 and V(s) = discount (stay V(s) + (1 - stay) V(s+1))."""
    states, discount = (
        whole("states", states, at_least=1),
        real("discount", discount, at_least=0, at_most=1),
    )
    stay = real("stay", stay, at_least=0, below=1)
    check_size(states=states)
    ratio = discount * (1 - stay) / (1 - discount * stay)
    values: Array = ratio ** np.arange(states - 1.0, -1.0, -1.0)
    return values


@named("only one sequence of ten actions reaches the reward", family="table", paper="Osband20")
def deep_sea(size: int = 10, seed: int = 0) -> TabularMDP:
    """A combination lock `size` digits long: only the sequence that moves right at every step reaches the reward [Osband20].

    At step h in column s one of the two actions, default_rng(seed).integers(2, size=(size, size))[h, s], moves right, the other left.
    Reward 1 in the last column at the last step; .01 / size per step in column 0, where those end up who do not explore. Start in column 0.

    Departures: the original pays .01 / size for moving left by charging it for moving right, which would tell who knows the rewards which
    action is which; here rewards depend on the column alone and are never negative.
    """
    N = whole("size", size, at_least=2)
    whole("seed", seed, at_least=0)
    check_size(horizon=N, size=N, actions=2, successors=N)
    right = np.random.default_rng(seed).integers(2, size=(N, N))
    P, r = np.zeros((N, N, 2, N)), np.zeros((N, N, 2))
    for h in range(N):
        for s in range(N):
            P[h, s, right[h, s], min(s + 1, N - 1)] = 1.0
            P[h, s, 1 - right[h, s], max(s - 1, 0)] = 1.0
    r[:, 0], r[N - 1, N - 1] = 0.01 / N, 1.0
    return TabularMDP(P, r, np.eye(N)[0], name="deep-sea")
