"""The constants printed in [Zhou22] for linear mixtures with unknown rewards: noise, regularity and widths."""

import math
from dataclasses import dataclass

from confide.agents.luyo21 import Setting
from confide.errors import InvalidParameter
from confide.planners.regularizers import Regularity
from confide.privacy.request import LocalDP, NoPrivacy, Request


@dataclass(frozen=True, slots=True)
class PaperConstants:
    """[Zhou22, Thm. 6.5, Lemma 3.1], for values in [0, H] and ||phi_V|| <= sqrt(d1) H."""

    levels: int  # m: how many noises one user is in
    sigma_p1: float  # of one noise on an entry of Lambda_p, of u_p, and of either for rewards
    sigma_p2: float
    sigma_r: float
    transitions: Regularity  # lambda_min = Sigma, lambda_max = 3 Sigma: Lambda is shifted by 2 Sigma
    rewards: Regularity
    beta_p: float
    beta_r: float


def paper_constants(
    privacy: Request, *, episodes: int, horizon: int, dimension: int, reward_dimension: int, failure: float = 0.1
) -> PaperConstants:
    """sigma = (H Delta / eps) sqrt(32 m ln(4 H / delta)), m = ceil(log2 K), Delta = d1 H^2, sqrt(d1) H^2 and 1.

    `failure` is the paper's alpha: its regret bounds hold with probability 1 - 4 alpha. Under local privacy every user is noised once (m =
    1) and a sum carries up to K noises, all else as in the proof of Thm. 6.5 (Remark 6.9). Without privacy the regularizer is Z = I.
    """
    Setting(episodes, horizon, dimension, failure)  # checks them
    K, H, d1, d2 = episodes, horizon, dimension, reward_dimension
    local = isinstance(privacy, LocalDP)
    m = 1 if local else max(math.ceil(math.log2(K)), 1)
    if isinstance(privacy, NoPrivacy):
        c, transitions, rewards = 0.0, Regularity(1.0, 1.0, 0.0), Regularity(1.0, 1.0, 0.0)
    elif privacy.delta == 0:
        raise InvalidParameter('[Zhou22] has no constants for delta = 0: use calibration="tight", or delta > 0')
    else:
        c, log = H / privacy.epsilon * math.sqrt(32 * m * math.log(4 * H / privacy.delta)), math.log(4 * K * H / failure)
        noises = K if local else m

        def regularity(sigma_1: float, sigma_2: float, d: int, wide: int) -> Regularity:
            Sigma = sigma_1 * math.sqrt(noises) * (4 * math.sqrt(wide) + math.sqrt(8 * (log + math.log(2))))  # Lemma B.4
            nu = sigma_2 * math.sqrt(noises / Sigma) * (math.sqrt(d) + math.sqrt(2 * log))  # Lemma B.5
            return Regularity(Sigma, 3 * Sigma, nu)

        transitions = regularity(
            c * d1 * H**2, c * math.sqrt(d1) * H**2, d1, max(d1, d2)
        )  # Sigma_{p,1} is printed with d >= d1, d2
        rewards = regularity(c, c, d2, d2)

    def beta(regularity: Regularity, d: int, row_norm: float, span: float) -> float:
        return regularity.beta(
            episodes=K, horizon=H, dimension=d, row_norm=row_norm, span=span, parameter_norm=math.sqrt(d), failure=failure
        )

    beta_p, beta_r = beta(transitions, d1, math.sqrt(d1) * H, float(H)), beta(rewards, d2, 1.0, 1.0)
    return PaperConstants(m, c * d1 * H**2, c * math.sqrt(d1) * H**2, c, transitions, rewards, beta_p, beta_r)
