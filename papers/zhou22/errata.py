"""The errata of [Zhou22], each with the computation that shows it."""

import math

import numpy as np

from confide.planners.regression import Regularity
from confide.privacy.request import JointDP
from papers.findings import Erratum, short
from papers.fits import exponent
from papers.zhou22.bounds import K, constants, first_failure, terms, true_epsilon

_AT = "K = 1e5, H = d1 = 5, d2 = 3"


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
    rng, matrix, vector = np.random.default_rng(0), 0.0, 0.0
    for _ in range(4000):
        x, y = rng.standard_normal((2, 4))
        x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
        if rng.random() < 0.5:
            y = y - (x @ y) * x
            y /= np.linalg.norm(y)
        matrix = max(matrix, float(np.linalg.norm(np.outer(x, x) - np.outer(y, y))))
        vector = max(vector, float(np.linalg.norm(x - rng.choice([-1.0, 1.0]) * (x if rng.random() < 0.5 else y))))
    fails = {(delta, H): first_failure(delta, H) for delta in (0.1, 1e-5) for H in (2, 5)}
    said = ", ".join(f"{epsilon:.0f} (delta = {delta:g}, H = {H})" for (delta, H), epsilon in fails.items())
    nominal = true_epsilon(JointDP(1.0, 1e-5))
    return Erratum(
        1,
        "Thm. 6.4",
        'Delta_{p,1} = d1 H^2, Delta_{p,2} = sqrt(d1) H^2, Delta_r = 1: "the maximum change if the state-action pair of a single '
        'episode is changed".',
        "Those are the norms of one contribution, as for a user who is left out. A user who is replaced moves matrices by sqrt(2) times "
        "and vectors by up to 2 times as much. Composition over H steps leaves enough slack for this, except at a large epsilon.",
        f"Unit features: {matrix:.4f} and {vector:.4f} found by search. With the right ones the printed noise gives epsilon = "
        f"{nominal:.3f} at nominal 1, and more than its nominal epsilon from {said} on.",
        abs(matrix - math.sqrt(2)) < 1e-6 and abs(vector - 2) < 1e-6 and nominal < 1,
        f"`mixtures/printed.py`, exact Gaussian accounting; {_AT}",
        {"matrix": matrix, "vector": vector, "epsilon": nominal, **{f"fails_{d:g}_{H}": e for (d, H), e in fails.items()}},
    )


def concentrated() -> Erratum:
    """epsilon of one counter by the paper's own conversion, in units of epsilon/4."""

    def overshoot(epsilon: float, delta: float) -> float:
        rho = epsilon**2 / (64 * math.log(4 / delta))
        return (rho + 2 * math.sqrt(rho * math.log(4 / delta))) / (epsilon / 4)

    over = {epsilon: overshoot(epsilon, 1e-5) for epsilon in (0.1, 1.0, 10.0)}
    return Erratum(
        2,
        "Thm. 6.4",
        "sigma^2 = 32 m Delta^2 ln(4/delta)/epsilon^2 makes a counter (epsilon/4, delta/4)-DP, up to O().",
        "Slightly more: rho + 2 sqrt(rho ln(4/delta)) with rho = epsilon^2/(64 ln(4/delta)) is epsilon/4 (1 + epsilon/(16 ln(4/delta))).",
        "By the paper's conversion, in units of epsilon/4 at delta = 1e-5: "
        + ", ".join(f"{value:.4f} (epsilon = {epsilon:g})" for epsilon, value in over.items())
        + ".",
        all(value > 1 for value in over.values()) and over[1.0] < 1.01,
        "arithmetic",
        {f"at_{epsilon:g}": value for epsilon, value in over.items()},
    )


def features_of_the_past() -> Erratum:
    """Regress V^j(s') on features made with this episode's values, and on those of the episode it was seen in."""
    rng, S, d, n = np.random.default_rng(1), 8, 3, 20_000
    kernels, w = rng.dirichlet(np.full(S, 0.3), size=(d, S)), np.array([0.6, 0.3, 0.1])
    P, values = np.einsum("i,isj->sj", w, kernels), rng.random((50, S))
    states, episodes = rng.integers(S, size=n), rng.integers(50, size=n)
    after = (P[states].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    targets = values[episodes, after]
    rows = {"j": np.einsum("isj,kj->kis", kernels, values)[episodes, :, states], "k": (kernels @ values[0])[:, states].T}
    errors = {name: float(np.linalg.norm(np.linalg.lstsq(X, targets, rcond=None)[0] - w)) for name, X in rows.items()}
    return Erratum(
        3,
        "Sec. 3, Sec. 6.1",
        "Sums over past episodes j are of phi_h^k(s^j, a^j), made with the values of episode k, against V^j(s').",
        "phi_h^j. With phi^k the regression is of one value on the features of another, and the sums are not prefix sums: every "
        "past term changes with V, so that a counter cannot compute them. Appendix A has phi^j.",
        f"20 000 transitions under 50 value functions: distance of the estimate from the truth {errors['j']:.3f} with phi^j, "
        f"{errors['k']:.3f} with phi^k.",
        errors["j"] < 0.1 < errors["k"],
        "least squares, 8 states, 3 kernels",
        errors,
    )


def first_matrix() -> Erratum:
    made, rank = constants(JointDP(1.0, 1e-5)), int(np.linalg.matrix_rank(np.zeros((5, 5))))
    return Erratum(
        4,
        "Alg. 1, Alg. 2, line 1",
        "Lambda^1 = 0.",
        "It is inverted in the first episode: it must start at the shift 2 Sigma I.",
        f"The rank of Lambda^1 as printed is {rank}. At epsilon = 1 the shift is {short(2 * made.transitions.lambda_min)} for transitions, "
        f"{short(2 * made.rewards.lambda_min)} for rewards.",
        rank == 0,
        _AT,
        {"transitions": 2 * made.transitions.lambda_min, "rewards": 2 * made.rewards.lambda_min},
    )


def reward_parameter() -> Erratum:
    return Erratum(
        5,
        "Sec. 5",
        "The evaluation estimates r_h with varphi^T theta^_{h,p}.",
        "theta^_{h,r}, as line 11 of Alg. 2 has it.",
        "",
        None,
    )


def levels() -> Erratum:
    agree = all((k - 1).bit_length() == math.ceil(math.log2(k)) for k in range(2, 5000))
    natural, right = math.ceil(math.log(K)), (K - 1).bit_length()
    return Erratum(
        6,
        "Lemma 6.1",
        "m = ceil(log K) bounds the partial sums that an episode is in; the stream has K episodes.",
        "The logarithm is to base 2, and it holds for K - 1 leaves, since the sum of all K is never read; with K leaves it is one more if "
        "K is a power of two. At K = 1 it is 0, and so is the noise.",
        f"For K = 2 to 4999 ceil(log2 K) is the number of levels over K - 1 leaves: {'yes' if agree else 'no'}. At K = 1e5: {right} "
        f"levels; the natural logarithm would give {natural}.",
        agree and natural < right,
        "counting",
        {"levels": float(right), "natural": float(natural)},
    )


def squared_norm() -> Erratum:
    rng = np.random.default_rng(2)
    X, y, Z = rng.standard_normal((30, 2)), rng.standard_normal(30), 5.0 * np.eye(2)
    formula = np.linalg.solve(Z + X.T @ X, X.T @ y)

    def slope(theta: np.ndarray, power: int) -> float:
        """Of the gradient at theta, for the norm to this power."""
        norm = math.sqrt(float(theta @ Z @ theta))
        penalty = Z @ theta / norm if power == 1 else 2 * Z @ theta
        return float(np.linalg.norm(penalty - 2 * X.T @ (y - X @ theta)))

    plain, squared = slope(formula, 1), slope(formula, 2)
    return Erratum(
        7,
        "Sec. 3",
        "theta^k = argmin ||theta||_Z + sum (y - <phi, theta>)^2 = (Z + sum phi phi^T)^-1 sum phi y.",
        "||theta||_Z^2: the closed form is the minimiser of the sum with the square.",
        f"The gradient at the closed form has norm {squared:.1e} with the square and {plain:.2f} without, on a random instance.",
        squared < 1e-9 and plain > 0.1,
        "30 rows, 2 features",
        {"squared": squared, "plain": plain},
    )


def reward_factor() -> Erratum:
    """T_1 + T_2 of the proof where both regularizers are alike and large, against the theorem's second term."""
    size = Regularity(1e20, 1e20, 0.0)

    def proved(H: float) -> float:
        beta = math.sqrt(5 * size.lambda_max)
        return sum(terms(beta, beta, size, size, 1e30, int(H), 5, 5))

    def stated(H: float) -> float:
        return math.sqrt(1e30 * H * H * 5 * math.log1p(1e30 * H**2 / size.lambda_min)) * math.sqrt(5 * size.lambda_max)

    found, claimed = exponent(proved, 1e4), exponent(stated, 1e4)
    return Erratum(
        8,
        "Thm. 4.1, Thm. 5.1",
        "R(T) has sqrt(T H d kappa) (sqrt(d lambda_max) + nu) with lambda_max the larger of both regularizers.",
        "For the rewards the proof has a factor H more: T_2 = 2 H beta_r sqrt(KH) .... The theorems hold as stated only if lambda_max,r "
        "and nu_r^2 are H^2 times smaller than those of the transitions, as they are in Thm. 6.5.",
        f"Equal regularizers: T_1 + T_2 grows like H^{found:.2f}, the stated term like H^{claimed:.2f} (K fixed).",
        found > claimed + 0.8,
        "`papers/zhou22/bounds.py: terms`",
        {"proved": found, "stated": claimed},
    )


def mirrored_noise() -> Erratum:
    rng, d = np.random.default_rng(3), 5
    drawn = rng.standard_normal((4000, d, d))
    mirrored = np.triu(drawn) + np.triu(drawn, 1).swapaxes(1, 2)
    isotropic = (drawn + drawn.swapaxes(1, 2)) / 2
    means = [float(np.linalg.norm(noise, 2, axis=(1, 2)).mean()) for noise in (mirrored, isotropic)]
    bound = 4 * math.sqrt(d) + math.sqrt(8 * math.log(8))
    return Erratum(
        9,
        "Sec. 6.1, Lemma B.4",
        "Entries above the diagonal get the same noise as those on it, and are mirrored; the norm is bounded by 4 sigma sqrt(d) + ....",
        "sigma/sqrt(2) off the diagonal gives the same privacy in the Frobenius norm; the norm is about 2 sigma sqrt(d).",
        f"Mean norms at d = 5, sigma = 1: {means[0]:.2f} mirrored, {means[1]:.2f} isotropic; the bound at confidence 3/4 is {bound:.2f}.",
        means[1] < means[0] < bound,
        "4000 draws",
        {"mirrored": means[0], "isotropic": means[1], "bound": bound},
    )


def indices() -> Erratum:
    return Erratum(
        10,
        "Sec. 6.3, Sec. 7.1, Lemma 7.2",
        "nu_p = sigma_{r,2} ... for rewards; V_h^pi beside V_{h+1}^k in T_3; (s_h^k, a_h^k) in a statement about every (s, a).",
        "nu_r; V_{h+1}^pi; (s, a).",
        "",
        None,
    )
