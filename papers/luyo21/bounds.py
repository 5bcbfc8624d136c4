"""The regret bounds of [Luyo21] as numbers, for any K, H, d and epsilon, by the proofs' constants.

Thm. 7 is read with beta_K before the root, because its second line and the corollaries follow from
that. In the copy of C.1.2 that was read, beta_K is inside the root once.
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
from confide.privacy.request import LocalDP, Request
from papers.fits import exponent

FAILURE = 0.1


def mixture_bound(privacy: Request, K: float, H: int = 5, d: int = 5, p: float = FAILURE) -> float:
    """[Luyo21, C.1.2] with the width of Cor. 5 or Cor. 6, or at delta = 0 with ours for C.4."""
    beta = printed(privacy, MixtureSetting(int(K), H, d, p)).beta
    return _mixture_regret(beta, K, H, d, p)


def mixture_bound_of_orders(
    privacy: Request, K: float, H: int = 5, d: int = 5, p: float = FAILURE
) -> float:
    """[Luyo21, C.1.2] at delta = 0, with Laplace noise of the order that C.4 prints.

    Each query is charged 2 H^2, which bounds the L2 sensitivity. The noise is as large as that, and
    it is too little for the guarantee where the L1 sensitivity is larger (erratum 4).
    """
    setting = MixtureSetting(int(K), H, d, p)
    ours = printed(privacy, setting)
    # H queries of each of two kinds, in each level of the tree, share epsilon.
    queries = 2 * H * (1 if isinstance(privacy, LocalDP) else setting.levels)
    sigma_of_orders = 2 * H**2 * queries / privacy.epsilon
    upsilon_of_orders = ours.upsilon * sigma_of_orders / ours.sigma
    # The width is 3 (C_w + 1) sqrt(lambda + Upsilon), and a part that does not depend on noise.
    factor = 3 * (setting.largest_weight + 1)
    noise_part = factor * math.sqrt(ours.ridge + ours.upsilon)
    noise_part_of_orders = factor * math.sqrt(ours.ridge + upsilon_of_orders)
    beta = ours.beta - noise_part + noise_part_of_orders
    return _mixture_regret(beta, K, H, d, p)


def _mixture_regret(beta: float, K: float, H: int, d: int, p: float) -> float:
    """[Luyo21, C.1.2] for a given width."""
    optimism = 4 * H * beta * math.sqrt(d * K * math.log1p(H * K))
    chance = math.sqrt(2 * H**3 * K * math.log(3 / p))
    return optimism + chance


def plus_bound(privacy: Request, K: float, H: int = 5, d: int = 5, p: float = FAILURE) -> float:
    """[Luyo21, (10)] with Lemmas 16 and 17 and x <= a sqrt(x) + b giving x <= 9/4 (a^2 + b)."""
    constants = printed_plus(privacy, MixtureSetting(int(K), H, d, p))
    check, hat, tilde = constants.widths(int(K))
    T = K * H
    log = math.log1p(K / constants.ridge)
    a = 4 * H * hat * math.sqrt(2 * d * H**3 * log)
    b = (
        H**2 * T / d
        + 3 * (H * T + H**3 * math.log(6 / p))
        + 8 * H**3 * math.sqrt(2 * T * math.log(6 * H / p))
    )
    b += 2 * tilde * math.sqrt(T * 2 * d * H * math.log1p(K * H**4 / (d * constants.ridge)))
    b += 7 * check * H**2 * math.sqrt(T * 2 * d * H * log)
    optimism = 2 * hat * math.sqrt(9 / 4 * (a**2 + b)) * math.sqrt(2 * H * d * log)
    chance = 4 * H * math.sqrt(2 * T * math.log(6 * H / p))
    return optimism + chance


def linear_bound(
    privacy: Request,
    K: float,
    H: int = 5,
    d: int = 5,
    p: float = FAILURE,
    *,
    batches: int | None = None,
) -> float:
    """[Luyo21, (22)] with the constants of E.1, or at delta = 0 with ours for E.3."""
    constants = printed_linear(privacy, LinearSetting(int(K), H, d, p, batches))
    smallest = constants.ridge + constants.shift
    return linear_regret(constants.beta, constants.batches, smallest, K, H, d, p)


def linear_bound_of_orders(
    privacy: Request,
    K: float,
    H: int = 5,
    d: int = 5,
    p: float = FAILURE,
    *,
    batches: int | None = None,
) -> float:
    """[Luyo21, (22)] at delta = 0, with Laplace noise of the order that E.3 prints.

    It follows from sensitivities of 2 for phi phi^T and 4 H for u, which hold in L2 and not in L1.
    So it is too little for the guarantee (erratum 4).
    """
    setting = LinearSetting(int(K), H, d, p, batches)
    B = printed_linear(privacy, setting).batches
    sigma_gram = 4 * B * H / privacy.epsilon
    sigma_response = 8 * B * H**2 / privacy.epsilon
    constants = constants_for_noise(privacy, setting, (sigma_gram, sigma_response))
    smallest = constants.ridge + constants.shift
    return linear_regret(constants.beta, constants.batches, smallest, K, H, d, p)


def linear_regret(
    beta: float, B: float, smallest: float, K: float, H: int, d: int, p: float = FAILURE
) -> float:
    """(22) from its parts: the width, the number of batches, and lambda + c_K."""
    switching = H * d * H * max(K / B, 1.0) * math.log(K / d**2 + 1) / (2 * math.log(4) - 2)
    bonus = 8 * beta * H * math.sqrt(2 * d * K * math.log(K / smallest + 1))
    return 2 * math.sqrt(2 * K * H**3 * math.log(3 / p)) + switching + bonus


def lemma_21_width(
    constants: PrintedLinear, H: int, d: int, *, shift: float, upsilon: float, response: float
) -> float:
    """The beta that Lemma 21 requires, for any c_K, Upsilon and C."""
    smallest = constants.ridge + shift
    log = math.log(constants.chi)
    noise = 4 * H * math.sqrt(d) * (smallest + 3 * upsilon) / math.sqrt(smallest)
    return noise + 6 * d * H * math.sqrt(log) + response / math.sqrt(smallest)


def best_batches(privacy: Request, K: float, H: int, d: int) -> float:
    """The B that makes (22) smallest with the paper's noise, by a search on the logarithmic axis.

    At delta = 0 this is noise of the order that E.3 prints.
    """
    bound = linear_bound if privacy.delta > 0 else linear_bound_of_orders
    low, high = 0.0, math.log(K)
    for _ in range(60):
        left = low + (high - low) / 3
        right = high - (high - low) / 3
        at_left, at_right = (
            bound(privacy, K, H, d, batches=max(1, int(math.exp(x)))) for x in (left, right)
        )
        low, high = (low, right) if at_left < at_right else (left, high)
    return math.exp((low + high) / 2)


def mended_bound(privacy: Request, K: float, H: int, d: int, p: float = FAILURE) -> float:
    """(22) where the tree is not charged for its B outputs a second time, the least over B.

    So sigma_Lambda has no factor sqrt(B), and c_K is chosen for that. Lemma 25 needs
    c_K >= d Upsilon. It is larger where that balances the noise of both kinds in Lemma 21.
    """
    least = math.inf
    for step in range(400):
        B = max(1, int(math.exp(math.log(K) * step / 400)))
        constants = printed_linear(privacy, LinearSetting(int(K), H, d, p, B))
        upsilon = constants.upsilon / math.sqrt(B)
        response = constants.response_norm
        shift = max(d * upsilon, response / (4 * H * math.sqrt(d)))
        beta = lemma_21_width(constants, H, d, shift=shift, upsilon=upsilon, response=response)
        regret = linear_regret(beta, B, constants.ridge + shift, K, H, d, p)
        least = min(least, regret)
    return least


def nontrivial_from(bound: Callable[[float], float], horizon: int = 5) -> float:
    """The first K at which a regret bound is below K H, which no policy can lose more than."""
    low = 1.0
    high = 2.0
    while bound(high) >= high * horizon:
        low = high
        high = 4 * high
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if bound(middle) < middle * horizon:
            high = middle
        else:
            low = middle
    return high


def in_episodes(bound: Callable[[float], float]) -> float:
    """The exponent in K, where logarithms hardly count any more: between 1e100 and 1e103."""
    return exponent(bound, 1e100)
