"""The constants of [Chowdhury21] as numbers: the exact loss of its noise, its width, and its regret bound with the proof's constants.

The paper has two counters of printed scales; `control/printed.py` reads them as one joint query. Its "~" in sigma_i^2 is read as an
equality. D of Lemma 3, which the paper takes for a constant, is H ||Q|| here: doing nothing under ||A|| <= 1 costs no more (erratum 8).
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.control.printed import PrintedControl, printed_control
from confide.mechanisms.counters import Tree
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.loss import GaussianDP
from confide.privacy.request import JointDP, Request
from confide.problems.lq import LQPublic, LQSystem
from confide.problems.zoo.control import oscillator

Array = npt.NDArray[np.float64]
FAILURE = 0.1
K = 100_000


def constants(
    privacy: Request, public: LQPublic | None = None, episodes: float = K
) -> PrintedControl:
    return printed_control(
        privacy, public or oscillator().public, episodes=int(episodes), failure=FAILURE
    )


def true_loss(privacy: Request, public: LQPublic | None = None) -> GaussianDP:
    """Of both counters and all releases together, for a user who is replaced."""
    made = constants(privacy, public).loss(privacy, Tree(K - 1).column_norm(2))
    assert isinstance(made, GaussianDP)
    return made


def true_epsilon(privacy: Request) -> float:
    return gaussian_epsilon(true_loss(privacy).mu, privacy.delta)


def printed_norm_epsilon(privacy: Request) -> float:
    """The same if no more is known of z than the printed ||z|| <= 1 + gamma: sqrt(2) H ((1 + gamma)^2 + s^2)."""
    mu = math.sqrt(2) * 1.5 * privacy.epsilon / math.sqrt(8 * math.log(2 / privacy.delta))
    return gaussian_epsilon(mu, privacy.delta)


def first_failure(epsilon_of: Callable[[Request], float], delta: float) -> float:
    """The nominal epsilon from which the printed noise gives more."""
    low, high = 1.0, 2.0
    while epsilon_of(JointDP(high, delta)) <= high:
        low, high = high, 1.5 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon_of(JointDP(middle, delta)) > middle else (middle, high)
    return high


def width(made: PrintedControl, S: Array, noise_radius: float, states: int) -> float:
    """beta_k(alpha) of Lemma 1, of the exact S = Z^T Z as it is printed."""
    log_det = float(np.linalg.slogdet(np.eye(len(S)) + S / made.lambda_min)[1])
    sampling = noise_radius * math.sqrt(2 * math.log(2 / FAILURE) + states * log_det)
    return sampling + math.sqrt(made.lambda_max) + made.nu


def regret_bound(
    privacy: Request, episodes: float, public: LQPublic | None = None, *, cost: float | None = None
) -> float:
    """Lemmas 6 to 8 with Claims 1 and 2 as they must read: D for D^2, 4 beta^2 for 2 beta^2, twice for the potential."""
    public = public or oscillator().public
    n, p, H, gamma = public.states, public.states + public.inputs, public.horizon, public.gain_bound
    made, C = constants(privacy, public, episodes), float(np.linalg.norm(public.Q, 2))
    D = H * C if cost is None else cost
    log_det = p * math.log1p(H * episodes * (1 + gamma) ** 2 / (p * made.lambda_min))
    beta = (
        public.noise_radius * math.sqrt(2 * math.log(2 / FAILURE) + n * log_det)
        + math.sqrt(made.lambda_max)
        + made.nu
    )
    model = (
        2
        * math.sqrt(D)
        * (1 + gamma)
        * math.sqrt(H * episodes)
        * math.sqrt(8 * D * H * log_det)
        * (1 + gamma)
        * beta
    )
    costs, states = 2 * H * (1 + gamma**2) * C, 2 * D
    martingales = (costs + states) * math.sqrt(2 * episodes * H * math.log(2 / FAILURE))
    return model + martingales


def at_horizon(public: LQPublic, horizon: int) -> LQPublic:
    return replace(public, horizon=horizon)


def enlarged(system: LQSystem, R: float) -> LQSystem:
    """The same dynamics with cheaper or dearer inputs."""
    return replace(system, R=np.atleast_2d(R))
