"""[Chowdhury21]: Private-OFU-RL, linear quadratic control under joint privacy."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.experiments.analysis import privacy_cost
from confide.privacy.accounting import gaussian_mu
from confide.privacy.request import JointDP, NoPrivacy, Request
from confide.problems.zoo.control import oscillator, thermal
from papers.chowdhury21 import bounds
from papers.chowdhury21 import errata as chowdhury21_errata
from papers.chowdhury21 import errata_proofs as chowdhury21_errata_proofs
from papers.findings import Algorithm, Claim, Erratum, Figure, Line, Panel, Reproduction, Say, Table, short
from papers.fits import exponent, fitted, plain
from papers.luyo21.bounds import nontrivial_from
from papers.norms import norm_claims
from papers.runs import at_random, case, measured, regrets, with_epsilon

Array = npt.NDArray[np.float64]
DELTA, PROBLEM = 1e-5, "oscillator"
OURS, OTHER = "ofu-lq", "certainty-equivalent-lq"
_AT = "oscillator, K = 1e5, alpha = .1"


def reproduce(quick: bool, say: Say) -> Reproduction:
    say("constants and theorems")
    wrong = {erratum.number: erratum for erratum in (*chowdhury21_errata.errata(), *chowdhury21_errata_proofs.errata())}
    calibrations = (
        *privacy_claims(wrong),
        *lemma_claims(wrong),
        *norm_claims(("Lemma 11", "Lemmas 4, 12", "Lemmas 5, 13"), 3),
        *rate_claims(),
    )
    say("algorithms")
    algorithms = (run_all(quick),)
    curves = measure(quick, say)
    return Reproduction(
        "chowdhury21",
        "[Chowdhury21]",
        "Chowdhury, Zhou, Shroff: Adaptive Control of Differentially Private Linear Quadratic Systems. ISIT 2021",
        quick,
        calibrations,
        algorithms,
        (growth(curves), *costs(quick, say)),
        tuple(wrong.values()),
        (constants(),),
        (figure(curves),),
    )


def constants() -> Table:
    rows = []
    for system in (oscillator(), thermal()):
        for epsilon in (0.1, 1.0, 5.0):
            privacy = JointDP(epsilon, DELTA)
            made, loss = bounds.constants(privacy, system.public), bounds.true_loss(privacy, system.public)
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
        "K = 1e5, gamma = 1.2, alpha = .1. True epsilon: of both counters and all releases together, for a user who is replaced, "
        "by exact accounting; the width beta_k, which leaks (erratum 5), is not included. Noise needed: for the same joint query "
        "through the same tree."
    )
    return Table("Thm. 2 and Thm. 3 in numbers", headings, tuple(rows), note)


def privacy_claims(wrong: Mapping[int, Erratum]) -> tuple[Claim, ...]:
    true, fails = bounds.true_epsilon(JointDP(1.0, DELTA)), bounds.first_failure(bounds.true_epsilon, DELTA)
    leak = wrong[5].numbers
    return (
        Claim(
            "Thm. 2, the counters",
            "sigma_i^2 = 8 m Delta_i^2 ln(2/delta)/epsilon^2: what the two counters release is (epsilon, delta)-DP.",
            f"At nominal epsilon = 1, delta = 1e-5: true epsilon {true:.3f}.",
            true <= 1,
            f"`control/printed.py`, {_AT}",
            {"epsilon": true},
        ),
        Claim(
            "Thm. 2, for any epsilon",
            "The same for every epsilon > 0.",
            f"More than the nominal epsilon from {fails:.1f} on (erratum 4).",
            not math.isfinite(fails),
            f"`control/printed.py`, {_AT}, delta = 1e-5",
            {"fails": fails},
        ),
        Claim(
            "Thm. 2, the algorithm",
            "Private-OFU-RL is (epsilon, delta)-JDP.",
            f"Not as printed: the width is not a function of the releases; for two neighbouring data sets with equal releases it is "
            f"{leak['first']:.9f} and {leak['second']:.9f} (erratum 5). With ln det of the release it is.",
            leak["first"] == leak["second"],
            "two data sets that differ in one user",
            leak,
        ),
    )


def lemma_claims(wrong: Mapping[int, Erratum]) -> tuple[Claim, ...]:
    return (
        _confidence(),
        Claim(
            "Lemma 2",
            "Under Assumption 1 ||x|| <= 1 and ||u|| <= gamma.",
            f"The oscillator with R = .06 satisfies Assumption 1, and has an input of length {wrong[7].numbers['input']:.2f} > "
            "gamma = 1.2.",
            wrong[7].numbers["input"] <= wrong[7].numbers["gamma"],
            "`problems/lq_checks.py`, erratum 7",
            wrong[7].numbers,
        ),
        Claim(
            "Lemma 3",
            "||P_h|| <= D, a constant, for all systems of S.",
            f"{wrong[8].numbers['H_5']:.1f} at H = 5 and {wrong[8].numbers['H_40']:.1f} at H = 40 for one of them.",
            wrong[8].numbers["H_40"] < 1.5 * wrong[8].numbers["H_5"],
            "`planners/riccati.py`, erratum 8",
            wrong[8].numbers,
        ),
    )


def _confidence() -> Claim:
    """Lemma 1 with the printed noise drawn, and the exact Z^T Z in the width as it is printed."""
    system, rng, runs = oscillator(), np.random.default_rng(5), 200
    public, made = system.public, bounds.constants(JointDP(1.0, DELTA), oscillator().public)
    theta = np.concatenate([system.A, system.B], axis=1).T
    p, n = theta.shape
    outside, largest = 0, 0.0
    for _ in range(runs):
        Z = rng.uniform(-0.5, 0.5, size=(5000, p))
        W = rng.standard_normal((5000, n))
        W *= (public.noise_radius / np.linalg.norm(W, axis=1))[:, None]
        draw = math.sqrt(made.levels) * made.sigma_1 * rng.standard_normal((p, p))
        N, L = np.triu(draw) + np.triu(draw, 1).T, math.sqrt(made.levels) * made.sigma_2 * rng.standard_normal((p, n))
        S = Z.T @ Z
        V, U = S + N + made.shift * np.eye(p), Z.T @ (Z @ theta + W) + L
        error = np.linalg.solve(V, U) - theta
        found = math.sqrt(max(float(np.trace(error.T @ V @ error)), 0.0))
        share = found / bounds.width(made, S, public.noise_radius, n)
        outside, largest = outside + (share > 1), max(largest, share)
    return Claim(
        "Lemma 1",
        "Theta* is in C_k(alpha) with probability 1 - alpha.",
        f"{runs} draws of data and noise at epsilon = 1: outside in {outside}; the error is at most {largest:.2f} of beta_k.",
        outside <= bounds.FAILURE * runs,
        f"simulation, {_AT}",
        {"outside": float(outside), "largest": largest},
    )


def rate_claims() -> tuple[Claim, ...]:
    one, public, far = JointDP(1.0, DELTA), oscillator().public, 1e60

    def in_H(cost: float | None) -> float:
        return exponent(
            lambda H: bounds.regret_bound(JointDP(1e-3, DELTA), far, bounds.at_horizon(public, int(H)), cost=cost), 1e2
        )

    in_K = exponent(lambda n: bounds.regret_bound(one, n), far)
    in_epsilon = -exponent(lambda epsilon: bounds.regret_bound(JointDP(epsilon, DELTA), far), 1e-9)
    fixed, growing = in_H(1.0), in_H(None)
    worst = public.horizon * (1 + public.gain_bound**2)
    start = nontrivial_from(lambda n: bounds.regret_bound(one, n) * public.horizon / worst)
    how = "`papers/chowdhury21/bounds.py: regret_bound`, around K = 1e60"
    return (
        Claim(
            "Thm. 1, Thm. 3",
            "Regret O(sqrt(K)/sqrt(epsilon)) up to logarithms.",
            f"The proof's bound with its constants: {in_K:.2f} in K, {in_epsilon:.2f} in 1/epsilon. At epsilon = 1 it is below what K "
            f"episodes can cost from K = {short(start)} on.",
            abs(in_K - 0.5) < 0.06 and abs(in_epsilon - 0.5) < 0.06,
            how,
            {"K": in_K, "epsilon": in_epsilon, "nontrivial_from": start},
        ),
        Claim(
            "Thm. 1, Thm. 3",
            "The bound grows like H^(3/2).",
            f"Not proved: {fixed:.2f} if D of Lemma 3 were a constant, {growing:.2f} with D = H ||Q||, which systems of S come near to "
            "(erratum 8).",
            None,
            how,
            {"H_if_constant": fixed, "H": growing},
        ),
    )


def run_all(quick: bool) -> Algorithm:
    many, few, seeds = (10_000, 100, range(2)) if quick else (100_000, 1_000, range(8))
    promises: tuple[Request, ...] = (JointDP(1.0, DELTA), JointDP(10.0, DELTA), NoPrivacy())
    cases = [case(OURS, PROBLEM, privacy, many) for privacy in promises]
    cases += [replace(cases[i], episodes=few).printed() for i in (0, 1, 2)]
    cases.append(case(OURS, "thermal", promises[0], many))
    runs = tuple(measured(spec, seeds if spec.episodes > few else seeds[:2]) for spec in cases)
    return Algorithm("Alg. 1", "Private-OFU-RL", "control/ofu_lq.py: OFULQ", runs)


Curves = dict[str, dict[float, Array]]


def measure(quick: bool, say: Say) -> Curves:
    """Regrets by seed: over K at epsilon = 1, over epsilon at the largest K, as printed, and of our own controller over K."""
    say("growth of regret")
    seeds = range(2 if quick else 8)
    users = (10_000, 40_000) if quick else (10_000, 100_000, 1_000_000)
    epsilons = (2.0, 1.0) if quick else (2.0, 1.0, 0.5, 0.25)
    spec = case(OURS, PROBLEM, JointDP(1.0, DELTA), users[-1])
    few = (30, 100) if quick else (100, 300, 1_000)
    return {
        "users": {n: regrets(replace(spec, episodes=n), seeds) for n in users},
        "epsilon": {e: regrets(with_epsilon(spec, e), seeds) for e in epsilons},
        "printed": {n: regrets(replace(spec, episodes=n).printed(), range(2)) for n in few},
        OTHER: {n: regrets(replace(spec, agent=OTHER, episodes=n), seeds) for n in users},
    }


def growth(curves: Curves) -> Claim:
    users, epsilons = curves["users"], curves["epsilon"]
    in_K = fitted(list(users), np.stack(list(users.values()), axis=1))
    in_epsilon = fitted([1 / e for e in epsilons], np.stack(list(epsilons.values()), axis=1))
    idle = fitted(list(curves["printed"]), np.stack(list(curves["printed"].values()), axis=1))
    under = min(bounds.regret_bound(JointDP(1.0, DELTA), n) / float(found.mean()) for n, found in users.items())
    return Claim(
        "Thm. 3, Abstract",
        "Regret is sub-linear: sqrt(K), and the cost of privacy is of order ln(1/delta)^(1/4)/epsilon^(1/2).",
        f"Private-OFU-RL, our calibration: in K {in_K.against(0.5)} (K = {next(iter(users)):,} to {list(users)[-1]:,}); in 1/epsilon "
        f"{in_epsilon.against(0.5)}. The bound is at least {short(under)} times what was measured. As printed: exponent of K "
        f"{plain(idle)}, nothing is learned.",
        under >= 1,
        f"{PROBLEM}, {len(next(iter(users.values())))} seeds; the claim holds if the regret is below the bound",
        {"in_K": in_K.slope, "in_epsilon": in_epsilon.slope, "under": under},
    )


def costs(quick: bool, say: Say) -> tuple[Claim, ...]:
    say("the cost of privacy")
    users, seeds = (10_000, range(2)) if quick else (100_000, range(8))
    spec = case(OURS, PROBLEM, JointDP(1.0, DELTA), users)
    free = regrets(replace(spec, privacy=NoPrivacy()), seeds)
    cost = privacy_cost(regrets(spec, seeds), free)
    other = regrets(replace(spec, agent=OTHER), seeds)
    return (
        Claim(
            "Sec. IV-B",
            "The first term of the bound is the regret without privacy, the second the cost of privacy.",
            f"Regret at epsilon = 1 over that without privacy: {cost}. Doing nothing costs {short(at_random(spec))}; a controller on "
            f"residuals, without optimism, {short(float(other.mean()))} at epsilon = 1.",
            None,
            f"our calibrations, {PROBLEM}, K = {users:,}",
            {"cost": cost.estimate, "other": float(other.mean())},
        ),
    )


def figure(curves: Curves) -> Figure:
    users = curves["users"]
    over_K = [
        _line("ofu-lq", users, 0),
        _line("ofu-lq as printed", curves["printed"], 0, "dash"),
        _line(f"{OTHER} (ours)", curves[OTHER], 1),
    ]
    bound = tuple(bounds.regret_bound(JointDP(1.0, DELTA), n) for n in users)
    over_K.append(Line("Thm. 3 with its constants", tuple(map(float, users)), bound, None, 0, "dot"))
    ends = (float(min(curves["printed"])), float(max(users)))
    loss = at_random(case(OURS, PROBLEM, NoPrivacy(), 1))
    over_K.append(Line("doing nothing", ends, tuple(loss * end for end in ends), None, None, "dashdot"))
    return Figure(
        "chowdhury21",
        "Regret of Private-OFU-RL on the oscillator with our calibration, as printed (dashed) and as bounded (dotted), against users at "
        "epsilon = 1 and against epsilon. Bands are two standard errors.",
        (
            Panel("users", "users", "regret", tuple(over_K)),
            Panel("privacy", "epsilon", "regret", (_line("ofu-lq", dict(sorted(curves["epsilon"].items())), 0),)),
        ),
    )


def _line(label: str, samples: Mapping[float, Array], tone: int, dash: str = "solid") -> Line:
    error = tuple(2 * float(one.std(ddof=1)) / math.sqrt(len(one)) for one in samples.values())
    return Line(label, tuple(map(float, samples)), tuple(float(one.mean()) for one in samples.values()), error, tone, dash)
