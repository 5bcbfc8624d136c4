"""The constants of [Chowdhury21] as numbers.

They are the exact loss of its noise, its width, and its regret bound with the proof's constants.
The paper has two counters with a scale each, and `control/printed.py` reads them as one joint
query. Its "~" in sigma_i^2 is read as an equality. D of Lemma 3, which the paper takes for a
constant, is H ||Q|| here, because doing nothing under ||A|| <= 1 costs no more (erratum 8).
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
    """The loss of both counters and all releases together, for a user who is replaced."""
    loss = constants(privacy, public).loss(privacy, Tree(K - 1).column_norm(2))
    assert isinstance(loss, GaussianDP)
    return loss


def true_epsilon(privacy: Request) -> float:
    return gaussian_epsilon(true_loss(privacy).mu, privacy.delta)


def printed_norm_epsilon(privacy: Request) -> float:
    """The true epsilon if ||z|| <= 1 + gamma, as the paper prints, is all that is known of z.

    Then the sensitivity is sqrt(2) H ((1 + gamma)^2 + s^2).
    """
    mu = math.sqrt(2) * 1.5 * privacy.epsilon / math.sqrt(8 * math.log(2 / privacy.delta))
    return gaussian_epsilon(mu, privacy.delta)


def first_failure(epsilon_of: Callable[[Request], float], delta: float) -> float:
    """The nominal epsilon from which the paper's noise gives more."""
    low = 1.0
    high = 2.0
    while epsilon_of(JointDP(high, delta)) <= high:
        low = high
        high = 1.5 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if epsilon_of(JointDP(middle, delta)) > middle:
            high = middle
        else:
            low = middle
    return high


def width(numbers: PrintedControl, S: Array, noise_radius: float, states: int) -> float:
    """beta_k(alpha) of Lemma 1, of the exact S = Z^T Z as the paper prints it."""
    log_det = float(np.linalg.slogdet(np.eye(len(S)) + S / numbers.lambda_min)[1])
    sampling = noise_radius * math.sqrt(2 * math.log(2 / FAILURE) + states * log_det)
    return sampling + math.sqrt(numbers.lambda_max) + numbers.nu


def regret_bound(
    privacy: Request, episodes: float, public: LQPublic | None = None, *, cost: float | None = None
) -> float:
    """Lemmas 6 to 8 with Claims 1 and 2, corrected.

    They have D for D^2, 4 beta^2 for 2 beta^2, and twice the potential.
    """
    public = public or oscillator().public
    n = public.states
    p = public.states + public.inputs
    H = public.horizon
    gamma = public.gain_bound
    numbers = constants(privacy, public, episodes)
    C = float(np.linalg.norm(public.Q, 2))
    D = H * C if cost is None else cost
    log_det = p * math.log1p(H * episodes * (1 + gamma) ** 2 / (p * numbers.lambda_min))
    beta = (
        public.noise_radius * math.sqrt(2 * math.log(2 / FAILURE) + n * log_det)
        + math.sqrt(numbers.lambda_max)
        + numbers.nu
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
    costs = 2 * H * (1 + gamma**2) * C
    states = 2 * D
    martingales = (costs + states) * math.sqrt(2 * episodes * H * math.log(2 / FAILURE))
    return model + martingales


def at_horizon(public: LQPublic, horizon: int) -> LQPublic:
    return replace(public, horizon=horizon)


def with_input_cost(system: LQSystem, R: float) -> LQSystem:
    """The same dynamics with cheaper or dearer inputs."""
    return replace(system, R=np.atleast_2d(R))
