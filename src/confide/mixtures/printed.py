"""The constants printed in [Luyo21] and [Zhou22] for linear mixtures, and the loss that they give.

Nothing in this file may be tuned: a constant is the paper's, or what its proof needs. Golden values
are in the tests, and `papers/` compares them with the claims. Privacy does not rest on the
formulas: the guarantee states the exact loss of the noise (`true_loss`).

[Luyo21], `printed` and `printed_plus`. Letters are the paper's: K episodes, horizon H, d features,
failure probability p, and C_w, the bound on ||w||. Features satisfy ||phi_v|| <= 1 for v in [0, 1]
(Asm. 2). Features with ||phi_v|| <= B and ||w|| <= C are divided by B, so C_w = B C: with d known
kernels, phi = P / sqrt(d), w = sqrt(d) x the mixture and C_w = sqrt(d). Values are in [0, H].

Noisy matrices are symmetrised as in C.2 (the full Cor. 5), (Z' + Z'^T)/sqrt(2), also where the
paper does not say how (Cor. 6, 11, whose proofs need symmetric noise). So noise has the standard
deviation sqrt(2) sigma_B on the diagonal and sigma_B off it, which is GOE noise of scale
sqrt(2) sigma_B in the coordinates of `svec`. The noise sigma_B on u is that scale on kappa u with
kappa = sqrt(2). So Lambda and kappa u are one query. K_0 counts the levels of a complete tree over
the releases, which are the episodes unless another schedule is chosen.

Under pure privacy (C.4, Remark 6) the paper prints orders, so the constants are ours
(`OWN_CONSTANTS`). They follow its steps: Laplace noise on every entry of the upper triangle of
Lambda, mirrored as in Claim 29, and on every entry of u, of scale sensitivity / epsilon_0 with the
L1 sensitivity of each (F.2 prints a minimum, and needs a maximum); epsilon_0 by simple composition
over steps, kinds of statistics and levels; Claims 29 and 28 for the norms, with the factor of E.3;
the width as in the corollary. The paper's orders have no factor for the L1 norm, as if its
sensitivity were 2 for rows of norm one. The true one grows with d, so sigma_B is larger than its
order by a factor of order d.

[Zhou22], `paper_constants`: noise, regularity and widths for unknown rewards.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from confide.arguments import choice
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Factorisation, Tree
from confide.mechanisms.symmetric import ISOMETRIC, MIRRORED
from confide.mixtures.value_features import ROW_BOUNDS, value_steps
from confide.planners.regularity import Regularity
from confide.privacy.loss import NO_PRIVACY, GaussianDP, PureDP, loss_for
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Schedule, worst_std
from confide.statistics.bounds import RegressionRows

if TYPE_CHECKING:
    from confide.problems.feature_mixture import MixturePublic


OWN_CONSTANTS = (
    "for delta = 0 the paper prints orders of growth only, so the constants of noise, shift and "
    "width are confide's"
)


@dataclass(frozen=True, slots=True)
class MixtureSetting:
    """K, H, d and p of the theorems.

    `leaves` is the number of releases, if there is not one per episode. `weight_bound` is C_w in
    units in which ||phi_v|| <= 1; None stands for sqrt(d), that of kernels. `nonnegative` says
    whether phi_v has no negative entry.
    """

    episodes: int
    horizon: int
    dimension: int
    failure: float = 0.1
    leaves: int | None = None
    weight_bound: float | None = None
    nonnegative: bool = True

    def __post_init__(self) -> None:
        for name in ("episodes", "horizon", "dimension"):
            if getattr(self, name) < 1:
                raise InvalidParameter(
                    f"{name} must be at least 1, got {name}={getattr(self, name)}"
                )
        if not 0 < self.failure < 1:
            raise InvalidParameter(f"failure must be in (0, 1), got failure={self.failure}")

    @property
    def largest_weight(self) -> float:
        """C_w."""
        return math.sqrt(self.dimension) if self.weight_bound is None else self.weight_bound

    @property
    def tree(self) -> Tree:
        return Tree(self.leaves or self.episodes)

    @property
    def levels(self) -> int:
        """K_0, as printed.

        It has the root, which no prefix needs unless the leaves are a power of two.
        """
        return math.ceil(math.log2(self.tree.leaves) + 1)

    @property
    def steps(self) -> int:
        return value_steps(self.horizon)


def setting_of(public: "MixturePublic", schedule: Schedule, failure: float) -> MixtureSetting:
    """The setting of a problem whose features agents divide by its `value_bound`."""
    return MixtureSetting(
        episodes=schedule.users,
        horizon=public.horizon,
        dimension=public.dimension,
        failure=failure,
        leaves=schedule.leaves,
        weight_bound=public.value_bound * public.weight_bound,
        nonnegative=public.nonnegative,
    )


def whose_constants(privacy: Request) -> str:
    """Whose constants of [Luyo21] these are, for `Calibration`; the paper's need no words."""
    return OWN_CONSTANTS if _is_pure(privacy) else ""


@dataclass(frozen=True, slots=True)
class PrintedConstants:
    """[Luyo21, Cor. 5, Cor. 6, C.4]: the noise, the bound on its norm, and the width.

    `sigma` is sigma_B and `ridge` is lambda. Lambda is shifted by lambda + 2 `upsilon`. `loss` is
    what the noise really gives.
    """

    sigma: float
    upsilon: float
    beta: float
    ridge: float
    bound: RegressionRows
    loss: GaussianDP | PureDP


def printed(privacy: Request, setting: MixtureSetting) -> PrintedConstants:
    """The constants of Alg. 1 for a request."""
    K = setting.episodes
    H = setting.horizon
    d = setting.dimension
    p = setting.failure
    C_w = setting.largest_weight
    bound = _rows(privacy, setting, setting.steps, longest=H)
    sigma = _sigma(privacy, 2 * H**2, bound, setting, kinds=2)
    upsilon = sigma * _noise_norm(privacy, setting, bound, unions=6)
    ridge = float(H**2)
    sampling = math.sqrt(2 * H**2 * (math.log(3 * H / p) + d / 2 * math.log1p(K * H)))
    beta = 3 * (C_w + 1) * math.sqrt(ridge + upsilon) + sampling
    loss = true_loss(privacy, setting, bound, sigma)
    return PrintedConstants(sigma, upsilon, beta, ridge, bound, loss)


@dataclass(frozen=True, slots=True)
class PrintedPlus:
    """[Luyo21, Cor. 10, Cor. 11, Remark 6]: of the weighted regression (1), of the squares' (2).

    `ridge` is lambda. `bound` is that of both regressions, with the rows of the second in units of
    H^2 / sqrt(d). `loss` is what the noise really gives.
    """

    sigma: tuple[float, float]
    upsilon: tuple[float, float]
    ridge: float
    bound: RegressionRows
    loss: GaussianDP | PureDP
    setting: MixtureSetting

    def widths(self, episode: int) -> tuple[float, float, float]:
        """(beta check, beta hat, beta tilde) of episode k >= 1, [Luyo21, (6), (7)]."""
        K = self.setting.episodes
        H = self.setting.horizon
        d = self.setting.dimension
        C_w = self.setting.largest_weight
        # What noise and ridge add, in the regression of values and of squares.
        values_part, squares_part = (
            3 * (C_w + 1) * math.sqrt(self.ridge + upsilon) for upsilon in self.upsilon
        )
        union = math.log(24 * episode**2 * H / self.setting.failure)
        growth = math.log1p(K / self.ridge)
        last_term = 4 * math.sqrt(d) * union
        check = values_part + 8 * d * math.sqrt(growth * union) + last_term
        hat = values_part + 8 * math.sqrt(d * growth * union) + last_term
        squares_growth = math.log1p(K * H**4 / (d * self.ridge))
        squares_root = math.sqrt(d * H**4 * squares_growth * union)
        tilde = squares_part + 8 * squares_root + 4 * H**2 * union
        return check, hat, tilde


def printed_plus(privacy: Request, setting: MixtureSetting) -> PrintedPlus:
    """The constants of Alg. 3 for a request."""
    H = setting.horizon
    d = setting.dimension
    # ||phi_V|| / sbar <= H / (H / sqrt(d)), and so is V / sbar. The second regression is scaled to
    # the same.
    bound = _rows(privacy, setting, 2 * setting.steps, longest=math.sqrt(d))
    values_sigma = _sigma(privacy, 2 * d, bound, setting, kinds=4)
    if _is_pure(privacy):
        squares_sigma = values_sigma * H**4 / d
    else:
        squares_sigma = _sigma(privacy, 2 * H**4, bound, setting, kinds=4)
    norm = _noise_norm(privacy, setting, bound, unions=24)
    return PrintedPlus(
        sigma=(values_sigma, squares_sigma),
        upsilon=(values_sigma * norm, squares_sigma * norm),
        ridge=1.0,
        bound=bound,
        loss=true_loss(privacy, setting, bound, values_sigma),
        setting=setting,
    )


def _is_pure(privacy: Request) -> bool:
    return privacy.delta == 0 and not isinstance(privacy, NoPrivacy)


def _rows(
    privacy: Request, setting: MixtureSetting, problems: int, *, longest: float
) -> RegressionRows:
    """The rows of so many regressions, with ||X|| <= `longest` and y <= `longest`.

    Under Gaussian noise kappa = sqrt(2), because Lambda is symmetrised by 1/sqrt(2) and u is not.
    Without noise kappa = 1. Under Laplace noise kappa makes the L1 sensitivities of Lambda and
    kappa u equal, so that noise of one scale is in proportion to the sensitivity of each.
    """
    is_pure = _is_pure(privacy)
    bound = RegressionRows(
        problems,
        setting.dimension,
        row_norm=longest,
        target=longest,
        balance=math.sqrt(2) if privacy.delta > 0 else 1.0,
        nonnegative=setting.nonnegative,
        off_diagonal=MIRRORED if is_pure else ISOMETRIC,
    )
    if not is_pure:
        return bound
    matrix, vector = bound.l1_parts(Relation(privacy.relation))
    return replace(bound, balance=matrix / vector)


def _sigma(
    privacy: Request,
    sensitivity: float,
    bound: RegressionRows,
    setting: MixtureSetting,
    *,
    kinds: int,
) -> float:
    """sigma_B for H queries of each of `kinds` (Lambda and u; for Alg. 3 two of each).

    `sensitivity` is the one that the paper claims. Laplace noise follows from the L1 sensitivity of
    `bound`.
    """
    if isinstance(privacy, NoPrivacy):
        return 0.0
    epsilon = privacy.epsilon
    delta = privacy.delta
    n = kinds
    H = setting.horizon
    K_0 = setting.levels
    is_local = isinstance(privacy, LocalDP)
    if delta == 0:
        # C.4: epsilon / (n H K_0) for each; on a device epsilon / (n H).
        relation = Relation(privacy.relation)
        matrix, _ = bound.l1_parts(relation)
        # What all queries together need, with rounding. It is more only where the composition
        # leaves no room, as for H = 1.
        column_norm = 1.0 if is_local else setting.tree.column_norm(1)
        least = bound.l1_sensitivity(relation) * column_norm
        return max(matrix * n * H * (1 if is_local else K_0), least) / epsilon
    if is_local:
        # Cor. 6, 11: epsilon / (n H) for each.
        return sensitivity * n * H / epsilon * math.sqrt(2 * math.log(2 * n * H / delta))
    # Cor. 5, 10.
    logs = math.log(4 * n * H / delta) * math.log(2 * n / delta) * math.log(8 * n * H * K_0 / delta)
    return sensitivity * 8 * n / epsilon * math.sqrt(2 * H * K_0 * logs)


def _noise_norm(
    privacy: Request, setting: MixtureSetting, bound: RegressionRows, *, unions: int
) -> float:
    """Upsilon / sigma_B: a bound on a norm with probability 1 - p / (unions K H).

    It is the norm of a prefix of K_0 nodes, or of K users' own noise. The widths need Upsilon to
    bound the norm of the noise on u, too, which Laplace noise does not imply.
    """
    K = setting.episodes
    d = setting.dimension
    K_0 = setting.levels
    log = math.log(unions * K * setting.horizon / setting.failure)
    if privacy.delta > 0:
        # Claim 26.
        norm_of_one = 4 * math.sqrt(d) + 2 * log
        factor_of_prefix = math.sqrt(K_0)
    else:
        # Claim 29 for Lambda, and Claim 28 for u.
        log += math.log(d)
        on_u = math.sqrt(d) * log / bound.balance
        norm_of_one = max(2 * d + 2 * math.sqrt(d * log) + log, on_u)
        factor_of_prefix = float(K_0)
    if isinstance(privacy, LocalDP):
        return norm_of_one * math.sqrt(K)
    return norm_of_one * factor_of_prefix


def true_loss(
    privacy: Request, setting: MixtureSetting, bound: RegressionRows, sigma: float
) -> GaussianDP | PureDP:
    """The loss of noise sigma_B on `bound`: through a tree, or once per user."""
    if isinstance(privacy, NoPrivacy):
        return NO_PRIVACY
    relation = Relation(privacy.relation)
    is_local = isinstance(privacy, LocalDP)
    if privacy.delta > 0:
        column_norm = 1.0 if is_local else setting.tree.column_norm(2)
        return GaussianDP(bound.sensitivity(relation) * column_norm / (math.sqrt(2) * sigma))
    column_norm = 1.0 if is_local else setting.tree.column_norm(1)
    return PureDP(bound.l1_sensitivity(relation) * column_norm / sigma)


@dataclass(frozen=True, slots=True)
class LambdaNoise:
    """The noise of (Lambda_h)_h, in units of L^2, the square of the bound on the rows.

    `benchmarks/counters.py` compares it. `noise` is the standard deviation of a diagonal entry of
    Lambda at the worst release, and `loss` is what the noise really gives.
    """

    name: str
    counter: Factorisation
    noise: float
    loss: GaussianDP
    dimension: int

    def users(self) -> int:
        """How many users it takes until Lambda exceeds its noise.

        Then the average eigenvalue of Lambda, k L^2 / d, is noise x sqrt(2 d), the noise's norm.
        """
        return math.ceil(self.dimension * math.sqrt(2 * self.dimension) * self.noise)


def paper_noise(privacy: JointDP, setting: MixtureSetting) -> LambdaNoise:
    """[Luyo21, Cor. 5]: a binary tree over the episodes."""
    constants = printed(privacy, setting)
    tree = setting.tree
    if not isinstance(constants.loss, GaussianDP):
        raise InvalidParameter(
            f"delta must be positive, because Cor. 5 has Gaussian noise, got delta={privacy.delta}"
        )
    node_std = math.sqrt(2) * constants.sigma / setting.horizon**2
    noise = node_std * worst_std(tree) / tree.column_norm(2)
    return LambdaNoise("paper", tree, noise, constants.loss, setting.dimension)


def tight_noise(
    privacy: JointDP, counter: Factorisation, setting: MixtureSetting, worst: float | None = None
) -> LambdaNoise:
    """All of a user's numbers as one query, with exact accounting and GOE noise.

    Rows and targets are non-negative, as with known kernels. `worst` is the noise per unit of
    sensitivity over loss, by default at the counter's worst release.
    """
    rows = RegressionRows(setting.steps, setting.dimension, nonnegative=True)
    loss = loss_for(privacy)
    if not isinstance(loss, GaussianDP):
        raise InvalidParameter(
            f"delta must be positive, because the noise is Gaussian, got delta={privacy.delta}"
        )
    noise = (
        rows.sensitivity(Relation(privacy.relation))
        / loss.mu
        * (worst_std(counter) if worst is None else worst)
    )
    return LambdaNoise("tight", counter, noise, loss, setting.dimension)


@dataclass(frozen=True, slots=True)
class PaperConstants:
    """[Zhou22, Thm. 6.5, Lemma 3.1], for values in [0, H].

    It is for ||phi_V|| <= sqrt(d1) H, or ||phi_V|| <= H (Remark 6.6). `levels` is m, how many noisy
    sums one user is in. The sigmas are those of one noise on an entry of Lambda_p, of u_p, and of
    either for rewards. The regularities of transitions and rewards have lambda_min = Sigma and
    lambda_max = 3 Sigma, because Lambda is shifted by 2 Sigma.
    """

    levels: int
    sigma_p1: float
    sigma_p2: float
    sigma_r: float
    transitions: Regularity
    rewards: Regularity
    beta_p: float
    beta_r: float


def paper_constants(
    privacy: Request,
    *,
    episodes: int,
    horizon: int,
    dimension: int,
    reward_dimension: int,
    failure: float = 0.1,
    row_bound: str = ROW_BOUNDS[0],
) -> PaperConstants:
    """The constants of [Zhou22] for d1 = `dimension` and d2 = `reward_dimension`.

    sigma = (H Delta / eps) sqrt(32 m ln(4 H / delta)), m = ceil(log2 K), where Delta = d1 H^2,
    sqrt(d1) H^2 and 1. With `row_bound` H, ||phi_V|| <= H as in Remark 6.6, and from the same
    proof: Delta = H^2, H^2 and 1.

    `failure` is the paper's alpha: its regret bounds hold with probability 1 - 4 alpha. Remark 6.9
    prints no constants for local privacy, so these are ours: every user is noised once (m = 1) and
    a sum carries up to K noises, all else as in the proof of Thm. 6.5. Without privacy the
    regularizer is the paper's Z = lambda I, z = 0 (Sec. 3) with lambda = 1, which is our choice.
    """
    setting = MixtureSetting(episodes, horizon, dimension, failure)
    K = episodes
    H = horizon
    d1 = dimension
    d2 = reward_dimension
    # The square of the bound on rows, in units of H.
    longest = 1 if choice("row_bound", row_bound, ROW_BOUNDS) == "H" else d1
    is_local = isinstance(privacy, LocalDP)
    m = 1 if is_local else max(math.ceil(math.log2(K)), 1)
    if isinstance(privacy, NoPrivacy):
        c = 0.0
        transitions = Regularity(1.0, 1.0, 0.0)
        rewards = Regularity(1.0, 1.0, 0.0)
    elif privacy.delta == 0:
        raise InvalidParameter(
            '[Zhou22] has no constants for delta = 0: use calibration="tight", or delta > 0'
        )
    else:
        c = H / privacy.epsilon * math.sqrt(32 * m * math.log(4 * H / privacy.delta))
        log = math.log(4 * K * H / failure)
        noises = K if is_local else m
        # Sigma_{p,1} is printed with d >= d1, d2.
        transitions = _regularity(
            _sigmas(c, longest, H), noises=noises, log=log, d=d1, largest_d=max(d1, d2)
        )
        rewards = _regularity((c, c), noises=noises, log=log, d=d2, largest_d=d2)
    sigma_p1, sigma_p2 = _sigmas(c, longest, H)
    return PaperConstants(
        levels=m,
        sigma_p1=sigma_p1,
        sigma_p2=sigma_p2,
        sigma_r=c,
        transitions=transitions,
        rewards=rewards,
        beta_p=_beta(transitions, setting, d1, row_norm=math.sqrt(longest) * H, span=float(H)),
        beta_r=_beta(rewards, setting, d2, row_norm=1.0, span=1.0),
    )


def _beta(
    regularity: Regularity, setting: MixtureSetting, d: int, *, row_norm: float, span: float
) -> float:
    """The width of a regression in d dimensions, for parameters of norm sqrt(d)."""
    return regularity.beta(
        episodes=setting.episodes,
        horizon=setting.horizon,
        dimension=d,
        row_norm=row_norm,
        span=span,
        parameter_norm=math.sqrt(d),
        failure=setting.failure,
    )


def _sigmas(c: float, longest: int, horizon: int) -> tuple[float, float]:
    """sigma_{p,1} and sigma_{p,2}.

    They are in proportion to Delta_{p,1} = longest H^2 and Delta_{p,2} = sqrt(longest) H^2.
    """
    return c * longest * horizon**2, c * math.sqrt(longest) * horizon**2


def _regularity(
    sigmas: tuple[float, float], *, noises: int, log: float, d: int, largest_d: int
) -> Regularity:
    """The regularity of sums of so many noises, where log = ln(4 K H / alpha)."""
    sigma_1, sigma_2 = sigmas
    # Lemma B.4.
    norm = 4 * math.sqrt(largest_d) + math.sqrt(8 * (log + math.log(2)))
    Sigma = sigma_1 * math.sqrt(noises) * norm
    # Lemma B.5.
    nu = sigma_2 * math.sqrt(noises / Sigma) * (math.sqrt(d) + math.sqrt(2 * log))
    return Regularity(Sigma, 3 * Sigma, nu)
