"""The errata of [Zhou22], each with the computation that shows it."""

import math
from pathlib import Path

import numpy as np

from confide.planners.regularity import Regularity
from confide.privacy.request import JointDP
from papers.findings import Erratum, short
from papers.fits import exponent
from papers.text import Texts
from papers.zhou22.bounds import K, constants, first_failure, terms, true_epsilon

ERRATA = Texts(Path(__file__).with_name("errata.toml"))


def errata() -> tuple[Erratum, ...]:
    return (
        sensitivities(),
        concentrated(),
        features_of_the_past(),
        first_matrix(),
        reward_parameter(),
        levels(),
        squared_norm(),
        reward_factor(),
        mirrored_noise(),
        indices(),
    )


def sensitivities() -> Erratum:
    rng = np.random.default_rng(0)
    matrix = 0.0
    vector = 0.0
    for _ in range(4000):
        x, y = rng.standard_normal((2, 4))
        x = x / np.linalg.norm(x)
        y = y / np.linalg.norm(y)
        if rng.random() < 0.5:
            y = y - (x @ y) * x
            y /= np.linalg.norm(y)
        matrix = max(matrix, float(np.linalg.norm(np.outer(x, x) - np.outer(y, y))))
        vector = max(
            vector,
            float(np.linalg.norm(x - rng.choice([-1.0, 1.0]) * (x if rng.random() < 0.5 else y))),
        )
    fails = {(delta, H): first_failure(delta, H) for delta in (0.1, 1e-5) for H in (2, 5)}
    thresholds = ", ".join(
        f"{epsilon:.0f} (delta = {delta:g}, H = {H})" for (delta, H), epsilon in fails.items()
    )
    nominal = true_epsilon(JointDP(1.0, 1e-5))
    return ERRATA.erratum(
        "sensitivities",
        abs(matrix - math.sqrt(2)) < 1e-6 and abs(vector - 2) < 1e-6 and nominal < 1,
        {
            "matrix": matrix,
            "vector": vector,
            "epsilon": nominal,
            **{f"fails_{d:g}_{H}": e for (d, H), e in fails.items()},
        },
        matrix=matrix,
        vector=vector,
        nominal=nominal,
        thresholds=thresholds,
    )


def concentrated() -> Erratum:
    """epsilon of one counter by the paper's own conversion, in units of epsilon/4."""

    def overshoot(epsilon: float, delta: float) -> float:
        rho = epsilon**2 / (64 * math.log(4 / delta))
        return (rho + 2 * math.sqrt(rho * math.log(4 / delta))) / (epsilon / 4)

    over = {epsilon: overshoot(epsilon, 1e-5) for epsilon in (0.1, 1.0, 10.0)}
    return ERRATA.erratum(
        "concentrated",
        all(value > 1 for value in over.values()) and over[1.0] < 1.01,
        {f"at_{epsilon:g}": value for epsilon, value in over.items()},
        over=", ".join((f"{value:.4f} (epsilon = {epsilon:g})" for epsilon, value in over.items())),
    )


def features_of_the_past() -> Erratum:
    """Regress V^j(s') on features with this episode's values, and on those of episode j."""
    rng = np.random.default_rng(1)
    S = 8
    d = 3
    n = 20_000
    kernels = rng.dirichlet(np.full(S, 0.3), size=(d, S))
    w = np.array([0.6, 0.3, 0.1])
    P = np.einsum("i,isj->sj", w, kernels)
    values = rng.random((50, S))
    states = rng.integers(S, size=n)
    episodes = rng.integers(50, size=n)
    after = (P[states].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    targets = values[episodes, after]
    rows = {
        "j": np.einsum("isj,kj->kis", kernels, values)[episodes, :, states],
        "k": (kernels @ values[0])[:, states].T,
    }
    errors = {
        name: float(np.linalg.norm(np.linalg.lstsq(X, targets, rcond=None)[0] - w))
        for name, X in rows.items()
    }
    return ERRATA.erratum(
        "features-of-the-past",
        errors["j"] < 0.1 < errors["k"],
        errors,
        j=errors["j"],
        k=errors["k"],
    )


def first_matrix() -> Erratum:
    numbers = constants(JointDP(1.0, 1e-5))
    rank = int(np.linalg.matrix_rank(np.zeros((5, 5))))
    return ERRATA.erratum(
        "first-matrix",
        rank == 0,
        {
            "transitions": 2 * numbers.transitions.lambda_min,
            "rewards": 2 * numbers.rewards.lambda_min,
        },
        rank=rank,
        shift_p=short(2 * numbers.transitions.lambda_min),
        shift_r=short(2 * numbers.rewards.lambda_min),
    )


def reward_parameter() -> Erratum:
    return ERRATA.erratum("reward-parameter", None)


def levels() -> Erratum:
    agree = all((k - 1).bit_length() == math.ceil(math.log2(k)) for k in range(2, 5000))
    natural = math.ceil(math.log(K))
    right = (K - 1).bit_length()
    return ERRATA.erratum(
        "levels",
        agree and natural < right,
        {"levels": float(right), "natural": float(natural)},
        agree="yes" if agree else "no",
        right=right,
        natural=natural,
    )


def squared_norm() -> Erratum:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((30, 2))
    y = rng.standard_normal(30)
    Z = 5.0 * np.eye(2)
    formula = np.linalg.solve(Z + X.T @ X, X.T @ y)

    def slope(theta: np.ndarray, power: int) -> float:
        """Of the gradient at theta, for the norm to this power."""
        norm = math.sqrt(float(theta @ Z @ theta))
        penalty = Z @ theta / norm if power == 1 else 2 * Z @ theta
        return float(np.linalg.norm(penalty - 2 * X.T @ (y - X @ theta)))

    plain = slope(formula, 1)
    squared = slope(formula, 2)
    return ERRATA.erratum(
        "squared-norm",
        squared < 1e-9 and plain > 0.1,
        {"squared": squared, "plain": plain},
        squared=squared,
        plain=plain,
    )


def reward_factor() -> Erratum:
    """T_1 + T_2 of the proof against the theorem's second term.

    Both regularizers are alike and large.
    """
    size = Regularity(1e20, 1e20, 0.0)

    def proved(H: float) -> float:
        beta = math.sqrt(5 * size.lambda_max)
        return sum(terms(beta, beta, size, size, 1e30, int(H), 5, 5))

    def stated(H: float) -> float:
        return math.sqrt(1e30 * H * H * 5 * math.log1p(1e30 * H**2 / size.lambda_min)) * math.sqrt(
            5 * size.lambda_max
        )

    proved_exponent = exponent(proved, 1e4)
    claimed = exponent(stated, 1e4)
    return ERRATA.erratum(
        "reward-factor",
        proved_exponent > claimed + 0.8,
        {"proved": proved_exponent, "stated": claimed},
        proved_exponent=proved_exponent,
        claimed=claimed,
    )


def mirrored_noise() -> Erratum:
    rng = np.random.default_rng(3)
    d = 5
    drawn = rng.standard_normal((4000, d, d))
    mirrored = np.triu(drawn) + np.triu(drawn, 1).swapaxes(1, 2)
    isotropic = (drawn + drawn.swapaxes(1, 2)) / 2
    means = [float(np.linalg.norm(noise, 2, axis=(1, 2)).mean()) for noise in (mirrored, isotropic)]
    bound = 4 * math.sqrt(d) + math.sqrt(8 * math.log(8))
    return ERRATA.erratum(
        "mirrored-noise",
        means[1] < means[0] < bound,
        {"mirrored": means[0], "isotropic": means[1], "bound": bound},
        mirrored=means[0],
        isotropic=means[1],
        bound=bound,
    )


def indices() -> Erratum:
    return ERRATA.erratum("indices", None)
