"""[Chowdhury21]: Private-OFU-RL, linear quadratic control under joint privacy."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.comparison.intervals import privacy_cost
from confide.planners.riccati import riccati
from confide.privacy.accounting import gaussian_mu
from confide.privacy.request import JointDP, NoPrivacy, Request
from confide.problems.zoo.control import oscillator, thermal
from papers.chowdhury21 import bounds
from papers.chowdhury21 import errata as chowdhury21_errata
from papers.chowdhury21 import errata_proofs as chowdhury21_errata_proofs
from papers.findings import (
    Algorithm,
    Claim,
    Erratum,
    Figure,
    Line,
    Panel,
    Reproduction,
    Say,
    Table,
    short,
)
from papers.fits import exponent, fit_growth
from papers.luyo21.bounds import nontrivial_from
from papers.norms import norm_claims
from papers.regret import PaperRuns, judge, paper_lines, run_paper, sizes
from papers.runs import at_random, case, measure_runs, regrets, with_epsilon
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
Array = npt.NDArray[np.float64]
DELTA = 1e-5
PROBLEM = "oscillator"
OURS = "ofu-lq"
OTHER = "certainty-equivalent-lq"


def reproduce(quick: bool, say: Say, users: int | None = None) -> Reproduction:
    say("constants and theorems")
    wrong = {
        erratum.number: erratum
        for erratum in (*chowdhury21_errata.errata(), *chowdhury21_errata_proofs.errata())
    }
    calibrations = (
        *privacy_claims(wrong),
        *lemma_claims(wrong),
        *norm_claims(("Lemma 11", "Lemmas 4, 12", "Lemmas 5, 13"), 3),
        *rate_claims(),
    )
    say("algorithms")
    algorithms = (run_all(quick),)
    printed = run_as_printed(quick, say, users)
    curves = measure(quick, say)
    return Reproduction(
        "chowdhury21",
        "[Chowdhury21]",
        "Chowdhury, Zhou, Shroff: Adaptive Control of Differentially Private Linear Quadratic "
        "Systems. ISIT 2021; "
        "Lemmas 2 to 13, Claims 1 and 2 and the Appendix are those of the long version",
        quick,
        calibrations,
        algorithms,
        (*growth(printed, curves), *costs(quick, say)),
        tuple(wrong.values()),
        (constants(),),
        (figure(printed, curves),),
    )


def constants() -> Table:
    rows = []
    for system in (oscillator(), thermal()):
        for epsilon in (0.1, 1.0, 5.0):
            privacy = JointDP(epsilon, DELTA)
            made = bounds.constants(privacy, system.public)
            loss = bounds.true_loss(privacy, system.public)
            rows.append(
                (
                    system.name,
                    str(privacy),
                    str(made.levels),
                    f"{short(made.sigma_1)}, {short(made.sigma_2)}",
                    short(made.lambda_min),
                    short(made.shift),
                    short(made.nu),
                    short(bounds.width(made, np.zeros((1, 1)), system.noise_radius, 1)),
                    short(loss.epsilon_at(DELTA)),
                    short(gaussian_mu(epsilon, DELTA) / loss.mu),
                )
            )
    headings = (
        "system",
        "request",
        "m",
        "sigma_1, sigma_2",
        "Lambda (= lambda_min = lambda_max/3)",
        "eta",
        "nu",
        "beta_1",
        "true epsilon",
        "noise / noise needed",
    )
    note = (
        "K = 1e5, gamma = 1.2, alpha = .1. The true epsilon is that of both counters and all "
        "releases together, by exact accounting, for a user who is replaced by any other "
        "(Assumption 1 is not used). It does not include the width beta_k, which leaks "
        "(erratum 5). "
        "Noise needed: for the same joint query through the same tree."
    )
    return Table("Thm. 2 and Thm. 3 in numbers", headings, tuple(rows), note)


def privacy_claims(wrong: Mapping[int, Erratum]) -> tuple[Claim, ...]:
    true = bounds.true_epsilon(JointDP(1.0, DELTA))
    fails = bounds.first_failure(bounds.true_epsilon, DELTA)
    leak = wrong[5].numbers
    return (
        CLAIMS.claim("thm-2-the-counters", true <= 1, {"epsilon": true}, true=true),
        CLAIMS.claim(
            "thm-2-for-any-epsilon",
            not math.isfinite(fails),
            {"fails": fails},
            fails=fails,
        ),
        CLAIMS.claim(
            "thm-2-the-algorithm",
            leak["first"] == leak["second"],
            leak,
            first=leak["first"],
            second=leak["second"],
        ),
    )


def lemma_claims(wrong: Mapping[int, Erratum]) -> tuple[Claim, ...]:
    return (
        _confidence(),
        CLAIMS.claim(
            "lemma-2",
            wrong[7].numbers["input"] <= wrong[7].numbers["gamma"],
            wrong[7].numbers,
            largest_input=wrong[7].numbers["input"],
        ),
        _lemma_3(wrong[8]),
    )


def _lemma_3(growing: Erratum) -> Claim:
    """D = H C over systems of S that were drawn at random, most of them with ||Theta||_F = 1."""
    rng = np.random.default_rng(6)
    systems = 2_000
    H = 20
    n = 3
    d = 2
    share = 0.0
    for _ in range(systems):
        theta = rng.standard_normal((n, n + d)) * np.repeat(10.0 ** rng.uniform(-2, 0, 2), (n, d))
        theta /= np.linalg.norm(theta) * rng.choice([1.0, 1.0, 1.5])
        Q = np.diag(rng.uniform(0.1, 1, n))
        R = np.diag(rng.uniform(0.1, 1, d))
        P = riccati(theta[:, :n], theta[:, n:], Q, R, H)[0]
        C = max(np.linalg.norm(Q, 2), np.linalg.norm(R, 2))
        share = max(share, float(np.linalg.norm(P, 2, axis=(1, 2)).max() / (H * C)))
    return CLAIMS.claim(
        "lemma-3",
        share <= 1,
        {"share": share, **growing.numbers},
        systems=systems,
        horizon=H,
        share=share,
        at_5=growing.numbers["H_5"],
        at_40=growing.numbers["H_40"],
    )


def _confidence() -> Claim:
    """Lemma 1 with the paper's noise, and the exact Z^T Z in the width, as the paper prints it."""
    system = oscillator()
    rng = np.random.default_rng(5)
    runs = 200
    public = system.public
    made = bounds.constants(JointDP(1.0, DELTA), oscillator().public)
    theta = np.concatenate([system.A, system.B], axis=1).T
    p, n = theta.shape
    outside = 0
    largest = 0.0
    for _ in range(runs):
        Z = rng.uniform(-0.5, 0.5, size=(5000, p))
        W = rng.standard_normal((5000, n))
        W *= (public.noise_radius / np.linalg.norm(W, axis=1))[:, None]
        draw = math.sqrt(made.levels) * made.sigma_1 * rng.standard_normal((p, p))
        N = np.triu(draw) + np.triu(draw, 1).T
        L = math.sqrt(made.levels) * made.sigma_2 * rng.standard_normal((p, n))
        S = Z.T @ Z
        V = S + N + made.shift * np.eye(p)
        U = Z.T @ (Z @ theta + W) + L
        error = np.linalg.solve(V, U) - theta
        distance = math.sqrt(max(float(np.trace(error.T @ V @ error)), 0.0))
        share = distance / bounds.width(made, S, public.noise_radius, n)
        outside = outside + (share > 1)
        largest = max(largest, share)
    return CLAIMS.claim(
        "confidence",
        outside <= bounds.FAILURE * runs,
        {"outside": float(outside), "largest": largest},
        runs=runs,
        outside=outside,
        largest=largest,
    )


def rate_claims() -> tuple[Claim, ...]:
    one = JointDP(1.0, DELTA)
    public = oscillator().public
    far = 1e60

    def in_H(cost: float | None) -> float:
        return exponent(
            lambda H: bounds.regret_bound(
                JointDP(1e-3, DELTA), far, bounds.at_horizon(public, int(H)), cost=cost
            ),
            1e2,
        )

    in_K = exponent(lambda n: bounds.regret_bound(one, n), far)
    in_epsilon = -exponent(lambda epsilon: bounds.regret_bound(JointDP(epsilon, DELTA), far), 1e-9)
    fixed = in_H(1.0)
    growing = in_H(None)
    worst = public.horizon * (1 + public.gain_bound**2)
    start = nontrivial_from(lambda n: bounds.regret_bound(one, n) * public.horizon / worst)
    return (
        CLAIMS.claim(
            "thm-1-thm-3",
            abs(in_K - 0.5) < 0.06 and abs(in_epsilon - 0.5) < 0.06,
            {"K": in_K, "epsilon": in_epsilon, "nontrivial_from": start},
            in_K=in_K,
            in_epsilon=in_epsilon,
            start=short(start),
        ),
        CLAIMS.claim(
            "thm-1-thm-3-horizon",
            growing < 1.6,
            {"H_if_constant": fixed, "H": growing},
            fixed=fixed,
            growing=growing,
        ),
    )


def run_all(quick: bool) -> Algorithm:
    many, few, seeds = (10_000, 100, range(2)) if quick else (100_000, 1_000, range(8))
    promises: tuple[Request, ...] = (JointDP(1.0, DELTA), JointDP(10.0, DELTA), NoPrivacy())
    cases = [case(OURS, PROBLEM, privacy, many) for privacy in promises]
    cases += [replace(one, episodes=few).with_paper_constants() for one in cases]
    # The largest epsilon at which the paper's noise is not refused. The algorithm begins to learn.
    cases.append(case(OURS, PROBLEM, JointDP(38.0, DELTA), 10 * few).with_paper_constants())
    cases.append(case(OURS, "thermal", promises[0], many))
    runs = tuple(
        measure_runs(spec, seeds if spec.episodes == many else seeds[:2]) for spec in cases
    )
    return Algorithm("Alg. 1", "Private-OFU-RL", "control/ofu_lq.py: OFULQ", runs)


Curves = dict[str, dict[float, Array]]


def run_as_printed(quick: bool, say: Say, users: int | None) -> PaperRuns | str:
    """With the paper's constants at epsilon = 1, for as many users as a few minutes allow."""
    say("the paper's constants")
    planned = sizes(1_000 if quick else 300_000, users)
    return run_paper(case(OURS, PROBLEM, JointDP(1.0, DELTA), planned[-1]), planned, range(1))


def measure(quick: bool, say: Say) -> Curves:
    """Regrets of the tight form by seed, and of our own controller.

    They are over K at epsilon = 1, and over epsilon at the largest K.
    """
    say("growth of regret")
    seeds = range(2 if quick else 8)
    users = (10_000, 40_000) if quick else (10_000, 100_000, 1_000_000)
    epsilons = (2.0, 1.0) if quick else (2.0, 1.0, 0.5, 0.25)
    spec = case(OURS, PROBLEM, JointDP(1.0, DELTA), users[-1])
    return {
        "users": {n: regrets(replace(spec, episodes=n), seeds) for n in users},
        "epsilon": {e: regrets(with_epsilon(spec, e), seeds) for e in epsilons},
        OTHER: {n: regrets(replace(spec, agent=OTHER, episodes=n), seeds) for n in users},
    }


def growth(printed: PaperRuns | str, curves: Curves) -> tuple[Claim, ...]:
    users = curves["users"]
    epsilons = curves["epsilon"]
    in_K = fit_growth(list(users), np.stack(list(users.values()), axis=1))
    in_epsilon = fit_growth([1 / e for e in epsilons], np.stack(list(epsilons.values()), axis=1))
    judged = judge(printed, lambda n: bounds.regret_bound(JointDP(1.0, DELTA), n))
    return (
        CLAIMS.claim("growth", judged.holds, judged.numbers, judged=judged.text, seeds=1),
        CLAIMS.claim(
            "growth-tight",
            None,
            {"in_K": in_K.slope, "in_epsilon": in_epsilon.slope},
            measured_in_K=in_K.against(0.5),
            smallest_K=next(iter(users)),
            largest_K=list(users)[-1],
            measured_in_epsilon=in_epsilon.against(0.5),
            problem=PROBLEM,
            seeds=len(next(iter(users.values()))),
        ),
    )


def costs(quick: bool, say: Say) -> tuple[Claim, ...]:
    say("the cost of privacy")
    users, seeds = (10_000, range(2)) if quick else (100_000, range(8))
    spec = case(OURS, PROBLEM, JointDP(1.0, DELTA), users)
    free = regrets(replace(spec, privacy=NoPrivacy()), seeds)
    cost = privacy_cost(regrets(spec, seeds), free)
    other = regrets(replace(spec, agent=OTHER), seeds)
    return (
        CLAIMS.claim(
            "costs",
            None,
            {"cost": cost.estimate, "other": float(other.mean())},
            cost=cost,
            idle=short(at_random(spec)),
            other=short(float(other.mean())),
            problem=PROBLEM,
            users=users,
        ),
    )


def figure(printed: PaperRuns | str, curves: Curves) -> Figure:
    users = curves["users"]
    over_K = [
        _line("ofu-lq, tight", users, 0),
        *paper_lines("ofu-lq", printed, 0),
        _line(f"{OTHER} (our own algorithm)", curves[OTHER], 1),
    ]
    bound = tuple(bounds.regret_bound(JointDP(1.0, DELTA), n) for n in users)
    over_K.append(
        Line("Thm. 3 with its constants", tuple(map(float, users)), bound, None, 0, "dot")
    )
    ends = (float(min(min(line.x) for line in over_K)), float(max(users)))
    loss = at_random(case(OURS, PROBLEM, NoPrivacy(), 1))
    over_K.append(
        Line("doing nothing", ends, tuple(loss * end for end in ends), None, None, "dashdot")
    )
    return Figure(
        "chowdhury21",
        "Regret of Private-OFU-RL on the oscillator in the tight form, with the paper's constants "
        "(dashed), and the bound of Thm. 3 (dotted), against users at epsilon = 1 and against "
        "epsilon. Bands are two standard errors.",
        (
            Panel("users", "users", "regret", tuple(over_K)),
            Panel(
                "privacy",
                "epsilon",
                "regret",
                (_line("ofu-lq, tight", dict(sorted(curves["epsilon"].items())), 0),),
            ),
        ),
    )


def _line(label: str, samples: Mapping[float, Array], tone: int, dash: str = "solid") -> Line:
    error = tuple(2 * float(one.std(ddof=1)) / math.sqrt(len(one)) for one in samples.values())
    return Line(
        label,
        tuple(map(float, samples)),
        tuple(float(one.mean()) for one in samples.values()),
        error,
        tone,
        dash,
    )
