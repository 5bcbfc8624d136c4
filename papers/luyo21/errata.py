"""The errata of [Luyo21] on linear mixtures (Alg. 1 and 3) and in its tools.

Each has the computation that shows it.
"""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.mechanisms.symmetric import MIRRORED
from confide.mixtures.printed import MixtureSetting, printed, printed_plus, true_loss
from confide.privacy.accounting import gaussian_mu
from confide.privacy.loss import GaussianDP, PureDP
from confide.privacy.request import JointDP, LocalDP
from confide.statistics.bounds import RegressionRows
from papers.findings import Erratum, short
from papers.luyo21.bounds import mixture_bound
from papers.text import Texts

ERRATA = Texts(Path(__file__).with_name("errata.toml"))
Array = npt.NDArray[np.float64]
SETTING = MixtureSetting(100_000, 5, 5)


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
    constants = printed(JointDP(1.0, 1e-5), SETTING)
    H = 5
    smallest = constants.ridge + constants.upsilon
    bonus = constants.beta / math.sqrt(smallest)
    a = 3 + bonus  # of w~ = -a, along the feature of one state
    V = 1.0
    lowest = 0.0
    for _ in range(H - 1):
        V = min(float(H), 1.0 - a * V + bonus * abs(V))
        lowest = min(lowest, V)
    away = (1 + bonus) * smallest / (constants.sigma * math.sqrt(SETTING.levels))
    return ERRATA.erratum(
        "lower-clip",
        lowest < -H and lowest**2 > H**2,
        {"lowest": lowest, "deviations": away},
        a=a,
        lowest=lowest,
        share=lowest**2 / H**2,
        away=away,
    )


def symmetrisation() -> Erratum:
    rng = np.random.default_rng(0)
    d = 5
    drawn = rng.standard_normal((100_000, d, d))
    both = drawn + drawn.swapaxes(1, 2)
    stds = {
        divisor: (both[:, 0, 0].std() / divisor, both[:, 0, 1].std() / divisor)
        for divisor in (math.sqrt(2), 2.0)
    }
    corollary, algorithm = stds.values()
    skew = float(np.abs(drawn[0] - drawn[0].T).max())
    expected = ((math.sqrt(2), 1.0), (1.0, math.sqrt(0.5)))
    close = all(
        abs(got / want - 1) < 0.02
        for pair, wants in zip(stds.values(), expected, strict=True)
        for got, want in zip(pair, wants, strict=True)
    )
    return ERRATA.erratum(
        "symmetrisation",
        bool(close and skew > 0),
        {"corollary_off": float(corollary[1]), "algorithm_off": float(algorithm[1])},
        corollary_diagonal=corollary[0],
        corollary_off=corollary[1],
        algorithm_diagonal=algorithm[0],
        algorithm_off=algorithm[1],
        skew=skew,
    )


def moment_updates() -> Erratum:
    return ERRATA.erratum("moment-updates", None)


def largest_l1(d: int, starts: int = 60) -> float:
    """The largest L1 distance of the upper triangles of x x^T and y y^T over the unit ball.

    The search maximises alternately. For fixed signs S of the difference, <S, x x^T> - <S, y y^T>
    is largest at the outer eigenvectors of S.
    """
    rng = np.random.default_rng(d)
    largest = 0.0
    upper = np.triu_indices(d)
    for _ in range(starts):
        x, y = (v / np.linalg.norm(v) for v in rng.standard_normal((2, d)))
        for _ in range(40):
            signs = np.triu(np.where(np.outer(x, x) >= np.outer(y, y), 1.0, -1.0))
            values, vectors = np.linalg.eigh((signs + signs.T) / 2)
            x = vectors[:, -1] if values[-1] > 0 else 0 * x
            y = vectors[:, 0] if values[0] < 0 else 0 * y
            largest = max(largest, float(np.abs(np.outer(x, x) - np.outer(y, y))[upper].sum()))
    return largest


def l1_sensitivity() -> Erratum:
    distances = {d: largest_l1(d) for d in (2, 3, 5, 10)}
    epsilons = {d: _pure_epsilon(d) for d in (5, 10, 20)}
    return ERRATA.erratum(
        "l1-sensitivity",
        abs(distances[2] - 2.236) < 0.01
        and abs(distances[3] - 2.872) < 0.01
        and abs(distances[5] - 4.272) < 0.01
        and all(distances[d] <= d + 1 for d in distances)
        and min(epsilons.values()) > 1,
        {
            **{f"l1_{d}": value for d, value in distances.items()},
            **{f"epsilon_{d}": value for d, value in epsilons.items()},
        },
        distances=", ".join((f"{value:.2f} (d = {d})" for d, value in distances.items())),
        epsilons=", ".join((f"{value:.2f} (d = {d})" for d, value in epsilons.items())),
    )


def _pure_epsilon(d: int) -> float:
    """The true epsilon of Laplace noise for L1 sensitivities of 2 H^2, at nominal epsilon = 1.

    Composition is simple, over 2 H statistics and K_0 levels.
    """
    privacy = JointDP(1.0, delta=0.0)
    setting = MixtureSetting(100_000, 5, d)
    H = setting.horizon
    bound = RegressionRows(setting.steps, d, H, H, nonnegative=True, off_diagonal=MIRRORED)
    loss = true_loss(privacy, setting, bound, 2 * H**2 * 2 * H * setting.levels)
    assert isinstance(loss, PureDP)
    return loss.epsilon


def composition_of_devices() -> Erratum:
    constants = printed(LocalDP(1.0, 1e-5), SETTING)
    assert isinstance(constants.loss, GaussianDP)
    factor = gaussian_mu(1.0, 1e-5) / constants.loss.mu
    return ERRATA.erratum(
        "composition-of-devices",
        factor > 4,
        {"epsilon": constants.loss.epsilon_at(1e-5), "factor": factor},
        epsilon=constants.loss.epsilon_at(1e-05),
        factor=factor,
    )


def slack() -> Erratum:
    constants = printed(JointDP(1.0, 1e-5), SETTING)
    assert isinstance(constants.loss, GaussianDP)
    epsilon = constants.loss.epsilon_at(1e-5)
    factor = gaussian_mu(1.0, 1e-5) / constants.loss.mu
    return ERRATA.erratum(
        "slack",
        epsilon < 2e-3 and SETTING.levels == SETTING.tree.leaves.bit_length() + 1,
        {"epsilon": epsilon, "factor": factor},
        epsilon=short(epsilon),
        factor=factor,
        levels=SETTING.levels,
        true_levels=SETTING.tree.leaves.bit_length(),
    )


def weights() -> Erratum:
    rng = np.random.default_rng(1)
    H = 5.0
    d = 7
    largest = 0.0
    for _ in range(2000):
        phi = rng.standard_normal(d)
        phi *= H * rng.random() ** 0.1 / np.linalg.norm(phi)
        variance = max(H**2 / d, H**2 * rng.random())
        largest = max(largest, float(phi @ phi) / variance)
    return ERRATA.erratum(
        "weights",
        0.9 * d < largest <= d,
        {"largest": largest},
        largest=largest,
        factor=math.sqrt(d) / H,
    )


def root() -> Erratum:
    privacy = JointDP(1.0, 1e-5)
    K = 100_000
    H = 5
    d = 5
    beta = printed(privacy, SETTING).beta
    common = math.sqrt(2 * H**3 * K * math.log(3 / 0.1))
    inside = 4 * math.sqrt(H**2 * d * K * beta * math.log1p(H * K)) + common
    outside = mixture_bound(privacy, K)
    return ERRATA.erratum(
        "root",
        math.isclose((outside - common) / (inside - common), math.sqrt(beta), rel_tol=1e-9),
        {"inside": inside, "outside": outside},
        inside=short(inside),
        outside=short(outside),
        root=math.sqrt(beta),
    )


def advanced_composition() -> Erratum:
    k = 100
    epsilon = 0.1
    delta = 1e-5
    printed_ = math.sqrt(2 * k * math.log(1 / delta) * epsilon + k * epsilon * math.expm1(epsilon))
    right = math.sqrt(2 * k * math.log(1 / delta)) * epsilon + k * epsilon * math.expm1(epsilon)
    each = 1 / math.sqrt(8 * k * math.log(2 / delta))
    used = math.sqrt(2 * k * math.log(2 / delta)) * each + k * each * math.expm1(each)
    return ERRATA.erratum(
        "advanced-composition",
        printed_ > 2 * right and used <= 1,
        {"printed": printed_, "right": right, "used": used},
        printed_=printed_,
        right=right,
        used=used,
    )


def smallest_for_largest() -> Erratum:
    return ERRATA.erratum("smallest-for-largest", None)


def second_moments() -> Erratum:
    H = 5
    constants = printed_plus(JointDP(1.0, 1e-5), SETTING)
    largest = float(H**2 * H**2)  # ||phi_{V^2}|| <= H^2 and V^2 <= H^2, both reached by V = H
    return ERRATA.erratum(
        "second-moments",
        math.isclose(constants.sigma[1] / constants.sigma[0], H**4 / 5, rel_tol=1e-9),
        {"largest": largest},
        largest=largest,
        H_squared=H**2,
        ratio=constants.sigma[1] / constants.sigma[0],
    )


def indices() -> Erratum:
    return ERRATA.erratum("indices", None)
