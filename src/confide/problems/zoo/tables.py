"""Tabular MDPs: riverswim (also with steps that differ), double-chain, garnet, chain, deep-sea.

In all of them P is [s, a, s'] and rewards are [s, a], or with a step h in front.
"""

import numpy as np
import numpy.typing as npt

from confide.arguments import COPIES, check_size, real, whole
from confide.errors import InvalidParameter
from confide.problems.tabular import TabularMDP
from confide.problems.zoo import describe

Array = npt.NDArray[np.float64]


@describe(
    "swim against the current for a large reward, or drift to a small one",
    family="table",
    paper="Strehl08",
)
def riverswim(*, states: int = 6, horizon: int = 20) -> TabularMDP:
    """Swim right against the current for a large reward, or drift left to a small one [Strehl08].

    Action 0 (left) always succeeds. Action 1 (right) gets forward with 0.35, stays with 0.6 and is
    carried back with 0.05. On the left bank it gets forward with 0.6, else stays. On the right bank
    it stays with 0.6, else is carried back.
    """
    S = whole("states", states, at_least=2)
    check_size(states=S, actions=2, successors=S)
    left_bank = 0
    right_bank = S - 1
    P = np.zeros((S, 2, S))
    for s in range(S):
        P[s, 0, max(s - 1, 0)] = 1.0
        if left_bank < s < right_bank:
            P[s, 1, [s - 1, s, s + 1]] = 0.05, 0.6, 0.35
    P[left_bank, 1, [0, 1]] = 0.4, 0.6
    P[right_bank, 1, [S - 2, S - 1]] = 0.4, 0.6
    rewards = np.zeros((S, 2))
    rewards[left_bank, 0] = 0.005
    rewards[right_bank, 1] = 1.0
    return TabularMDP(P, rewards, np.eye(S)[0], horizon=horizon, name="riverswim")


@describe("riverswim with the two actions swapped at random in each step and state", family="table")
def riverswim_stage(*, states: int = 6, horizon: int = 20, seed: int = 0) -> TabularMDP:
    """Riverswim whose two actions are swapped at random in each step and state.

    So every step is learned on its own. The actions of step h in state s are swapped where
    default_rng(seed).integers(2, size=(horizon, states))[h, s] is 1. Rewards depend on the state
    alone (0.005 on the left bank, 1 on the right one). Otherwise they would tell which action is
    which.
    """
    usual = riverswim(states=states, horizon=horizon)
    S = usual.states
    H = usual.horizon
    check_size(copies=COPIES, horizon=H, states=S, actions=2, successors=S)
    is_swapped = np.random.default_rng(whole("seed", seed, at_least=0)).integers(2, size=(H, S))
    P = np.repeat(usual.transitions.dense(), H, axis=0)
    h, s = np.nonzero(is_swapped)
    P[h, s] = P[h, s, ::-1]
    rewards = np.zeros((H, S, 2))
    rewards[:, 0] = 0.005
    rewards[:, S - 1] = 1.0
    return TabularMDP(P, rewards, usual.start, name="riverswim-stage")


@describe("a chain with a large reward at one end and a small one at the other", family="table")
def double_chain(*, states: int = 19, horizon: int = 20) -> TabularMDP:
    """Start in the middle of a chain: the right end pays 1 per step, the left end 0.01.

    Action 0 moves left, action 1 right. With 0.6 a move succeeds, with 0.35 nothing moves, and with
    0.05 it goes the other way.
    """
    S = whole("states", states, at_least=3)
    check_size(states=S, actions=2, successors=S)
    P = np.zeros((S, 2, S))
    for s in range(S):
        left = max(s - 1, 0)
        right = min(s + 1, S - 1)
        for action, (target, opposite) in enumerate(((left, right), (right, left))):
            # At the ends two of the three may be the same state.
            P[s, action, target] += 0.6
            P[s, action, s] += 0.35
            P[s, action, opposite] += 0.05
    rewards = np.zeros((S, 2))
    rewards[0] = 0.01
    rewards[S - 1] = 1.0
    return TabularMDP(P, rewards, np.eye(S)[S // 2], horizon=horizon, name="double-chain")


@describe("a random table with three successors for each state and action", family="table")
def garnet(
    *,
    states: int = 50,
    actions: int = 5,
    branches: int = 3,
    rewarded: int = 5,
    horizon: int = 10,
    seed: int = 0,
) -> TabularMDP:
    """A random table: each state and action has a few successors.

    They are drawn without repetition, and their probabilities are the gaps between sorted uniform
    numbers. The reward is 1 in `rewarded` states, whatever the action, and 0 elsewhere. Starts are
    uniform.
    """
    S = whole("states", states, at_least=1)
    A = whole("actions", actions, at_least=1)
    branches = whole("branches", branches, at_least=1)
    rewarded = whole("rewarded", rewarded, at_least=0)
    if branches > S or rewarded > S:
        raise InvalidParameter(
            f"branches and rewarded must be at most states={S}, "
            f"got branches={branches}, rewarded={rewarded}"
        )
    check_size(states=S, actions=A, successors=S)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    P = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        cuts = np.concatenate([[0.0], np.sort(rng.random(branches - 1)), [1.0]])
        P[s, a, rng.choice(S, branches, replace=False)] = np.diff(cuts)
    rewards = np.zeros((S, A))
    rewards[rng.choice(S, rewarded, replace=False)] = 1.0
    return TabularMDP(P, rewards, np.full(S, 1 / S), horizon=horizon, name="garnet")


@describe(
    "forty states and no choice of actions, for policy evaluation", family="table", paper="Balle16"
)
def chain(*, states: int = 40, stay: float = 0.5, horizon: int = 200) -> TabularMDP:
    """Stages of recovery: stay with the given probability, else advance [Balle16, Section 6].

    There is one action. States 0..N-1 are the chain, and state N is the end. The reward is 1 for
    the step spent in state N-1, which always leads to the end, where every reward is 0. So an
    episode of the paper is what happens before the end is reached, and its return is 1. In the
    default chain 200 steps are enough for all but one episode in 1e18. Starts are uniform on
    0..N-1. Rewards carry no discount, which belongs to the estimator; `chain_values` has the
    discounted values.

    Departures: the paper gives a reward of 1 when the final, absorbing state is reached. It leaves
    open whether that is the step into the state or the step in it, and which initial state
    distribution it uses. Both are as above.
    """
    N = whole("states", states, at_least=2)
    stay = real("stay", stay, at_least=0, below=1)
    check_size(states=N + 1, successors=N + 1)
    P = np.zeros((N + 1, 1, N + 1))
    for s in range(N - 1):
        P[s, 0, [s, s + 1]] = stay, 1 - stay
    P[[N - 1, N], 0, N] = 1.0
    rewards = np.zeros((N + 1, 1))
    rewards[N - 1] = 1.0
    start = np.append(np.full(N, 1 / N), 0.0)
    return TabularMDP(P, rewards, start, horizon=horizon, name="chain")


def chain_values(*, states: int = 40, stay: float = 0.5, discount: float = 0.99) -> Array:
    """The exact discounted values of states 0..N-1 of the chain [s].

    V(N-1) = 1 and V(s) = discount (stay V(s) + (1 - stay) V(s+1)).
    """
    states = whole("states", states, at_least=1)
    discount = real("discount", discount, at_least=0, at_most=1)
    stay = real("stay", stay, at_least=0, below=1)
    check_size(states=states)
    ratio = discount * (1 - stay) / (1 - discount * stay)
    values: Array = ratio ** np.arange(states - 1.0, -1.0, -1.0)
    return values


@describe("only one sequence of ten actions reaches the reward", family="table", paper="Osband20")
def deep_sea(size: int = 10, seed: int = 0) -> TabularMDP:
    """A combination lock of `size` digits [Osband20].

    Only the sequence that moves right at every step reaches the reward. At step h in column s one
    of the two actions, default_rng(seed).integers(2, size=(size, size))[h, s], moves right, the
    other left. The reward is 1 in the last column at the last step, and 0.01 / size per step in
    column 0, where those end up who do not explore. Episodes start in column 0.

    Departures: the original pays 0.01 / size for moving left by charging it for moving right. This
    would tell an agent that knows the rewards which action is which. Here rewards depend on the
    column alone and are never negative.
    """
    N = whole("size", size, at_least=2)
    whole("seed", seed, at_least=0)
    check_size(horizon=N, size=N, actions=2, successors=N)
    # The action that moves right [h, s].
    right_action = np.random.default_rng(seed).integers(2, size=(N, N))
    P = np.zeros((N, N, 2, N))
    for h, s in np.ndindex(N, N):
        P[h, s, right_action[h, s], min(s + 1, N - 1)] = 1.0
        P[h, s, 1 - right_action[h, s], max(s - 1, 0)] = 1.0
    rewards = np.zeros((N, N, 2))
    rewards[:, 0] = 0.01 / N
    rewards[N - 1, N - 1] = 1.0
    return TabularMDP(P, rewards, np.eye(N)[0], name="deep-sea")
