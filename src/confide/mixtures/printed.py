"""The constants printed in [Luyo21] and [Zhou22] for linear mixtures, and the loss that they really give.

[Luyo21], `printed` and `printed_plus`:
features satisfy ||phi_v|| <= 1 for v in [0, 1] (Asm. 2). Features with ||phi_v|| <= B and ||w|| <= C are divided by B, so that C_w = B C:
with d known kernels, phi = P / sqrt(d), w = sqrt(d) x the mixture and C_w = sqrt(d). Values are in [0, H].
Noisy matrices are symmetrised as in C.2 (the full Cor. 5), (Z' + Z'^T)/sqrt(2), also where the paper does not say how (Cor. 6, 11, whose
proofs need symmetric noise): noise of standard deviation sqrt(2) sigma_B on the diagonal and sigma_B off it, which is GOE noise of scale
sqrt(2) sigma_B in the coordinates of `svec`. The noise sigma_B on u is that scale on kappa u with kappa = sqrt(2). So Lambda and kappa u
are one query. All letters are the paper's; K_0 counts the levels of a complete tree over the releases, which are the episodes unless
another schedule is chosen.

Under pure privacy (C.4, Remark 6) the paper prints orders, so the constants are ours (`OWN_CONSTANTS`). They follow its steps:
Laplace noise on every entry of the upper triangle of Lambda, mirrored as in Claim 29, and on every entry of u, of scale
sensitivity / epsilon_0 with the L1 sensitivity of each (F.2 prints a minimum, and needs a maximum); epsilon_0 by
simple composition over steps, kinds of statistics and levels; Claims 29 and 28 for the norms, with the factor of E.3; the width as in
the corollary. The paper's orders have no factor for the L1 norm, as if its sensitivity were 2 for rows of norm one. The
true one grows with d, so sigma_B is larger than its order by a factor of order d.

[Zhou22], `paper_constants`: noise, regularity and widths for unknown rewards.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from confide.arguments import choice
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Factorisation, Tree
from confide.mechanisms.symmetric import ISOMETRIC, MIRRORED
from confide.mixtures.value_features import value_steps
from confide.planners.regularity import Regularity
from confide.privacy.loss import NO_PRIVACY, GaussianDP, PureDP, loss_for
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Relation, Request
from confide.privatizers import Schedule, worst_std
from confide.statistics.bounds import RegressionRows

if TYPE_CHECKING:
    from confide.problems.feature_mixture import MixturePublic


# Of ||phi_V||: Assumption 1 of [Zhou22], and Remark 6.6.
ROW_BOUNDS = ("sqrt(d)H", "H")
OWN_CONSTANTS = "for delta = 0 the paper prints orders of growth only, so the constants of noise, shift and width are confide's"


@dataclass(frozen=True, slots=True)
class MixtureSetting:
    """K, H, d and p of the theorems."""

    episodes: int
    horizon: int
    dimension: int
    failure: float = 0.1
    leaves: int | None = None  # releases, if not one per episode
    # C_w, in units in which ||phi_v|| <= 1; None: sqrt(d), that of kernels
    weight_bound: float | None = None
    nonnegative: bool = True  # whether phi_v has no negative entry

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
        """K_0, as printed: with the root, which no prefix needs unless the leaves are a power of two."""
        return math.ceil(math.log2(self.tree.leaves) + 1)

    @property
    def steps(self) -> int:
        return value_steps(self.horizon)


def setting_of(public: "MixturePublic", schedule: Schedule, failure: float) -> MixtureSetting:
    """Of a problem whose features agents divide by its `value_bound`."""
    return MixtureSetting(
        schedule.users,
        public.horizon,
        public.dimension,
        failure,
        schedule.leaves,
        public.value_bound * public.weight_bound,
        public.nonnegative,
    )


def whose_constants(privacy: Request) -> str:
    """Of the constants of [Luyo21], for `Calibration`."""
    return OWN_CONSTANTS if _is_pure(privacy) else ""


@dataclass(frozen=True, slots=True)
class PrintedConstants:
    """[Luyo21, Cor. 5, Cor. 6, C.4]: the noise, the bound on its norm, and the width."""

    sigma: float  # sigma_B
    upsilon: float  # Lambda is shifted by lambda + 2 upsilon
    beta: float
    ridge: float  # lambda
    bound: RegressionRows
    loss: GaussianDP | PureDP  # what the noise really gives


def printed(privacy: Request, setting: MixtureSetting) -> PrintedConstants:
    """The constants of Alg. 1 for a request."""
    K, H, d, p = setting.episodes, setting.horizon, setting.dimension, setting.failure
    bound = _rows(privacy, setting, setting.steps, longest=H)
    sigma = _sigma(privacy, 2 * H**2, bound, setting, kinds=2)
    upsilon = sigma * _noise_norm(privacy, setting, bound, unions=6)
    ridge, C_w = float(H**2), setting.largest_weight
    sampling = math.sqrt(2 * H**2 * (math.log(3 * H / p) + d / 2 * math.log1p(K * H)))
    beta = 3 * (C_w + 1) * math.sqrt(ridge + upsilon) + sampling
    return PrintedConstants(
        sigma, upsilon, beta, ridge, bound, true_loss(privacy, setting, bound, sigma)
    )


@dataclass(frozen=True, slots=True)
class PrintedPlus:
    """[Luyo21, Cor. 10, Cor. 11, Remark 6]: of the weighted regression (1) and of the second moment's (2)."""

    sigma: tuple[float, float]
    upsilon: tuple[float, float]
    ridge: float  # lambda
    bound: RegressionRows  # of both regressions, the rows of the second in units of H^2 / sqrt(d)
    loss: GaussianDP | PureDP
    setting: MixtureSetting

    def widths(self, episode: int) -> tuple[float, float, float]:
        """(beta check, beta hat, beta tilde) of episode k >= 1, [Luyo21, (6), (7)]."""
        K, H, d, p = (
            self.setting.episodes,
            self.setting.horizon,
            self.setting.dimension,
            self.setting.failure,
        )
        C_w = self.setting.largest_weight
        first, second = (
            3 * (C_w + 1) * math.sqrt(self.ridge + upsilon) for upsilon in self.upsilon
        )
        union, grows = math.log(24 * episode**2 * H / p), math.log1p(K / self.ridge)
        check = first + 8 * d * math.sqrt(grows * union) + 4 * math.sqrt(d) * union
        hat = first + 8 * math.sqrt(d * grows * union) + 4 * math.sqrt(d) * union
        grows = math.log1p(K * H**4 / (d * self.ridge))
        return check, hat, second + 8 * math.sqrt(d * H**4 * grows * union) + 4 * H**2 * union


def printed_plus(privacy: Request, setting: MixtureSetting) -> PrintedPlus:
    """The constants of Alg. 3 for a request."""
    H, d = setting.horizon, setting.dimension
    # ||phi_V|| / sbar <= H / (H / sqrt(d)), and so is V / sbar; the second regression is scaled to the same
    norm = math.sqrt(d)
    bound = _rows(privacy, setting, 2 * setting.steps, longest=norm)
    first = _sigma(privacy, 2 * d, bound, setting, kinds=4)
    if _is_pure(privacy):
        second = first * H**4 / d
    else:
        second = _sigma(privacy, 2 * H**4, bound, setting, kinds=4)
    sigma = (first, second)
    size = _noise_norm(privacy, setting, bound, unions=24)
    loss = true_loss(privacy, setting, bound, sigma[0])
    return PrintedPlus(sigma, (sigma[0] * size, sigma[1] * size), 1.0, bound, loss, setting)


def _is_pure(privacy: Request) -> bool:
    return privacy.delta == 0 and not isinstance(privacy, NoPrivacy)


def _rows(
    privacy: Request, setting: MixtureSetting, problems: int, *, longest: float
) -> RegressionRows:
    """The rows of so many regressions, with ||X|| <= `longest` and y <= `longest`.

    Under Gaussian noise kappa = sqrt(2) because Lambda is symmetrised by 1/sqrt(2) and u is not; without noise kappa = 1.
    Under Laplace noise kappa makes the L1 sensitivities of Lambda and kappa u equal, so that noise of one scale is in proportion to the
    sensitivity of each.
    """
    pure = _is_pure(privacy)
    bound = RegressionRows(
        problems,
        setting.dimension,
        row_norm=longest,
        target=longest,
        balance=math.sqrt(2) if privacy.delta > 0 else 1.0,
        nonnegative=setting.nonnegative,
        off_diagonal=MIRRORED if pure else ISOMETRIC,
    )
    if not pure:
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

    `sensitivity` is the one that the paper claims; Laplace noise follows from the L1 sensitivity of `bound`.
    """
    epsilon, delta, n = privacy.epsilon, privacy.delta, kinds
    H, levels = setting.horizon, setting.levels
    if isinstance(privacy, NoPrivacy):
        return 0.0
    if delta == 0:  # C.4: epsilon / (n H K_0) for each; on a device epsilon / (n H)
        relation, once = Relation(privacy.relation), isinstance(privacy, LocalDP)
        matrix, _ = bound.l1_parts(relation)
        # What all queries together need, with rounding. It is more only where the composition leaves no room, as for H = 1.
        least = bound.l1_sensitivity(relation) * (1.0 if once else setting.tree.column_norm(1))
        return max(matrix * n * H * (1 if once else levels), least) / epsilon
    if isinstance(privacy, LocalDP):  # Cor. 6, 11: epsilon / (n H) for each
        return sensitivity * n * H / epsilon * math.sqrt(2 * math.log(2 * n * H / delta))
    # Cor. 5, 10
    logs = (
        math.log(4 * n * H / delta) * math.log(2 * n / delta) * math.log(8 * n * H * levels / delta)
    )
    return sensitivity * 8 * n / epsilon * math.sqrt(2 * H * levels * logs)


def _noise_norm(
    privacy: Request, setting: MixtureSetting, bound: RegressionRows, *, unions: int
) -> float:
    """Upsilon / sigma_B: the norm of a prefix of K_0 nodes, or of K users' own noise, with probability 1 - p / (unions K H).

    The widths need Upsilon to bound the norm of the noise on u, too, which Laplace noise does not imply.
    """
    d, levels = setting.dimension, setting.levels
    log = math.log(unions * setting.episodes * setting.horizon / setting.failure)
    if privacy.delta > 0:  # Claim 26
        one, many = 4 * math.sqrt(d) + 2 * log, math.sqrt(levels)
    else:  # Claim 29 for Lambda, Claim 28 for u
        log += math.log(d)
        on_u = math.sqrt(d) * log / bound.balance
        one, many = max(2 * d + 2 * math.sqrt(d * log) + log, on_u), float(levels)
    return one * (math.sqrt(setting.episodes) if isinstance(privacy, LocalDP) else many)


def true_loss(
    privacy: Request, setting: MixtureSetting, bound: RegressionRows, sigma: float
) -> GaussianDP | PureDP:
    """Of noise sigma_B on `bound`: through a tree, or once per user."""
    if isinstance(privacy, NoPrivacy):
        return NO_PRIVACY
    relation, once = Relation(privacy.relation), isinstance(privacy, LocalDP)
    if privacy.delta > 0:
        seen = 1.0 if once else setting.tree.column_norm(2)
        return GaussianDP(bound.sensitivity(relation) * seen / (math.sqrt(2) * sigma))
    return PureDP(
        bound.l1_sensitivity(relation) * (1.0 if once else setting.tree.column_norm(1)) / sigma
    )


@dataclass(frozen=True, slots=True)
class LambdaNoise:
    """The noise of (Lambda_h)_h, in units of L^2 (the square of the bound on the rows): what `benchmarks/counters.py` compares."""

    name: str
    counter: Factorisation
    noise: float  # standard deviation of a diagonal entry of Lambda at the worst release
    loss: GaussianDP  # what the noise really gives
    dimension: int

    def users(self) -> int:
        """How many users it takes until the average eigenvalue of Lambda, k L^2 / d, exceeds the noise's norm, noise x sqrt(2 d)."""
        return math.ceil(self.dimension * math.sqrt(2 * self.dimension) * self.noise)


def paper_noise(privacy: JointDP, setting: MixtureSetting) -> LambdaNoise:
    """[Luyo21, Cor. 5]: a binary tree over the episodes."""
    made, tree = printed(privacy, setting), setting.tree
    if not isinstance(made.loss, GaussianDP):
        raise InvalidParameter("Cor. 5 needs delta > 0")
    noise = math.sqrt(2) * made.sigma / setting.horizon**2 * worst_std(tree) / tree.column_norm(2)
    return LambdaNoise("paper", tree, noise, made.loss, setting.dimension)


def tight_noise(
    privacy: JointDP, counter: Factorisation, setting: MixtureSetting, worst: float | None = None
) -> LambdaNoise:
    """All of a user's numbers as one query, exact accounting, GOE noise; rows and targets non-negative, as with known kernels.

    `worst` is the noise per unit of sensitivity over loss, by default at the counter's worst release.
    """
    rows = RegressionRows(setting.steps, setting.dimension, nonnegative=True)
    loss = loss_for(privacy)
    if not isinstance(loss, GaussianDP):
        raise InvalidParameter("Gaussian noise needs delta > 0")
    noise = (
        rows.sensitivity(Relation(privacy.relation))
        / loss.mu
        * (worst_std(counter) if worst is None else worst)
    )
    return LambdaNoise("tight", counter, noise, loss, setting.dimension)


@dataclass(frozen=True, slots=True)
class PaperConstants:
    """[Zhou22, Thm. 6.5, Lemma 3.1], for values in [0, H] and ||phi_V|| <= sqrt(d1) H, or <= H (Remark 6.6)."""

    levels: int  # m: how many noisy sums one user is in
    sigma_p1: float  # of one noise on an entry of Lambda_p, of u_p, and of either for rewards
    sigma_p2: float
    sigma_r: float
    # lambda_min = Sigma, lambda_max = 3 Sigma: Lambda is shifted by 2 Sigma
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
    """sigma = (H Delta / eps) sqrt(32 m ln(4 H / delta)), m = ceil(log2 K), Delta = d1 H^2, sqrt(d1) H^2 and 1.

    With `row_bound` H, ||phi_V|| <= H as in Remark 6.6, and from the same proof: Delta = H^2, H^2 and 1.

    `failure` is the paper's alpha: its regret bounds hold with probability 1 - 4 alpha. Remark 6.9 prints no constants for local privacy,
    so these are ours: every user is noised once (m = 1) and a sum carries up to K noises, all else as in the proof of Thm. 6.5. Without
    privacy the regularizer is the paper's Z = lambda I, z = 0 (Sec. 3) with lambda = 1, which is our choice.
    """
    MixtureSetting(episodes, horizon, dimension, failure)  # checks them
    K, H, d1, d2 = episodes, horizon, dimension, reward_dimension
    # The square of the bound on rows, in units of H.
    longest = 1 if choice("row_bound", row_bound, ROW_BOUNDS) == "H" else d1
    local = isinstance(privacy, LocalDP)
    m = 1 if local else max(math.ceil(math.log2(K)), 1)
    if isinstance(privacy, NoPrivacy):
        c, transitions, rewards = 0.0, Regularity(1.0, 1.0, 0.0), Regularity(1.0, 1.0, 0.0)
    elif privacy.delta == 0:
        raise InvalidParameter(
            '[Zhou22] has no constants for delta = 0: use calibration="tight", or delta > 0'
        )
    else:
        c, log = (
            H / privacy.epsilon * math.sqrt(32 * m * math.log(4 * H / privacy.delta)),
            math.log(4 * K * H / failure),
        )
        noises = K if local else m

        def regularity(sigma_1: float, sigma_2: float, d: int, wide: int) -> Regularity:
            # Lemma B.4
            Sigma = (
                sigma_1
                * math.sqrt(noises)
                * (4 * math.sqrt(wide) + math.sqrt(8 * (log + math.log(2))))
            )
            # Lemma B.5
            nu = sigma_2 * math.sqrt(noises / Sigma) * (math.sqrt(d) + math.sqrt(2 * log))
            return Regularity(Sigma, 3 * Sigma, nu)

        # Sigma_{p,1} is printed with d >= d1, d2
        transitions = regularity(*_sigmas(c, longest, H), d1, max(d1, d2))
        rewards = regularity(c, c, d2, d2)

    def beta(regularity: Regularity, d: int, row_norm: float, span: float) -> float:
        return regularity.beta(
            episodes=K,
            horizon=H,
            dimension=d,
            row_norm=row_norm,
            span=span,
            parameter_norm=math.sqrt(d),
            failure=failure,
        )

    beta_p = beta(transitions, d1, math.sqrt(longest) * H, float(H))
    beta_r = beta(rewards, d2, 1.0, 1.0)
    return PaperConstants(m, *_sigmas(c, longest, H), c, transitions, rewards, beta_p, beta_r)


def _sigmas(c: float, longest: int, horizon: int) -> tuple[float, float]:
    """sigma_{p,1} and sigma_{p,2}, in proportion to Delta_{p,1} = longest H^2 and Delta_{p,2} = sqrt(longest) H^2."""
    return c * longest * horizon**2, c * math.sqrt(longest) * horizon**2
