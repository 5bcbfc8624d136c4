"""The regret bounds of [Luyo21] as numbers: its own proofs with their constants, at any K, H, d and epsilon.

Thm. 7 is read with beta_K before the root, which is what its second line and the corollaries follow from. In the copy of C.1.2 that was
read it is inside once.
"""

import math
from collections.abc import Callable

from confide.linear_mdps.printed import (
    LinearSetting,
    PrintedLinear,
    constants_for_noise,
    printed_linear,
)
from confide.mixtures.printed import MixtureSetting, printed, printed_plus
from confide.privacy.request import Request
from papers.fits import exponent

FAILURE = 0.1


def mixture_bound(privacy: Request, K: float, H: int = 5, d: int = 5, p: float = FAILURE) -> float:
    """[Luyo21, C.1.2] with the width of Cor. 5, Cor. 6 or C.4."""
    beta = printed(privacy, MixtureSetting(int(K), H, d, p)).beta
    return 4 * H * beta * math.sqrt(d * K * math.log1p(H * K)) + math.sqrt(
        2 * H**3 * K * math.log(3 / p)
    )


def plus_bound(privacy: Request, K: float, H: int = 5, d: int = 5, p: float = FAILURE) -> float:
    """[Luyo21, (10)] with Lemmas 16 and 17 and x <= a sqrt(x) + b giving x <= 9/4 (a^2 + b)."""
    made = printed_plus(privacy, MixtureSetting(int(K), H, d, p))
    check, hat, tilde = made.widths(int(K))
    T, log = K * H, math.log1p(K / made.ridge)
    a = 4 * H * hat * math.sqrt(2 * d * H**3 * log)
    b = (
        H**2 * T / d
        + 3 * (H * T + H**3 * math.log(6 / p))
        + 8 * H**3 * math.sqrt(2 * T * math.log(6 * H / p))
    )
    b += 2 * tilde * math.sqrt(T * 2 * d * H * math.log1p(K * H**4 / (d * made.ridge)))
    b += 7 * check * H**2 * math.sqrt(T * 2 * d * H * log)
    return 2 * hat * math.sqrt(9 / 4 * (a**2 + b)) * math.sqrt(2 * H * d * log) + 4 * H * math.sqrt(
        2 * T * math.log(6 * H / p)
    )


def linear_bound(
    privacy: Request,
    K: float,
    H: int = 5,
    d: int = 5,
    p: float = FAILURE,
    *,
    batches: int | None = None,
) -> float:
    """[Luyo21, (22)] with the constants of E.1, or at delta = 0 with noise of the order of E.3."""
    made = printed_orders(privacy, LinearSetting(int(K), H, d, p, batches))
    return assembled(made.beta, made.batches, made.ridge + made.shift, K, H, d, p)


def printed_orders(privacy: Request, setting: LinearSetting) -> PrintedLinear:
    """The constants of E.1. At delta = 0 the noise is as large as the orders of E.3 say.

    They follow from sensitivities of 2 for phi phi^T and 4 H for u, which hold in L2 and not in L1.
    """
    if privacy.delta > 0:
        return printed_linear(privacy, setting)
    H, B = setting.horizon, printed_linear(privacy, setting).batches
    sigmas = 4 * B * H / privacy.epsilon, 8 * B * H**2 / privacy.epsilon
    return constants_for_noise(privacy, setting, sigmas)


def assembled(
    beta: float, B: float, smallest: float, K: float, H: int, d: int, p: float = FAILURE
) -> float:
    """(22) from its parts: the width, the number of batches, and lambda + c_K."""
    switching = H * d * H * max(K / B, 1.0) * math.log(K / d**2 + 1) / (2 * math.log(4) - 2)
    bonus = 8 * beta * H * math.sqrt(2 * d * K * math.log(K / smallest + 1))
    return 2 * math.sqrt(2 * K * H**3 * math.log(3 / p)) + switching + bonus


def lemma_21_width(
    made: PrintedLinear, H: int, d: int, *, shift: float, upsilon: float, response: float
) -> float:
    """The beta that Lemma 21 requires, for any c_K, Upsilon and C."""
    smallest = made.ridge + shift
    log = math.log(made.chi)
    noise = 4 * H * math.sqrt(d) * (smallest + 3 * upsilon) / math.sqrt(smallest)
    return noise + 6 * d * H * math.sqrt(log) + response / math.sqrt(smallest)


def best_batches(privacy: Request, K: float, H: int, d: int) -> float:
    """The B that makes (22) smallest with the printed noise, found on the logarithmic axis."""
    low, high = 0.0, math.log(K)
    for _ in range(60):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        at_left, at_right = (
            linear_bound(privacy, K, H, d, batches=max(1, int(math.exp(x)))) for x in (left, right)
        )
        low, high = (low, right) if at_left < at_right else (left, high)
    return math.exp((low + high) / 2)


def mended_bound(privacy: Request, K: float, H: int, d: int, p: float = FAILURE) -> float:
    """(22) where the tree is not charged for its B outputs again (sigma_Lambda without sqrt(B)) and c_K is chosen for that.

    c_K >= d Upsilon for Lemma 25, and as large as balances the noise of both kinds in Lemma 21; the least over B.
    """
    found = math.inf
    for step in range(400):
        B = max(1, int(math.exp(math.log(K) * step / 400)))
        made = printed_linear(privacy, LinearSetting(int(K), H, d, p, B))
        upsilon, response = made.upsilon / math.sqrt(B), made.response_norm
        shift = max(d * upsilon, response / (4 * H * math.sqrt(d)))
        beta = lemma_21_width(made, H, d, shift=shift, upsilon=upsilon, response=response)
        found = min(found, assembled(beta, B, made.ridge + shift, K, H, d, p))
    return found


def nontrivial_from(bound: Callable[[float], float], horizon: int = 5) -> float:
    """The first K at which a regret bound is below K H, what the worst policy loses at most."""
    low, high = 1.0, 2.0
    while bound(high) >= high * horizon:
        low, high = high, 4 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if bound(middle) < middle * horizon else (middle, high)
    return high


def in_episodes(bound: Callable[[float], float]) -> float:
    """The exponent in K, where logarithms hardly count any more: between 1e100 and 1e103."""
    return exponent(bound, 1e100)
