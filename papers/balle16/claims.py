"""[Balle16]: DP-LSW and DP-LSL, their lemmas, and Fig. 1."""

import itertools
import math
from pathlib import Path
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
    search_sensitivity,
    supplement,
    theorem_13,
    theorem_19,
    true_epsilon,
)
from papers.balle16.errata import errata
from papers.findings import Algorithm, Claim, Measurement, Reproduction, Say, Table, short
from papers.fits import exponent
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
SETTINGS = ((0.1, 0.1, 40), (0.1, 0.1, 20), (1.0, 1e-5, 40), (5.0, 1e-5, 40), (55.0, 0.1, 1))


def reproduce(quick: bool, say: Say, users: int | None = None) -> Reproduction:
    """Check [Balle16]. `users` limits the trajectories of Fig. 1."""
    say("constants and lemmas")
    calibrations = (*privacy_claims(), *utility_claims())
    tables = (constants(),)
    say("errata")
    all_errata = errata()
    say("algorithms")
    algorithms = (measure_estimator("DP-LSW", quick), measure_estimator("DP-LSL", quick))
    curves = tuple(fig.measure(quick, say, start, users) for start in chain.STARTS)
    return Reproduction(
        "balle16",
        "[Balle16]",
        "Balle, Gomrokchi, Precup: Differentially Private Policy Evaluation. ICML 2016",
        quick,
        calibrations,
        algorithms,
        fig.claims(curves),
        all_errata,
        tables,
        fig.figures(curves),
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
    note = (
        "A true epsilon of 0 means that the two distributions are closer than delta in total "
        "variation. Ours has half the largest beta and the least alpha."
    )
    return Table("Lemma 1: the privacy of its noise, computed exactly", headings, tuple(rows), note)


def privacy_claims() -> tuple[Claim, ...]:
    epsilon, delta, d = SETTINGS[0]
    alpha, beta = main_text(epsilon, delta, d)
    true = smooth_delta(epsilon, alpha, beta, d)
    enough = smooth_alpha(epsilon, delta, beta, d)
    fails = first_failure(0.1, 1)
    worst = max(
        smooth_delta(e, *supplement(e, q, n), n) / q
        for e in (0.1, 1.0, 5.0)
        for q in (0.1, 1e-5)
        for n in (1, 40)
    )
    lsw = search_sensitivity("w", 600)
    lsl = search_sensitivity("l", 600)
    return (
        CLAIMS.claim(
            "lemma-1-alg-1-alg-2",
            true <= delta,
            {"alpha": alpha, "beta": beta, "enough": enough},
            alpha=alpha,
            beta=short(beta),
            true=short(true),
            enough=enough,
            factor=alpha / enough,
        ),
        CLAIMS.claim("lemma-1", not math.isfinite(fails), {"fails": fails}, fails=fails),
        CLAIMS.claim("supplement-lemma-1", worst <= 1, {"worst": worst}, worst=short(worst)),
        CLAIMS.claim(
            "lemmas-2-4-5-cor-3-thm-6",
            max(lsw) <= 1 + 1e-9,
            {"moved": lsw[0], "changed": lsw[1]},
            moved=lsw[0],
            changed=lsw[1],
        ),
        CLAIMS.claim(
            "lemma-7-cor-8-lemma-9-with-min-thm-10",
            max(lsl) <= 1 + 1e-9,
            {"moved": lsl[0], "changed": lsl[1]},
            moved=lsl[0],
            changed=lsl[1],
        ),
    )


def utility_claims() -> tuple[Claim, ...]:
    risk, bound = theorem_13(1000)
    exact, lemma, _ = lemma_12(1000, 0.5, main_text(0.1, 0.1, 40)[1])
    early, late = (
        exponent(lambda m: fig.excess_risk(m, 1, "DP-LSW"), m, factor=factor)
        for m, factor in ((1e4, 1e2), (1e8, 1e3))
    )
    chain_risk = excess_risk_lsl(100, "chain", 2.0)
    chain_bound = theorem_19(100, "chain", 2.0)
    return (
        _excess_risk_identities(),
        _expectations(),
        CLAIMS.claim(
            "supplement-lemma-12-thm-13-cor-14",
            risk <= bound and exact <= lemma,
            {"lemma_12": exact, "lemma_12_bound": lemma, "risk": risk, "bound": bound},
            exact=short(exact),
            lemma=short(lemma),
            risk=short(risk),
            bound=short(bound),
        ),
        CLAIMS.claim(
            "cor-11-supplement-cor-15",
            late <= -2 + 0.01,
            {"exponent": late, "exponent_before": early},
            late=late,
            early=early,
        ),
        CLAIMS.claim(
            "supplement-thm-19",
            chain_risk <= chain_bound,
            {"risk": chain_risk, "bound": chain_bound},
            chain_risk=short(chain_risk),
            chain_bound=short(chain_bound),
        ),
        _rates(),
    )


def _excess_risk_identities() -> Claim:
    """Lemmas 9 and 16 of the supplement, by drawing the noise."""
    rng = np.random.default_rng(2)
    runs = 100_000
    sigma = 0.3
    ridge = 5.0
    m = 50
    counts = rng.integers(1, m, 6).astype(float)
    returns = rng.random(6) * 10
    Phi = rng.normal(size=(6, 3))
    eta = sigma * rng.standard_normal((runs, 3))
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
        risk = (
            np.einsum("ki,ij,kj->k", theta + eta, gram, theta + eta)
            - 2 * (theta + eta) @ offset
            + theta @ offset
        )
        ratios.append(
            (float(risk.mean()) / expected, float(risk.std()) / math.sqrt(runs) / expected)
        )
    return CLAIMS.claim(
        "excess-risk-identities",
        all(abs(mean - 1) < 4 * error for mean, error in ratios),
        {"lemma_9": ratios[0][0], "lemma_16": ratios[1][0]},
        ratios=" and ".join((f"{mean:.3f} ± {error:.3f}" for mean, error in ratios)),
    )


def _expectations() -> Claim:
    """Lemmas 11 and 18, by summing over all outcomes."""
    m = 12
    p = 0.3
    k, weights = binomial(m, p)
    first = float(weights @ (1 / (k + 1))) / ((1 - (1 - p) ** (m + 1)) / (p * (m + 1)))
    tail = (
        (1 - (1 - p) ** (m + 2)) / (p * (m + 2))
        - (1 - p) ** (m + 1)
        - p * (m + 1) / 2 * (1 - p) ** m
    )
    second = float(weights[1:] @ (1 / k[1:] ** 2)) / (6 / (p * (m + 1)) * tail)
    both, one, other = 0.2, 0.3, 0.1  # of s and s', of s alone, of s' alone
    users = 6
    product = 0.0
    alone = 0.0
    for outcome in itertools.product(range(users + 1), repeat=3):
        a, b, c = outcome
        if a + b + c > users:
            continue
        ways = math.factorial(users) / math.prod(
            math.factorial(n) for n in (a, b, c, users - a - b - c)
        )
        chance = (
            ways * both**a * one**b * other**c * (1 - both - one - other) ** (users - a - b - c)
        )
        product += chance * (a + b) * (a + c)
        alone += chance * (a + b) * (a + c == 0)
    p_s = both + one
    p_t = both + other
    stated = users * (users - 1) * p_s * p_t + users * both, users * one * (1 - p_t) ** (users - 1)
    exact = (
        abs(first - 1) < 1e-9
        and abs(product / stated[0] - 1) < 1e-9
        and abs(alone / stated[1] - 1) < 1e-9
    )
    return CLAIMS.claim(
        "expectations",
        exact and second <= 1,
        {"slack": 1 / second},
        slack=1 / second,
    )


def _rates() -> Claim:
    """Cor. 12: how fast the excess risk of DP-LSL at lambda = m^a falls.

    It must fall at least as fast as the largest of the three terms.
    """
    measured_and_stated: dict[str, Any] = {}
    for a in (0.5, 0.75, 1.0):

        def risk(m: float, a: float = a) -> float:
            ridge = m**a
            sigma = chain.noise_std(chain.dp_lsl(ridge, "paper"), m)
            visits = float(chain.expected_counts(m).sum())
            return float((ridge * chain.STATES / 2 + visits) / m * sigma**2)

        measured_and_stated[f"{a:g}"] = exponent(risk, 1e8), max(-1 - a, -2 * a, 1 - 3 * a)
    exponents = "; ".join(
        f"lambda = m^{a}: {value:.2f}, stated {stated:.2f}"
        for a, (value, stated) in measured_and_stated.items()
    )
    return CLAIMS.claim(
        "rates",
        all(value <= stated + 0.02 for value, stated in measured_and_stated.values()),
        {a: value for a, (value, _) in measured_and_stated.items()},
        exponents=exponents,
    )


def measure_estimator(name: str, quick: bool) -> Algorithm:
    users, runs = (10_000, 3) if quick else (100_000, 10)
    ridge = 30 * math.sqrt(users)
    measurements = []
    logs = [chain.ChainLog(users, (9, run)) for run in range(runs)]
    plain = [chain.rmse(chain.lsw().release(log).values) for log in logs]
    for promise in (chain.PROMISE, CentralDP(1.0, 1e-5)):
        for calibration in ("paper", "tight"):
            estimator: Any = (
                chain.dp_lsw(calibration) if name == "DP-LSW" else chain.dp_lsl(ridge, calibration)
            )
            noise = chain.mechanism(estimator, promise)
            errors = [
                chain.rmse(
                    chain.release_values(estimator, log, np.random.default_rng((run, 8)), promise)
                )
                for run, log in enumerate(logs)
            ]
            measurements.append(
                Measurement(
                    f"{calibration}, {promise}, chain, {users:,} trajectories"
                    + ("" if name == "DP-LSW" else f", lambda = {ridge:.3g}"),
                    true_epsilon(noise.alpha, noise.beta, promise.delta, chain.STATES),
                    "RMSE",
                    float(np.mean(errors)),
                    float(np.std(errors, ddof=1) / math.sqrt(runs)),
                    f"LSW {short(float(np.mean(plain)))}, "
                    f"constant 1/2 {chain.constant_error():.3f}",
                )
            )
    locator, place = {
        "DP-LSW": ("Alg. 1", "evaluation/dp_lsw.py: DPLSW"),
        "DP-LSL": ("Alg. 2", "evaluation/dp_lsl.py: DPLSL"),
    }[name]
    return Algorithm(locator, name, place, tuple(measurements))
