"""The constants printed in [Luyo21, App. E] for linear MDPs, and their exact privacy loss.

Nothing in this file may be tuned: a constant is the paper's, or what its proof needs. Golden values
are in the tests, and `papers/luyo21` compares them with the claims. Privacy does not rest on the
formulas: the guarantee states the exact loss of the noise (`PrintedLinear.losses`).

Letters are the paper's: K episodes, horizon H, d features, failure probability p, B batches, and
B_0 levels of a tree over them. Features have norm at most 1 and values are in [0, H]. The copy of
E.1 that was read has no c_K, C, U_K and chi. c_K = d Upsilon is the least that the proof of Lemma
25 allows. C, the norm of the noise on u, is in the proof of Lemma 21, by Claim 27. U_K is in Lemma
19, and chi in Lemma 20.

Under pure privacy (E.3) the paper prints orders of growth, so the constants are ours
(`OWN_CONSTANTS`). They follow its steps: Laplace noise of scale sensitivity / epsilon_0 with the L1
sensitivity of each statistic (F.2 prints a minimum, and needs a maximum), and epsilon_0 by simple
composition over two kinds of statistics, H steps and B releases:

    sigma_Lambda = 2 B D_1 / epsilon, D_1 the L1 sensitivity of phi phi^T over the H steps of a user
    sigma_u = 2 B H sqrt(d) 2 (H + 1) / epsilon, as ||phi t - phi' t'||_1 <= sqrt(d) 2 (H + 1)

A user is in at most B nodes of a tree over B batches, and in the responses of at most B changes of
policy, so both together are epsilon-DP at most. The paper's orders have no factor for the L1 norm,
as if the L1 sensitivity of phi phi^T were 2. The true one is of order d, so both scales are larger
than the orders by powers of d. The denominator of B is damaged in the copy that was read;
(K epsilon)^(1/3) / (d^(2/3) H^(1/3)) is what its regret bound follows from.
"""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Exact, Tree
from confide.privacy.loss import NO_PRIVACY, GaussianDP, Loss, PureDP
from confide.privacy.request import NoPrivacy, Relation, Request
from confide.statistics.bounds import RegressionRows

OWN_CONSTANTS = (
    "for delta = 0 the paper prints orders of growth only, so the constants of noise, shift and "
    "width are confide's"
)
# A number that is off a whole one by less than this share of it is taken for the whole one.
ROUNDING = 1e-9
# The largest K that `useful_from` tries.
MOST_EPISODES = 2**400


@dataclass(frozen=True, slots=True)
class LinearSetting:
    """K, H, d and p of Thm. 8, and B if it is not the printed one."""

    episodes: int
    horizon: int
    dimension: int
    failure: float = 0.1
    batches: int | None = None


@dataclass(frozen=True, slots=True)
class PrintedLinear:
    """[Luyo21, E.1 and E.3].

    | letter | field |
    |---|---|
    | B, B_0 | batches, levels |
    | sigma_Lambda, of each node of a tree over the batches | sigma_gram |
    | sigma_u, of each response vector | sigma_response |
    | Upsilon, c_K | upsilon, shift |
    | C, U_K | response_norm, weight_norm |
    | chi, beta | chi, beta |
    | lambda | ridge |
    """

    batches: int
    levels: int
    sigma_gram: float
    sigma_response: float
    upsilon: float
    shift: float
    response_norm: float
    weight_norm: float
    chi: float
    beta: float
    ridge: float

    @property
    def regularizer(self) -> float:
        """What is added to the diagonal: lambda + c_K + Upsilon."""
        return self.ridge + self.shift + self.upsilon

    def losses(
        self,
        privacy: Request,
        horizon: int,
        dimension: int,
        *,
        leaves: int | None = None,
        changes: int | None = None,
    ) -> tuple[Loss, Loss]:
        """What the noise really gives: the losses of all Lambda_h, and of all responses.

        Lambda_h goes through a tree over the batches. Each change of policy has responses with
        targets in [0, H + 1]. E.2.1 composes B of both. The first response is constant, so an agent
        changes its policy B - 1 times.
        """
        if isinstance(privacy, NoPrivacy):
            return NO_PRIVACY, NO_PRIVACY
        relation = Relation(privacy.relation)
        rows = gram_rows(horizon, dimension)
        tree = Tree(leaves or self.batches)
        responses = Exact((changes or self.batches) * horizon)
        distance = target_distance(horizon, relation)
        if privacy.delta > 0:
            gram_mu = rows.sensitivity(relation) * tree.column_norm(2) / self.sigma_gram
            response_mu = distance * responses.column_norm(2) / self.sigma_response
            return GaussianDP(gram_mu), GaussianDP(response_mu)
        gram_epsilon = rows.l1_sensitivity(relation) * tree.column_norm(1) / self.sigma_gram
        l1_distance = math.sqrt(dimension) * distance
        response_epsilon = l1_distance * responses.column_norm(1) / self.sigma_response
        return PureDP(gram_epsilon), PureDP(response_epsilon)


def batches(privacy: Request, setting: LinearSetting) -> int:
    """B.

    Without noise a release costs nothing, and the printed formula has no value. Then there is one
    release per episode.
    """
    K = setting.episodes
    H = setting.horizon
    d = setting.dimension
    epsilon = privacy.epsilon
    if setting.batches is not None:
        return setting.batches
    if isinstance(privacy, NoPrivacy):
        return K
    if privacy.delta > 0:
        return min(K, _ceiling(math.pow(K * epsilon, 0.4) / math.pow(d**3 * H, 0.2)))
    return min(K, _ceiling(math.cbrt(K * epsilon) / math.cbrt(d**2 * H)))


def _ceiling(value: float) -> int:
    """The ceiling of a number that rounding may have moved off a whole one."""
    is_whole = abs(value - round(value)) < ROUNDING * value
    return round(value) if is_whole else math.ceil(value)


def printed_linear(privacy: Request, setting: LinearSetting) -> PrintedLinear:
    """The constants of E.1, and at delta = 0 those that follow from E.3 with L1 sensitivities."""
    for name in ("episodes", "horizon", "dimension"):
        if getattr(setting, name) < 1:
            raise InvalidParameter(
                f"{name} must be at least 1, got {name}={getattr(setting, name)}"
            )
    return constants_for_noise(privacy, setting, _sigmas(privacy, setting))


def constants_for_noise(
    privacy: Request, setting: LinearSetting, sigmas: tuple[float, float]
) -> PrintedLinear:
    """Everything that the paper derives from sigma_Lambda and sigma_u."""
    K = setting.episodes
    H = setting.horizon
    d = setting.dimension
    p = setting.failure
    B = batches(privacy, setting)
    B_0 = tree_levels(B)
    sigma_gram, sigma_response = sigmas
    # The norms of the noise on Lambda and on u, in units of their sigmas.
    log = math.log(6 * K * H / p)
    if privacy.delta > 0:
        # Claims 26 and 27.
        gram_norm = 4 * math.sqrt(d) + 2 * log
        response_norm = math.sqrt(d) + 2 * math.sqrt(log)
    else:
        # Claims 29 and 28.
        log += math.log(d)
        gram_norm = 2 * d + 2 * math.sqrt(d * log) + log
        response_norm = math.sqrt(d) * log
    upsilon = sigma_gram * B_0 * gram_norm
    C = sigma_response * response_norm
    ridge = float(d)
    shift = d * upsilon
    U = max(1.0, 2 * H * math.sqrt(d * K / (ridge + shift)) + C / (ridge + shift))
    chi = 24**2 * 18 * K**2 * d * U * H / p
    beta = 24 * H * math.sqrt(d * (ridge + shift)) * math.log(chi)
    return PrintedLinear(
        batches=B,
        levels=B_0,
        sigma_gram=sigma_gram,
        sigma_response=sigma_response,
        upsilon=upsilon,
        shift=shift,
        response_norm=C,
        weight_norm=U,
        chi=chi,
        beta=beta,
        ridge=ridge,
    )


def tree_levels(leaves: int) -> int:
    """B_0 of E.1."""
    return math.ceil(math.log2(leaves) + 1)


def _sigmas(privacy: Request, setting: LinearSetting) -> tuple[float, float]:
    """(sigma_Lambda, sigma_u)."""
    if isinstance(privacy, NoPrivacy):
        return 0.0, 0.0
    H = setting.horizon
    d = setting.dimension
    B = batches(privacy, setting)
    B_0 = tree_levels(B)
    epsilon = privacy.epsilon
    if privacy.delta == 0:
        relation = Relation(privacy.relation)
        gram = gram_rows(H, d).l1_sensitivity(relation)
        response = H * math.sqrt(d) * target_distance(H, relation)
        return 2 * B * gram / epsilon, 2 * B * response / epsilon
    log = math.log(32 * H * B_0 * B / privacy.delta) ** 2
    sigma_gram = 128 / epsilon * math.sqrt(B * H * B_0) * log
    sigma_response = 128 / epsilon * H * math.sqrt(H * B) * log
    return sigma_gram, sigma_response


def target_distance(horizon: int, relation: Relation) -> float:
    """How far apart the responses of two neighbours are.

    Targets are in [0, H + 1], and features have norm at most 1.
    """
    return (horizon + 1) * (1.0 if relation == Relation.NULL else 2.0)


def is_pure(privacy: Request) -> bool:
    """Whether pure differential privacy is asked for."""
    return privacy.delta == 0 and not isinstance(privacy, NoPrivacy)


def gram_rows(horizon: int, dimension: int) -> RegressionRows:
    """phi phi^T of every step, without responses."""
    return RegressionRows(horizon, dimension, 1.0, target=0.0)


def useful_from(privacy: Request, *, horizon: int, dimension: int, failure: float = 0.1) -> int:
    """The first K at which the printed bonus can be below H anywhere.

    It is beta / sqrt(lambda + c_K + Upsilon + K) < H, with all users alike. K is found by
    bisection: the ratio of both sides is taken to fall from some K on, and is checked to be above
    one before it.
    """

    def is_useful(K: int) -> bool:
        constants = printed_linear(privacy, LinearSetting(K, horizon, dimension, failure))
        return constants.beta / math.sqrt(constants.regularizer + K) < horizon

    low = 1
    high = 2
    while not is_useful(high):
        low = high
        high = 2 * high
        if high > MOST_EPISODES:
            raise InvalidParameter("the printed bonus never falls below H")
    while high - low > 1:
        middle = (low + high) // 2
        if is_useful(middle):
            high = middle
        else:
            low = middle
    return high
