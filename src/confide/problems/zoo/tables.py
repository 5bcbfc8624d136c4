"""Problems given by a table: riverswim, chain and deep-sea."""

import numpy as np
import numpy.typing as npt

from confide.arguments import fits, real, whole
from confide.problems.tabular import TabularMDP

Array = npt.NDArray[np.float64]


def riverswim(*, states: int = 6, horizon: int = 20) -> TabularMDP:
    """Swim right against the current for a large reward, or drift left to a small one [Strehl08].

    Action 0 (left) always succeeds. Action 1 (right) gets forward with .35, stays with .6, is carried back with .05; on the left bank it
    gets forward with .6, else stays; on the right bank it stays with .6, else is carried back.
    """
    S = whole("states", states, at_least=2)
    fits(states=S, actions=2, successors=S)
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        P[s, 0, max(s - 1, 0)] = 1.0
        if 0 < s < S - 1:
            P[s, 1, [s - 1, s, s + 1]] = 0.05, 0.6, 0.35
    P[0, 1, [0, 1]] = 0.4, 0.6
    P[S - 1, 1, [S - 2, S - 1]] = 0.4, 0.6
    r[0, 0], r[S - 1, 1] = 0.005, 1.0
    return TabularMDP(P, r, np.eye(S)[0], horizon=horizon, name="riverswim")


def chain(*, states: int = 40, stay: float = 0.5, horizon: int = 200) -> TabularMDP:
    """Stages of recovery: stay with the given probability, else advance; there is one action [Balle16, Section 6].

    States 0..N-1 are the chain, and state N is the end. The reward is 1 for the step spent in state N-1, which always leads to the end,
    where every reward is 0. So an episode of the paper is what happens before the end is reached, its return is 1, and 200 steps are enough
    for all but one episode in 1e18 of the default chain. Starts are uniform on 0..N-1. Rewards carry no discount: it belongs to the
    estimator, and `chain_values` has the discounted values.

    Departures: the paper leaves open when the reward is paid and where episodes start; both are as above.
    """
    N, stay = whole("states", states, at_least=2), real("stay", stay, at_least=0, below=1)
    fits(states=N + 1, successors=N + 1)
    P, r = np.zeros((N + 1, 1, N + 1)), np.zeros((N + 1, 1))
    for s in range(N - 1):
        P[s, 0, [s, s + 1]] = stay, 1 - stay
    P[[N - 1, N], 0, N] = 1.0
    r[N - 1] = 1.0
    start = np.append(np.full(N, 1 / N), 0.0)
    return TabularMDP(P, r, start, horizon=horizon, name="chain")


def chain_values(*, states: int = 40, stay: float = 0.5, discount: float = 0.99) -> Array:
    """The exact discounted values of states 0..N-1 of the chain: V(N-1) = 1 and V(s) = discount (stay V(s) + (1 - stay) V(s+1))."""
    states, discount = whole("states", states, at_least=1), real("discount", discount, at_least=0, at_most=1)
    stay = real("stay", stay, at_least=0, below=1)
    fits(states=states)
    ratio = discount * (1 - stay) / (1 - discount * stay)
    values: Array = ratio ** np.arange(states - 1.0, -1.0, -1.0)
    return values


def deep_sea(size: int = 10, seed: int = 0) -> TabularMDP:
    """A combination lock `size` digits long: only the sequence that moves right at every step reaches the reward [Osband20].

    At step h in column s one of the two actions, default_rng(seed).integers(2, size=(size, size))[h, s], moves right, the other left.
    Reward 1 in the last column at the last step; .01 / size per step in column 0, where those end up who do not explore. Start in column 0.

    Departures: the original pays .01 / size for moving left by charging it for moving right, which would tell who knows the rewards which
    action is which; here rewards depend on the column alone and are never negative.
    """
    N = whole("size", size, at_least=2)
    whole("seed", seed, at_least=0)
    fits(horizon=N, size=N, actions=2, successors=N)
    right = np.random.default_rng(seed).integers(2, size=(N, N))
    P, r = np.zeros((N, N, 2, N)), np.zeros((N, N, 2))
    for h in range(N):
        for s in range(N):
            P[h, s, right[h, s], min(s + 1, N - 1)] = 1.0
            P[h, s, 1 - right[h, s], max(s - 1, 0)] = 1.0
    r[:, 0], r[N - 1, N - 1] = 0.01 / N, 1.0
    return TabularMDP(P, r, np.eye(N)[0], name="deep-sea")
