"""[Balle16]: DP-LSW and DP-LSL, their lemmas, and Fig. 1."""

import itertools
import math
from typing import Any

import numpy as np

from confide.mechanisms.smooth import calibrate, smooth_alpha, smooth_delta
from confide.privacy.request import CentralDP
from papers.balle16 import chain
from papers.balle16 import figure as fig
from papers.balle16.bounds import (
    binomial,
    excess_risk_lsl,
    first_failure,
    lemma_12,
    main_text,
    searched,
    supplement,
    theorem_13,
    theorem_19,
    true_epsilon,
)
from papers.balle16.errata import errata
from papers.findings import Algorithm, Claim, Measurement, Reproduction, Say, Table, short
from papers.fits import exponent

SETTINGS = ((0.1, 0.1, 40), (0.1, 0.1, 20), (1.0, 1e-5, 40), (5.0, 1e-5, 40), (55.0, 0.1, 1))
_SMOOTH = "`mechanisms/smooth.py`, exact divergence"


def reproduce(quick: bool, say: Say) -> Reproduction:
    say("constants and lemmas")
    calibrations, tables = (*privacy_claims(), *utility_claims()), (constants(),)
    say("errata")
    found = errata()
    say("algorithms")
    algorithms = (measured("DP-LSW", quick), measured("DP-LSL", quick))
    curves = fig.measure(quick, say)
    return Reproduction(
        "balle16",
        "[Balle16]",
        "Balle, Gomrokchi, Precup: Differentially Private Policy Evaluation. ICML 2016",
        quick,
        calibrations,
        algorithms,
        fig.claims(curves),
        found,
        tables,
        (fig.figure(curves),),
    )


def constants() -> Table:
    rows = []
    for epsilon, delta, d in SETTINGS:
        alpha, beta = main_text(epsilon, delta, d)
        larger, smaller = supplement(epsilon, delta, d)
        best = calibrate(epsilon, delta, d)
        rows.append(
            (
                f"{epsilon:g}, {delta:g}, {d}",
                f"{short(alpha)}, {short(beta)}",
                short(smooth_delta(epsilon, alpha, beta, d)),
                short(true_epsilon(alpha, beta, delta, d)),
                short(smooth_alpha(epsilon, delta, beta, d)),
                f"{short(larger)}, {short(smaller)}" if epsilon <= 5 else "not proved",
                f"{short(best.alpha)}, {short(best.beta)}",
            )
        )
    headings = (
        "epsilon, delta, d",
        "Lemma 1: alpha, beta",
        "its true delta at epsilon",
        "its true epsilon at delta",
        "sufficient alpha at that beta",
        "supplement: alpha, beta",
        "ours: alpha, beta",
    )
    note = "True epsilon 0: the two distributions are closer than delta in total variation. Ours: half the largest beta, the least alpha."
    return Table("Lemma 1: the privacy of its noise, computed exactly", headings, tuple(rows), note)


def privacy_claims() -> tuple[Claim, ...]:
    epsilon, delta, d = SETTINGS[0]
    alpha, beta = main_text(epsilon, delta, d)
    true = smooth_delta(epsilon, alpha, beta, d)
    enough, fails = smooth_alpha(epsilon, delta, beta, d), first_failure(0.1, 1)
    worst = max(smooth_delta(e, *supplement(e, q, n), n) / q for e in (0.1, 1.0, 5.0) for q in (0.1, 1e-5) for n in (1, 40))
    lsw, lsl = searched("w", 600), searched("l", 600)
    return (
        Claim(
            "Lemma 1, Alg. 1, Alg. 2",
            "alpha = 5 sqrt(2 ln(2/delta))/epsilon, beta = epsilon/(4 (d + ln(2/delta))): (epsilon, delta)-DP.",
            f"epsilon = delta = .1, d = 40: alpha = {alpha:.1f}, beta = {short(beta)}; true delta {short(true)}. "
            f"alpha = {enough:.2f} suffices, which is {alpha / enough:.0f} times less noise.",
            true <= delta,
            _SMOOTH,
            {"alpha": alpha, "beta": beta, "enough": enough},
        ),
        Claim(
            "Lemma 1",
            "The same for every epsilon.",
            f"False from epsilon = {fails:.0f} on at delta = .1, d = 1 (erratum 1).",
            not math.isfinite(fails),
            _SMOOTH,
            {"fails": fails},
        ),
        Claim(
            "Supplement, Lemma 1",
            "alpha = 15 sqrt(2 ln(4/delta))/epsilon and a smaller beta: (epsilon, delta)-DP for epsilon <= 5.",
            f"True delta at most {short(worst)} times the requested delta, over 12 settings.",
            worst <= 1,
            _SMOOTH,
            {"worst": worst},
        ),
        Claim(
            "Lemmas 2, 4, 5, Cor. 3, Thm. 6",
            "A neighbour moves theta^w by at most S(X), and ln S^2 by at most beta: DP-LSW is private wherever Lemma 1 is.",
            f"600 pairs of neighbours, table and features: moves up to {lsw[0]:.2f} S, ln S^2 up to {lsw[1]:.2f} beta.",
            max(lsw) <= 1 + 1e-9,
            "`evaluation/dp_lsw.py: smooth_sensitivity` against search",
            {"moved": lsw[0], "changed": lsw[1]},
        ),
        Claim(
            "Lemma 7, Cor. 8, Lemma 9 with min, Thm. 10",
            "The same for theta^lambda: DP-LSL is private wherever Lemma 1 is.",
            f"600 pairs of neighbours: moves up to {lsl[0]:.2f} S, ln S^2 up to {lsl[1]:.2f} beta.",
            max(lsl) <= 1 + 1e-9,
            "`evaluation/dp_lsl.py: smooth_sensitivity` against search",
            {"moved": lsl[0], "changed": lsl[1]},
        ),
    )


def utility_claims() -> tuple[Claim, ...]:
    risk, bound = theorem_13(1000)
    exact, lemma, _ = lemma_12(1000, 0.5, main_text(0.1, 0.1, 40)[1])
    early, late = (
        exponent(lambda m: fig.excess_risk(m, 1, "DP-LSW"), m, factor=factor) for m, factor in ((1e4, 1e2), (1e8, 1e3))
    )
    chain_risk, chain_bound = excess_risk_lsl(100, "chain", 2.0), theorem_19(100, "chain", 2.0)
    return (
        _excess_risk_identities(),
        _expectations(),
        Claim(
            "Supplement, Lemma 12, Thm. 13, Cor. 14",
            "Bounds on E max_k e^(-k beta)/max(|X_s| - k, 1)^2 and on the excess risk of DP-LSW.",
            f"Lemma 12 at m = 1000, p = 1/2: {short(exact)}, bound {short(lemma)}. Thm. 13 on the chain at m = 1000, in units of alpha^2: "
            f"{short(risk)}, bound {short(bound)} (erratum 3).",
            risk <= bound and exact <= lemma,
            "exact expectation; `LSW.smooth_sensitivity` on 50 data sets",
            {"lemma_12": exact, "lemma_12_bound": lemma, "risk": risk, "bound": bound},
        ),
        Claim(
            "Cor. 11; supplement, Cor. 15",
            "The excess risk of DP-LSW is O(1/m^2) where every state is visited.",
            f"Exponent {late:.3f} between m = 1e8 and 1e11 on the chain, as printed; {early:.2f} between 1e4 and 1e6, where the "
            "factor e^(-k beta) dominates.",
            late <= -2 + 0.01,
            "`LSW.smooth_sensitivity` at the expected counts",
            {"exponent": late, "exponent_before": early},
        ),
        Claim(
            "Supplement, Thm. 19",
            "A bound on the excess risk of DP-LSL.",
            f"On the chain, m = 100, lambda = 2, in units of alpha^2: {short(chain_risk)}, bound {short(chain_bound)} (erratum 4).",
            chain_risk <= chain_bound,
            "`LSL.smooth_sensitivity(printed=True)` on 200 data sets",
            {"risk": chain_risk, "bound": chain_bound},
        ),
        _rates(),
    )


def _excess_risk_identities() -> Claim:
    """Lemmas 9 and 16 of the supplement, by drawing the noise."""
    rng, runs, sigma, ridge, m = np.random.default_rng(2), 100_000, 0.3, 5.0, 50
    counts, returns = rng.integers(1, m, 6).astype(float), rng.random(6) * 10
    Phi, eta = rng.normal(size=(6, 3)), sigma * rng.standard_normal((runs, 3))
    ratios = []
    for gram, offset, expected in (
        (Phi.T @ Phi, Phi.T @ (returns / counts), float(np.square(Phi).sum()) * sigma**2),
        (
            Phi.T @ (counts[:, None] / m * Phi) + ridge / (2 * m) * np.eye(3),
            Phi.T @ returns / m,
            (ridge * 3 / (2 * m) + float(counts @ np.square(Phi).sum(axis=1)) / m) * sigma**2,
        ),
    ):
        theta = np.linalg.solve(gram, offset)
        risk = np.einsum("ki,ij,kj->k", theta + eta, gram, theta + eta) - 2 * (theta + eta) @ offset + theta @ offset
        ratios.append((float(risk.mean()) / expected, float(risk.std()) / math.sqrt(runs) / expected))
    return Claim(
        "Supplement, Lemmas 9, 16",
        "E[J(theta + eta) - J(theta)] = ||Gamma^(1/2) Phi||_F^2 sigma^2, and (lambda d/(2m) + sum rho_s ||phi_s||^2 |X_s|/m) sigma^2.",
        "100 000 draws: " + " and ".join(f"{mean:.3f} ± {error:.3f}" for mean, error in ratios) + " of what is stated.",
        all(abs(mean - 1) < 4 * error for mean, error in ratios),
        "a random instance, 6 states, 3 features",
        {"lemma_9": ratios[0][0], "lemma_16": ratios[1][0]},
    )


def _expectations() -> Claim:
    """Lemmas 11 and 18, by summing over all outcomes."""
    m, p = 12, 0.3
    k, weights = binomial(m, p)
    first = float(weights @ (1 / (k + 1))) / ((1 - (1 - p) ** (m + 1)) / (p * (m + 1)))
    tail = (1 - (1 - p) ** (m + 2)) / (p * (m + 2)) - (1 - p) ** (m + 1) - p * (m + 1) / 2 * (1 - p) ** m
    second = float(weights[1:] @ (1 / k[1:] ** 2)) / (6 / (p * (m + 1)) * tail)
    both, one, other = 0.2, 0.3, 0.1  # of s and s', of s alone, of s' alone
    users, product, alone = 6, 0.0, 0.0
    for outcome in itertools.product(range(users + 1), repeat=3):
        a, b, c = outcome
        if a + b + c > users:
            continue
        ways = math.factorial(users) / math.prod(math.factorial(n) for n in (a, b, c, users - a - b - c))
        chance = ways * both**a * one**b * other**c * (1 - both - one - other) ** (users - a - b - c)
        product += chance * (a + b) * (a + c)
        alone += chance * (a + b) * (a + c == 0)
    p_s, p_t = both + one, both + other
    stated = users * (users - 1) * p_s * p_t + users * both, users * one * (1 - p_t) ** (users - 1)
    exact = abs(first - 1) < 1e-9 and abs(product / stated[0] - 1) < 1e-9 and abs(alone / stated[1] - 1) < 1e-9
    return Claim(
        "Supplement, Lemmas 11, 18",
        "E 1/(B + 1), a bound on E 1/B^2, and the moments of visits.",
        f"The equations hold to 1e-9; the bound is {1 / second:.2f} times the expectation at m = 12, p = .3.",
        exact and second <= 1,
        "all outcomes of 12 and of 6 trajectories",
        {"slack": 1 / second},
    )


def _rates() -> Claim:
    """Cor. 12: the excess risk of DP-LSL at lambda = m^a falls at least as fast as the largest of its three terms."""
    found: dict[str, Any] = {}
    for a in (0.5, 0.75, 1.0):

        def risk(m: float, a: float = a) -> float:
            ridge = m**a
            sigma = chain.noise_std(chain.dp_lsl(ridge, "paper"), m)
            visits = float(chain.expected_counts(m).sum())
            return float((ridge * chain.STATES / 2 + visits) / m * sigma**2)

        found[f"{a:g}"] = exponent(risk, 1e8), max(-1 - a, -2 * a, 1 - 3 * a)
    said = "; ".join(f"lambda = m^{a}: {value:.2f}, stated {stated:.2f}" for a, (value, stated) in found.items())
    return Claim(
        "Cor. 12; supplement, Cor. 20",
        "The excess risk of DP-LSL is O(1/(lambda m) + 1/lambda^2 + m/lambda^3); O(1/m^2) for lambda = Theta(m).",
        f"Exponents between m = 1e8 and 1e11 on the chain, as printed: {said}.",
        all(value <= stated + 0.02 for value, stated in found.values()),
        "`LSL.smooth_sensitivity(printed=True)` at the expected counts",
        {a: value for a, (value, _) in found.items()},
    )


def measured(name: str, quick: bool) -> Algorithm:
    users, runs = (10_000, 3) if quick else (100_000, 10)
    ridge = 30 * math.sqrt(users)
    runs_made = []
    logs = [chain.ChainLog(users, (9, run)) for run in range(runs)]
    plain = [chain.rmse(chain.lsw().release(log).values) for log in logs]
    for promise in (chain.PROMISE, CentralDP(1.0, 1e-5)):
        for calibration, spoken in (("paper", "as printed"), ("tight", "exact")):
            estimator: Any = chain.dp_lsw(calibration) if name == "DP-LSW" else chain.dp_lsl(ridge, calibration)
            made = chain.mechanism(estimator, promise)
            errors = [
                chain.rmse(chain.released(estimator, log, np.random.default_rng((run, 8)), promise))
                for run, log in enumerate(logs)
            ]
            runs_made.append(
                Measurement(
                    f"{spoken}, {promise}, chain, {users:,} trajectories"
                    + ("" if name == "DP-LSW" else f", lambda = {ridge:.3g}"),
                    true_epsilon(made.alpha, made.beta, promise.delta, chain.STATES),
                    "RMSE",
                    float(np.mean(errors)),
                    float(np.std(errors, ddof=1) / math.sqrt(runs)),
                    f"LSW {short(float(np.mean(plain)))}, constant 1/2 {chain.constant_error():.3f}",
                )
            )
    locator, place = {
        "DP-LSW": ("Alg. 1", "evaluation/dp_lsw.py: DPLSW"),
        "DP-LSL": ("Alg. 2", "evaluation/dp_lsl.py: DPLSL"),
    }[name]
    return Algorithm(locator, name, place, tuple(runs_made))
