"""The constants of [Chowdhury21, Sec. IV] for linear quadratic control, and their privacy loss.

Letters are the paper's. It has two counters, of z z^T and of z x'^T, through binary trees, each
(epsilon/2, delta/2)-private by its own account. Both are one query here: (upper triangle of S, (1 +
gamma) C), on which all its noises have one scale, sigma_1. So every entry of S in a node of the
tree has noise of standard deviation sigma_1, and every entry of C noise of standard deviation
sigma_2, as printed.

The paper writes "~" for the sigma_i^2 below. It is read as an equality here.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confide.control.contributions import ControlRows
from confide.errors import InvalidParameter
from confide.mechanisms.symmetric import MIRRORED
from confide.privacy.loss import NO_PRIVACY, GaussianDP, Loss
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request

if TYPE_CHECKING:
    from confide.problems.lq import LQPublic


@dataclass(frozen=True, slots=True)
class PrintedControl:
    """[Chowdhury21, Sec. IV-A, proof of Thm. 3]."""

    # M: of the tree, over K - 1 leaves.
    levels: int
    # Of each noise on an entry of sum z z^T, on and off the diagonal.
    sigma_1: float
    # Of each noise on an entry of sum z x'^T.
    sigma_2: float
    # Lambda: a bound on the norm of the noise N_k in the sum of z z^T.
    lambda_min: float
    # 3 Lambda: eta = 2 Lambda is added to the diagonal.
    lambda_max: float
    # A bound on ||L_k|| in the norm of H_k^-1, L_k the noise in the sum of z x'^T.
    nu: float
    bound: ControlRows

    @property
    def shift(self) -> float:
        """eta = 2 Lambda; without noise H_k = I."""
        return (self.lambda_min + self.lambda_max) / 2

    def loss(self, privacy: Request, column_norm: float) -> Loss:
        """The loss of a user who enters a counter with this norm.

        It is sqrt(m) for a tree of m levels.
        """
        if self.sigma_1 == 0:
            return NO_PRIVACY
        return GaussianDP(
            self.bound.sensitivity(Relation(privacy.relation)) * column_norm / self.sigma_1
        )


def printed_control(
    privacy: Request, public: "LQPublic", *, episodes: int, failure: float = 0.1
) -> PrintedControl:
    """sigma_i^2 = 8 m Delta_i^2 ln(2/delta) / epsilon^2, Delta_1 = H (1 + gamma)^2, Delta_2 = H (1
    + gamma), m = ceil(log2 K).

    `failure` is the paper's alpha. At K = 1 the printed m is 0; it is taken as 1.

    The printed Delta_i would hold for a user who is left out, by ||z|| <= 1 + gamma. A user who is
    somebody else moves both counters at once by sqrt(2) H (b + s^2), b = 1 + gamma^2 >= ||z||^2, 2
    s^2 = (1 + gamma)^2, in units of sigma_1: the cap of `bound`. This covers any data and any x_1.
    The paper's users differ in their responses x_2, ..., x_{H+1} alone [Sec. II-B], and satisfy
    Assumption 1.
    """
    n = public.states
    d = public.inputs
    H = public.horizon
    gamma = public.gain_bound
    K = episodes
    p = n + d
    weight = (1 + gamma) / math.sqrt(2)
    bound = ControlRows(n, d, H * (1 + gamma**2 + weight**2), weight, MIRRORED)
    m = max(math.ceil(math.log2(K)), 1)
    if isinstance(privacy, NoPrivacy):
        return PrintedControl(m, 0.0, 0.0, 1.0, 1.0, 0.0, bound)
    if isinstance(privacy, LocalDP):
        raise InvalidParameter(
            '[Chowdhury21] has no constants for local privacy: use calibration="tight"'
        )
    if privacy.delta == 0:
        raise InvalidParameter(
            '[Chowdhury21] has no constants for delta = 0: use calibration="tight", or delta > 0'
        )
    c = math.sqrt(8 * m * math.log(2 / privacy.delta)) / privacy.epsilon
    sigma_1 = c * H * (1 + gamma) ** 2
    sigma_2 = c * H * (1 + gamma)
    Lambda = sigma_1 * math.sqrt(m) * (4 * math.sqrt(p) + math.sqrt(8 * math.log(4 * K / failure)))
    nu = (
        sigma_2
        * math.sqrt(m / Lambda)
        * (math.sqrt(2 * n * p) + math.sqrt(4 * math.log(2 * K / failure)))
    )
    return PrintedControl(m, sigma_1, sigma_2, Lambda, 3 * Lambda, nu, bound)
