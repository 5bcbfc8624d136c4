"""The constants of [Zhou22] as numbers.

They are the exact loss of its noise, and its regret bounds with the proofs' constants.
"""

import math

from confide.mechanisms.counters import Tree
from confide.mixtures.contributions import StackedRows
from confide.mixtures.printed import PaperConstants, paper_constants
from confide.mixtures.value_features import ROW_BOUNDS, value_steps
from confide.planners.regularity import Regularity
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.loss import GaussianDP
from confide.privacy.request import JointDP, LocalDP, Relation, Request

FAILURE = 0.1
K = 100_000
H = 5
D1 = 5
D2 = 3


def constants(
    privacy: Request,
    episodes: float = K,
    horizon: int = H,
    d1: int = D1,
    d2: int = D2,
    row_bound: str = ROW_BOUNDS[0],
) -> PaperConstants:
    return paper_constants(
        privacy,
        episodes=int(episodes),
        horizon=horizon,
        dimension=d1,
        reward_dimension=d2,
        failure=FAILURE,
        row_bound=row_bound,
    )


def true_loss(
    privacy: Request, episodes: int = K, horizon: int = H, d1: int = D1, d2: int = D2
) -> GaussianDP:
    """The loss of all four kinds of counters over all steps, for a user who is replaced.

    Units are such that every noise is sigma_r. Mirrored noise has sqrt(2) times more than isotropic
    noise off the diagonal. The worst pair of users has orthogonal features along the axes, and
    differs on the diagonal only. So the loss is the same.
    """
    rows = StackedRows(value_steps(horizon), d1, math.sqrt(d1), horizon, d2, 1.0, plain=True)
    # Episode k reads k - 1 users.
    seen = 1.0 if isinstance(privacy, LocalDP) else Tree(episodes - 1).column_norm(2)
    return GaussianDP(
        rows.sensitivity(Relation.REPLACE)
        * seen
        / constants(privacy, episodes, horizon, d1, d2).sigma_r
    )


def true_epsilon(privacy: Request, horizon: int = H) -> float:
    return gaussian_epsilon(true_loss(privacy, horizon=horizon).mu, privacy.delta)


def first_failure(delta: float, horizon: int) -> float:
    """The nominal epsilon from which the paper's noise gives more."""
    low = 1.0
    high = 2.0

    def fails(epsilon: float) -> bool:
        return true_epsilon(JointDP(epsilon, delta), horizon) > epsilon

    while not fails(high):
        low = high
        high = 1.5 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def terms(
    beta_p: float,
    beta_r: float,
    p: Regularity,
    r: Regularity,
    episodes: float,
    horizon: int,
    d1: int,
    d2: int,
    row_bound: str = ROW_BOUNDS[0],
) -> tuple[float, float]:
    """T_1 and T_2 of the proof of Thm. 4.1.

    Lemma 11 of Abbasi-Yadkori et al. has L^2 / d in the logarithm, with L = sqrt(d1) H or H.
    """
    root = math.sqrt(episodes * horizon)
    squared = horizon**2 / (d1 if row_bound == "H" else 1)
    one = (
        2
        * beta_p
        * root
        * math.sqrt(2 * horizon * d1 * math.log1p(episodes * squared / p.lambda_min))
    )
    two = (
        2
        * horizon
        * beta_r
        * root
        * math.sqrt(2 * horizon * d2 * math.log1p(episodes / (d2 * r.lambda_min)))
    )
    return one, two


def value_bound(
    privacy: Request,
    episodes: float,
    horizon: int = H,
    d: int = D1,
    *,
    d2: int | None = None,
    row_bound: str = ROW_BOUNDS[0],
) -> float:
    """[Zhou22, Sec. 7.1]: T_1 + T_2 + T_3 with the constants of Thm. 6.5 or Remark 6.6.

    d1 = d2 = d unless d2 is given.
    """
    other = d if d2 is None else d2
    numbers = constants(privacy, episodes, horizon, d, other, row_bound)
    one, two = terms(
        numbers.beta_p,
        numbers.beta_r,
        numbers.transitions,
        numbers.rewards,
        episodes,
        horizon,
        d,
        other,
        row_bound,
    )
    return one + two + horizon * math.sqrt(2 * episodes * horizon * math.log(1 / FAILURE))


def policy_bound(
    privacy: Request, episodes: float, horizon: int = H, d: int = D1, actions: int = 4
) -> float:
    """[Zhou22, Sec. 8]: the same, and what mirror descent and the larger martingale add.

    T_3 of Sec. 7.1 is counted, too. Sec. 8 does not have it. It is a quarter of the larger
    martingale.
    """
    T = episodes * horizon
    more = math.sqrt(2 * horizon**3 * T * math.log(actions)) + 4 * horizon * math.sqrt(
        2 * T * math.log(1 / FAILURE)
    )
    return value_bound(privacy, episodes, horizon, d) + more


def tabular_bound(
    privacy: Request,
    episodes: float,
    states: int,
    actions: int,
    horizon: int = H,
    row_bound: str = ROW_BOUNDS[0],
) -> float:
    """The same for a tabular MDP.

    It has d1 = S^2 A features of transitions and d2 = S A of rewards, as in
    `FeatureMixtureMDP.from_table`.
    """
    pairs = states * actions
    return value_bound(privacy, episodes, horizon, states * pairs, d2=pairs, row_bound=row_bound)


def quoted_bound(
    epsilon: float, episodes: float, states: int, actions: int, horizon: int = H
) -> float:
    """sqrt(S A H^3 T) + S^2 A H^3 / epsilon, without constants and logarithms.

    Remark 6.8 quotes it of Vietri et al.
    """
    S = states
    A = actions
    T = episodes * horizon
    return math.sqrt(S * A * horizon**3 * T) + S**2 * A * horizon**3 / epsilon
