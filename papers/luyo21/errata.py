"""The errata of [Luyo21] on linear mixtures (Alg. 1 and 3) and in its tools, each with the computation that shows it."""

import math

import numpy as np
import numpy.typing as npt

from confide.mixtures.printed import Setting, printed, printed_plus
from confide.privacy.accounting import gaussian_mu
from confide.privacy.loss import GaussianDP, PureDP
from confide.privacy.request import JointDP, LocalDP
from papers.findings import Erratum, short
from papers.luyo21.bounds import mixture_bound

Array = npt.NDArray[np.float64]
SETTING = Setting(100_000, 5, 5)
_AT = "K = 1e5, H = d = 5, epsilon = 1, delta = 1e-5, p = .1"


def errata() -> tuple[Erratum, ...]:
    return (
        lower_clip(),
        symmetrisation(),
        moment_updates(),
        l1_sensitivity(),
        composition_of_devices(),
        slack(),
        weights(),
        root(),
        advanced_composition(),
        smallest_for_largest(),
        second_moments(),
        indices(),
    )


def lower_clip() -> Erratum:
    made, H = printed(JointDP(1.0, 1e-5), SETTING), 5
    smallest = made.ridge + made.upsilon
    bonus = made.beta / math.sqrt(smallest)
    a = 3 + bonus  # of w~ = -a, along the feature of one state
    V, lowest = 1.0, 0.0
    for _ in range(H - 1):
        V = min(float(H), 1.0 - a * V + bonus * abs(V))
        lowest = min(lowest, V)
    away = (1 + bonus) * smallest / (made.sigma * math.sqrt(SETTING.levels))
    return Erratum(
        1,
        "Alg. 1, Alg. 3",
        "Q = min{H, r + <phi, w> + beta ||phi||}: clipped above only. The sensitivity 2 H^2 is that of values in [0, H].",
        "Q must be clipped at 0 as well, or nothing bounds V from below. It is a gap in the proof of privacy, which must hold for every "
        "release; with the printed shift the releases that show it are very rare.",
        f"One state, w~ = -{a:.1f} and the printed width: V falls to {lowest:.1f}, so that one user's X X^T is {lowest**2 / H**2:.1f} H^2. "
        f"Below -H it needs a noise vector {away:.0f} standard deviations long.",
        lowest < -H and lowest**2 > H**2,
        _AT,
        {"lowest": lowest, "deviations": away},
    )


def symmetrisation() -> Erratum:
    rng, d = np.random.default_rng(0), 5
    drawn = rng.standard_normal((100_000, d, d))
    both = drawn + drawn.swapaxes(1, 2)
    stds = {divisor: (both[:, 0, 0].std() / divisor, both[:, 0, 1].std() / divisor) for divisor in (math.sqrt(2), 2.0)}
    corollary, algorithm = stds.values()
    skew = float(np.abs(drawn[0] - drawn[0].T).max())
    expected = ((math.sqrt(2), 1.0), (1.0, math.sqrt(0.5)))
    close = all(
        abs(got / want - 1) < 0.02
        for pair, wants in zip(stds.values(), expected, strict=True)
        for got, want in zip(pair, wants, strict=True)
    )
    return Erratum(
        2,
        "Cor. 5, Cor. 6, Cor. 11, Alg. 2",
        "Noise on matrices is (Z' + Z'^T)/sqrt(2) in Cor. 5, (Z' + Z'^T)/2 in Alg. 2, and not symmetric in Cor. 6 and 11.",
        "Halving is enough: isotropic noise in the Frobenius norm has sigma on the diagonal and sigma/sqrt(2) off it. Cor. 5 adds sqrt(2) "
        "times that. Without symmetry ||x|| in the norm of Lambda^-1 is no norm.",
        f"Standard deviations on and off the diagonal in units of sigma: {corollary[0]:.3f}, {corollary[1]:.3f} (Cor. 5); "
        f"{algorithm[0]:.3f}, {algorithm[1]:.3f} (Alg. 2). A draw as in Cor. 6 is {skew:.2f} sigma from its transpose.",
        bool(close and skew > 0),
        "100 000 draws",
        {"corollary_off": float(corollary[1]), "algorithm_off": float(algorithm[1])},
    )


def moment_updates() -> Erratum:
    return Erratum(
        3,
        "Alg. 3",
        "In the copy of the text that was read the updates of Lambda~ and u~ repeat those of Lambda^ and u^ (phi_V, weights sbar^-2), and "
        "the second term of E has phi_V~.",
        "The proof (Lemma 12) needs Lambda~ += phi_{V^2} phi_{V^2}^T, u~ += phi_{V^2} V^2(s'), and phi_{V^2} in both variance "
        "terms. The error may be in the copy only.",
        "",
        None,
        "`mixtures/ucrl_vtr_plus.py` follows the proof",
    )


def largest_l1(d: int, starts: int = 60) -> float:
    """The largest L1 distance of the upper triangles of x x^T and y y^T over the unit ball, by alternating maximisation.

    For fixed signs S of the difference, <S, x x^T> - <S, y y^T> is largest at the outer eigenvectors of S.
    """
    rng, found = np.random.default_rng(d), 0.0
    upper = np.triu_indices(d)
    for _ in range(starts):
        x, y = (v / np.linalg.norm(v) for v in rng.standard_normal((2, d)))
        for _ in range(40):
            signs = np.triu(np.where(np.outer(x, x) >= np.outer(y, y), 1.0, -1.0))
            values, vectors = np.linalg.eigh((signs + signs.T) / 2)
            x, y = (vectors[:, -1] if values[-1] > 0 else 0 * x), (vectors[:, 0] if values[0] < 0 else 0 * y)
            found = max(found, float(np.abs(np.outer(x, x) - np.outer(y, y))[upper].sum()))
    return found


def l1_sensitivity() -> Erratum:
    found = {d: largest_l1(d) for d in (2, 3, 5, 10)}
    epsilons = {d: _pure_epsilon(d) for d in (5, 10, 20)}
    return Erratum(
        4,
        "E.2, E.3, C.4, Remark 6",
        '"The L1 sensitivity of phi phi^T is bounded by 2"; the Laplace noise for pure privacy uses the sensitivities of L2.',
        "It grows with d. So the noise printed for delta = 0 does not give the stated guarantee; with enough noise the regret "
        "bounds of C.4 and Remark 6 grow by a factor of order sqrt(d), that of E.3 by d^(1/3).",
        f"Found by search, for the upper triangle: {', '.join(f'{value:.2f} (d = {d})' for d, value in found.items())}; at most d + 1. "
        f"At nominal epsilon = 1 the noise of C.4 gives {', '.join(f'{value:.2f} (d = {d})' for d, value in epsilons.items())}.",
        abs(found[2] - 2.236) < 0.01
        and abs(found[3] - 2.872) < 0.01
        and abs(found[5] - 4.272) < 0.01
        and all(found[d] <= d + 1 for d in found)
        and min(epsilons.values()) > 1,
        "alternating maximisation; `mixtures/printed.py: printed`",
        {**{f"l1_{d}": value for d, value in found.items()}, **{f"epsilon_{d}": value for d, value in epsilons.items()}},
    )


def _pure_epsilon(d: int) -> float:
    loss = printed(JointDP(1.0, delta=0.0), Setting(100_000, 5, d)).loss
    assert isinstance(loss, PureDP)
    return loss.epsilon


def composition_of_devices() -> Erratum:
    made = printed(LocalDP(1.0, 1e-5), SETTING)
    assert isinstance(made.loss, GaussianDP)
    factor = gaussian_mu(1.0, 1e-5) / made.loss.mu
    return Erratum(
        5,
        "C.3, C.4, Remark 5",
        "Advanced composition is not available for local privacy, so epsilon is divided by 2H.",
        "No composition is needed: all numbers of one user form one vector, to which noise is added once. Its L2 sensitivity is "
        "sqrt(H) times that of a step, not H times.",
        f"Cor. 6 at nominal epsilon = 1 gives {made.loss.epsilon_at(1e-5):.3f}: its noise is {factor:.1f} times what one query needs.",
        factor > 4,
        f"exact Gaussian accounting, {_AT}",
        {"epsilon": made.loss.epsilon_at(1e-5), "factor": factor},
    )


def slack() -> Erratum:
    made = printed(JointDP(1.0, 1e-5), SETTING)
    assert isinstance(made.loss, GaussianDP)
    epsilon, factor = made.loss.epsilon_at(1e-5), gaussian_mu(1.0, 1e-5) / made.loss.mu
    return Erratum(
        6,
        "Cor. 5",
        "sigma_B = (32 H^2/epsilon) sqrt(2 H K_0 ln(8H/delta) ln(4/delta) ln(16 H K_0/delta)), K_0 = ceil(log2 K + 1).",
        "Private, but far from what is needed: two advanced compositions inside each other. K_0 counts one level more than the tree has, "
        "unless K is a power of two.",
        f"At nominal epsilon = 1 it gives epsilon = {short(epsilon)}: {factor:.0f} times too much noise on the same queries through the "
        f"same tree. K_0 = {SETTING.levels}, levels {SETTING.tree.leaves.bit_length()}.",
        epsilon < 2e-3 and SETTING.levels == SETTING.tree.leaves.bit_length() + 1,
        f"exact Gaussian accounting, {_AT}",
        {"epsilon": epsilon, "factor": factor},
    )


def weights() -> Erratum:
    rng, H, d = np.random.default_rng(1), 5.0, 7
    largest = 0.0
    for _ in range(2000):
        phi = rng.standard_normal(d)
        phi *= H * rng.random() ** 0.1 / np.linalg.norm(phi)
        variance = max(H**2 / d, H**2 * rng.random())
        largest = max(largest, float(phi @ phi) / variance)
    return Erratum(
        7,
        "D.2.1",
        "|eta_i| <= sbar^-1 <= sqrt(d), before (9).",
        "|eta_i| <= H/sbar <= sqrt(d): a factor H is missing, as it is there before (8). The norm of sbar^-2 phi phi^T is at most d.",
        f"The largest norm in 2000 draws with sbar^2 >= H^2/d is {largest:.2f} at d = 7; sbar^-1 is at most sqrt(d)/H = "
        f"{math.sqrt(d) / H:.2f}.",
        0.9 * d < largest <= d,
        "search",
        {"largest": largest},
    )


def root() -> Erratum:
    privacy, K, H, d = JointDP(1.0, 1e-5), 100_000, 5, 5
    beta = printed(privacy, SETTING).beta
    common = math.sqrt(2 * H**3 * K * math.log(3 / 0.1))
    inside = 4 * math.sqrt(H**2 * d * K * beta * math.log1p(H * K)) + common
    outside = mixture_bound(privacy, K)
    return Erratum(
        8,
        "C.1.2",
        "R(K) <= 4 sqrt(H^2 d K beta_K log(1 + HK)) + ..., and in the next line R(K) = O~((H d^(1/2) beta_K + H^(3/2)) K^(1/2)).",
        "beta_K stands before the root: the sum of widths is beta_K times a root, and only so do Thm. 7 and the corollaries follow.",
        f"{_AT}: {short(inside)} as printed, {short(outside)} as intended; their ratio is sqrt(beta_K) = {math.sqrt(beta):.0f}, the factor "
        "between the two lines.",
        math.isclose((outside - common) / (inside - common), math.sqrt(beta), rel_tol=1e-9),
        "`papers/luyo21/bounds.py: mixture_bound`",
        {"inside": inside, "outside": outside},
    )


def advanced_composition() -> Erratum:
    k, epsilon, delta = 100, 0.1, 1e-5
    printed_ = math.sqrt(2 * k * math.log(1 / delta) * epsilon + k * epsilon * math.expm1(epsilon))
    right = math.sqrt(2 * k * math.log(1 / delta)) * epsilon + k * epsilon * math.expm1(epsilon)
    each = 1 / math.sqrt(8 * k * math.log(2 / delta))
    used = math.sqrt(2 * k * math.log(2 / delta)) * each + k * each * math.expm1(each)
    return Erratum(
        9,
        "F.6",
        "epsilon' = sqrt(2k log(1/delta) epsilon + k epsilon (e^epsilon - 1)), with failure k delta + delta'.",
        "epsilon' = sqrt(2k log(1/delta')) epsilon + k epsilon (e^epsilon - 1): the root ends earlier, and the logarithm is of delta'. "
        "The form that is used (epsilon/sqrt(8k log(2/delta)) each) follows from that one.",
        f"k = 100, epsilon = .1, delta' = 1e-5: {printed_:.2f} as printed, {right:.2f}. With the shares of the form that is used, k = 100 "
        f"mechanisms give {used:.2f} at nominal 1.",
        printed_ > 2 * right and used <= 1,
        "arithmetic",
        {"printed": printed_, "right": right, "used": used},
    )


def smallest_for_largest() -> Erratum:
    return Erratum(
        10,
        "F.2, F.3",
        "Sensitivities are min over x, y of ||f(x) - f(y)||.",
        "max. As printed they are 0 (at x = y), and so is the noise.",
        "",
        None,
    )


def second_moments() -> Erratum:
    H, made = 5, printed_plus(JointDP(1.0, 1e-5), SETTING)
    largest = float(H**2 * H**2)  # ||phi_{V^2}|| <= H^2 and V^2 <= H^2, both reached by V = H
    return Erratum(
        11,
        "D.3",
        "||phi_{V^2} V^2(s')||_2 <= H^2.",
        "H^4, which is what sigma_{B,2} is made for.",
        f"V = H = 5 gives {largest:.0f}, not {H**2}; sigma_B2 / sigma_B1 = {made.sigma[1] / made.sigma[0]:.0f} = H^4/d.",
        math.isclose(made.sigma[1] / made.sigma[0], H**4 / 5, rel_tol=1e-9),
        "`mixtures/printed.py: printed_plus`",
        {"largest": largest},
    )


def indices() -> Erratum:
    return Erratum(
        12,
        "C.3, D.1, D.4",
        "Upsilon with p/(4KH) beside p/(6KH); Upsilon_{2,high} = Upsilon; C^J in the local setting; Thm. 1 and Thm. 3.",
        "p/(6KH) throughout; 3 Upsilon; C^L; Thm. 7 and Thm. 9.",
        "",
        None,
    )
