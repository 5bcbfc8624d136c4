"""[Zhou22]: LinOpt-VI and LinOpt-PO, mixtures of kernels with unknown rewards."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.comparison.intervals import privacy_cost
from confide.mixtures.linopt_po import paper_step
from confide.mixtures.value_features import ROW_BOUNDS
from confide.privacy.accounting import gaussian_mu
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from papers.findings import Algorithm, Claim, Figure, Line, Panel, Reproduction, Say, Table, short
from papers.fits import exponent, fit_growth
from papers.luyo21.bounds import nontrivial_from
from papers.norms import norm_claims
from papers.regret import PaperRuns, judge, paper_lines, run_paper, sizes
from papers.runs import at_random, case, measure_runs, regrets, with_epsilon
from papers.text import Texts
from papers.zhou22 import bounds
from papers.zhou22.errata import errata

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
Array = npt.NDArray[np.float64]
DELTA = 1e-5
PROBLEM = "lock-rewards"
_AT = "K = 1e5, H = d1 = 5, d2 = 3, alpha = .1"
_AGENTS = {
    "linopt-vi": ("Alg. 1, Def. 6.2", "Private-LinOpt-VI", "mixtures/linopt_vi.py: LinOptVI"),
    "linopt-po": ("Alg. 2, Def. 6.3", "Private-LinOpt-PO", "mixtures/linopt_po.py: LinOptPO"),
}


def reproduce(quick: bool, say: Say, users: int | None = None) -> Reproduction:
    say("constants and theorems")
    calibrations = (
        *privacy_claims(),
        *regularity_claims(),
        *norm_claims(("Lemma B.3", "Lemma B.4", "Lemma B.5"), bounds.D1),
        *rate_claims(),
        remark_6_6(),
        remark_6_8(),
    )
    say("errata")
    all_errata = errata()
    say("algorithms")
    algorithms = run_all(quick)
    curves = {agent: measure(agent, quick, say, users) for agent in _AGENTS}
    return Reproduction(
        "zhou22",
        "[Zhou22]",
        "Zhou: Differentially Private Reinforcement Learning with Linear Function Approximation. "
        "SIGMETRICS 2022",
        quick,
        calibrations,
        algorithms,
        (
            *(claim for agent in _AGENTS for claim in growth(agent, curves[agent])),
            *costs(quick, say),
        ),
        all_errata,
        (constants(), tabular()),
        (figure(curves),),
    )


def constants() -> Table:
    rows = []
    requests: list[Request] = [
        *(JointDP(e, DELTA) for e in (0.1, 0.5, 1.0, 10.0)),
        LocalDP(1.0, DELTA),
    ]
    for privacy in requests:
        numbers = bounds.constants(privacy)
        mu = bounds.true_loss(privacy).mu
        rows.append(
            (
                str(privacy),
                str(numbers.levels),
                f"{short(numbers.sigma_p1)}, {short(numbers.sigma_p2)}, {short(numbers.sigma_r)}",
                f"{short(numbers.transitions.lambda_min)}, {short(numbers.rewards.lambda_min)}",
                f"{short(numbers.transitions.nu)}, {short(numbers.rewards.nu)}",
                f"{short(numbers.beta_p)}, {short(numbers.beta_r)}",
                short(bounds.true_epsilon(privacy)),
                short(gaussian_mu(privacy.epsilon, DELTA) / mu),
            )
        )
    headings = (
        "request",
        "m",
        "sigma_p1, sigma_p2, sigma_r",
        "Sigma_p, Sigma_r (= lambda_min = lambda_max/3)",
        "nu_p, nu_r",
        "beta_p, beta_r",
        "true epsilon",
        "noise / noise needed",
    )
    note = (
        f"{_AT}. For local privacy Remark 6.9 prints no constants. Noise is added once per user, "
        "so we chose m = 1. The true epsilon has the sensitivities of a user who is replaced."
    )
    return Table("Thm. 6.4, Thm. 6.5 and Lemma 3.1 in numbers", headings, tuple(rows), note)


def privacy_claims() -> tuple[Claim, ...]:
    joint = JointDP(1.0, DELTA)
    local = LocalDP(1.0, DELTA)
    fails = bounds.first_failure(0.1, 2)
    far = [bounds.true_epsilon(JointDP(e, DELTA)) / e for e in (1e3, 1e4)]
    return (
        CLAIMS.claim(
            "privacy-claims",
            bounds.true_epsilon(joint) <= 1,
            {"epsilon": bounds.true_epsilon(joint)},
            epsilon=short(bounds.true_epsilon(joint)),
        ),
        CLAIMS.claim(
            "remark-6-9",
            bounds.true_epsilon(local) <= 1,
            {"epsilon": bounds.true_epsilon(local)},
            epsilon=short(bounds.true_epsilon(local)),
        ),
        CLAIMS.claim(
            "thm-6-4",
            far[1] < 1.5 * far[0],
            {"fails": fails, "at_1e3": far[0], "at_1e4": far[1]},
            fails=fails,
            at_1e3=far[0],
            at_1e4=far[1],
        ),
    )


def regularity_claims() -> tuple[Claim, ...]:
    """Assumption 2 for the paper's noise, by drawing it: sums of m mirrored matrices, shifted."""
    numbers = bounds.constants(JointDP(1.0, DELTA))
    rng = np.random.default_rng(0)
    draws = 2000
    m = numbers.levels
    d = bounds.D1
    Sigma = numbers.transitions.lambda_min
    z = math.sqrt(m) * numbers.sigma_p1 * rng.standard_normal((draws, d, d))
    noise = np.triu(z) + np.triu(z, 1).swapaxes(1, 2)
    Z = noise + 2 * Sigma * np.eye(d)
    low, high = (np.linalg.eigvalsh(Z)[:, i] for i in (0, -1))
    vectors = math.sqrt(m) * numbers.sigma_p2 * rng.standard_normal((draws, d))
    lengths = np.sqrt(np.einsum("ki,kij,kj->k", vectors, np.linalg.inv(Z), vectors))
    outside = int(((low < Sigma) | (high > 3 * Sigma) | (lengths > numbers.transitions.nu)).sum())
    return (
        CLAIMS.claim(
            "regularity-claims",
            outside == 0,
            {"outside": float(outside)},
            draws=draws,
            outside=outside,
            least=low.min() / Sigma,
            most=high.max() / Sigma,
            longest=lengths.max() / numbers.transitions.nu,
        ),
    )


def rate_claims() -> tuple[Claim, ...]:
    return _rate("Thm. 6.5, (4)", bounds.value_bound), _rate("Thm. 6.5, (5)", bounds.policy_bound)


def _rate(locator: str, bound: Callable[..., float]) -> Claim:
    """Exponents of a proof's bound around K = 1e100.

    H counts in T = KH, so that sqrt(T H^4) is H^(5/2) at fixed K.
    """
    one = JointDP(1.0, DELTA)
    small = JointDP(1e-6, DELTA)
    far = 1e100
    exponents = (
        exponent(lambda n: bound(one, n), far),
        -exponent(lambda epsilon: bound(JointDP(epsilon, DELTA), far), 1e-9),
        exponent(lambda d: bound(small, far, bounds.H, int(d)), 1e7),
        exponent(lambda h: bound(small, far, int(h)), 1e4),
    )
    start = nontrivial_from(lambda n: bound(one, n))
    claimed = (1 / 2, 1 / 2, 7 / 4, 5 / 2)
    exponents_text = ", ".join(
        f"{value:.2f} in {name}"
        for name, value in zip(("K", "1/epsilon", "d", "H"), exponents, strict=True)
    )
    return CLAIMS.claim(
        "rate",
        all(abs(value - want) < 0.06 for value, want in zip(exponents, claimed, strict=True)),
        {**dict(zip(("K", "epsilon", "d", "H"), exponents, strict=True)), "nontrivial_from": start},
        locator=locator,
        exponents_text=exponents_text,
        start=short(start),
    )


def remark_6_6() -> Claim:
    """The exponent of d in the private term, for both bounds on rows."""
    small = JointDP(1e-6, DELTA)

    def in_d(row_bound: str) -> float:
        return exponent(
            lambda d: bounds.value_bound(small, 1e100, d=int(d), row_bound=row_bound), 1e7
        )

    wide, narrow = map(in_d, ROW_BOUNDS)
    one = JointDP(1.0, DELTA)
    smaller = bounds.value_bound(one, 1e9) / bounds.value_bound(one, 1e9, row_bound="H")
    return CLAIMS.claim(
        "remark-6-6",
        abs(wide - 7 / 4) < 0.06 and abs(narrow - 5 / 4) < 0.06,
        {"wide": wide, "narrow": narrow, "smaller": smaller},
        wide=wide,
        narrow=narrow,
        smaller=smaller,
    )


TABLES = ((2, 2), (5, 2), (10, 4), (20, 4), (100, 10))


def _compared_bounds(states: int, actions: int) -> tuple[Callable[[float], float], ...]:
    """At epsilon = 1, as functions of K: the quoted bound, (4), and (4) with ||phi|| <= H."""
    one = JointDP(1.0, DELTA)

    def quoted(episodes: float) -> float:
        return bounds.quoted_bound(1.0, episodes, states, actions)

    def wide(episodes: float) -> float:
        return bounds.tabular_bound(one, episodes, states, actions)

    def narrow(episodes: float) -> float:
        return bounds.tabular_bound(one, episodes, states, actions, row_bound="H")

    return quoted, wide, narrow


def tabular() -> Table:
    """Remark 6.8: the bounds that it compares, for tabular MDPs."""
    rows = []
    for S, A in TABLES:
        compared = _compared_bounds(S, A)
        at_1e9 = [short(bound(1e9)) for bound in compared]
        starts = [short(nontrivial_from(bound)) for bound in compared]
        rows.append((str(S), str(A), short(S * S * A), *at_1e9, *starts))
    headings = (
        "S",
        "A",
        "d1 = S^2 A",
        "quoted of Vietri et al., K = 1e9",
        "(4), K = 1e9",
        "(4) with ||phi|| <= H",
        "quoted: below K H from K",
        "(4): from K",
        "(4) with ||phi|| <= H: from K",
    )
    note = (
        "Remark 6.8, H = 5, epsilon = 1. Bound (4) is the proof's bound with its constants for "
        "Private-LinOpt-VI, delta = 1e-5, alpha = .1, on a tabular MDP as a linear mixture, "
        "d2 = S A. The quoted bound of Vietri et al. (delta = 0) has no constants and no "
        "logarithms here, because Remark 6.8 states none. Nobody has compared it with their paper."
    )
    return Table("Remark 6.8: regret bounds for tabular MDPs", headings, tuple(rows), note)


def remark_6_8() -> Claim:
    """The growth of both bounds in the number of states, and their ratio."""
    one = JointDP(1e-6, DELTA)
    far = 1e100
    in_states = exponent(lambda S: bounds.tabular_bound(one, far, int(S), 2), 1e4)
    quoted = exponent(lambda S: bounds.quoted_bound(1.0, 1e9, int(S), 2), 1e6)
    S = 10
    A = 4
    joint = JointDP(1.0, DELTA)
    ratio = bounds.tabular_bound(joint, 1e9, S, A) / bounds.quoted_bound(1.0, 1e9, S, A)
    return CLAIMS.claim(
        "remark-6-8",
        None,
        {"in_states": in_states, "quoted": quoted, "ratio": ratio},
        in_states=in_states,
        quoted=quoted,
        ratio=short(ratio),
        states=S,
        actions=A,
    )


def run_all(quick: bool) -> tuple[Algorithm, ...]:
    many, few = (10_000, 20) if quick else (100_000, 1_000)
    seeds = range(2 if quick else 8)
    algorithms = []
    for agent, (locator, name, place) in _AGENTS.items():
        promises: tuple[Request, ...] = (JointDP(1.0, DELTA), LocalDP(1.0, DELTA), NoPrivacy())
        ours = [
            case(agent, PROBLEM, p, many * (40 if isinstance(p, LocalDP) else 1)) for p in promises
        ]
        printed = [replace(spec, episodes=few).with_paper_constants() for spec in ours[:2]]
        runs = tuple(
            measure_runs(spec, seeds if spec.episodes > 1_000 else seeds[:2])
            for spec in (*ours, *printed)
        )
        algorithms.append(Algorithm(locator, name, place, runs))
    return tuple(algorithms)


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The regret of one algorithm, by seed."""

    tight_over_K: dict[int, Array]  # at epsilon = 1
    tight_over_epsilon: dict[float, Array]  # at the largest K
    paper: PaperRuns | str


def measure(agent: str, quick: bool, say: Say, users: int | None) -> Measured:
    say(f"{agent}: growth of regret")
    seeds = range(2 if quick else 8)
    many = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    epsilons = (1.0, 0.5) if quick else (2.0, 1.0, 0.5, 0.25)
    spec = case(agent, PROBLEM, JointDP(1.0, DELTA), many[-1])
    printed = sizes(200 if quick else 100_000, users)
    return Measured(
        {n: regrets(replace(spec, episodes=n), seeds) for n in many},
        {e: regrets(with_epsilon(spec, e), seeds) for e in epsilons},
        run_paper(spec, printed, range(1)),
    )


def growth(agent: str, measured_runs: Measured) -> tuple[Claim, ...]:
    bound = bounds.value_bound if agent == "linopt-vi" else bounds.policy_bound
    over_K = measured_runs.tight_over_K
    over_epsilon = measured_runs.tight_over_epsilon
    in_K = fit_growth(list(over_K), np.stack(list(over_K.values()), axis=1))
    in_epsilon = fit_growth(
        [1 / e for e in over_epsilon], np.stack(list(over_epsilon.values()), axis=1)
    )
    judged = judge(measured_runs.paper, lambda n: bound(JointDP(1.0, DELTA), n))
    equation = "(4)" if agent == "linopt-vi" else "(5)"
    return (
        CLAIMS.claim(
            "growth",
            judged.holds,
            judged.numbers,
            equation=equation,
            judged=judged.text,
            seeds=1,
        ),
        CLAIMS.claim(
            "growth-tight",
            None,
            {"in_K": in_K.slope, "in_epsilon": in_epsilon.slope},
            equation=equation,
            name=_AGENTS[agent][1],
            measured_in_K=in_K.against(0.5),
            smallest_K=next(iter(over_K)),
            largest_K=list(over_K)[-1],
            measured_in_epsilon=in_epsilon.against(0.5),
            problem=PROBLEM,
            seeds=len(next(iter(over_K.values()))),
        ),
    )


def costs(quick: bool, say: Say) -> tuple[Claim, ...]:
    say("the cost of privacy")
    users, seeds = (10_000, range(2)) if quick else (100_000, range(16))
    cost_by_agent = {}
    for agent in _AGENTS:
        spec = case(agent, PROBLEM, JointDP(1.0, DELTA), users)
        cost_by_agent[agent] = privacy_cost(
            regrets(spec, seeds), regrets(replace(spec, privacy=NoPrivacy()), seeds)
        )
    spec = case("linopt-vi", PROBLEM, JointDP(1.0, DELTA), users)
    deltas = (1e-3, 1e-6, 1e-12)
    by_delta = [
        float(regrets(replace(spec, privacy=JointDP(1.0, delta)), seeds).mean()) for delta in deltas
    ]
    power = math.log(by_delta[-1] / by_delta[0]) / math.log(
        math.log(1 / deltas[-1]) / math.log(1 / deltas[0])
    )
    step = paper_step(users, 5, 4)
    slow = case("linopt-po", PROBLEM, NoPrivacy(), users, step=step)
    lost = [float(regrets(one, seeds[:2]).mean()) for one in (slow, replace(slow, options=()))]
    return (
        CLAIMS.claim(
            "remark-6-7",
            None,
            {agent: cost.estimate for agent, cost in cost_by_agent.items()},
            costs="; ".join((f"{agent} {cost}" for agent, cost in cost_by_agent.items())),
            problem=PROBLEM,
            users=users,
        ),
        CLAIMS.claim(
            "sec-1",
            None,
            {"exponent": power},
            regrets=", ".join(map(short, by_delta)),
            power=power,
            problem=PROBLEM,
            users=users,
            seeds=len(seeds),
        ),
        CLAIMS.claim(
            "proof-of-thm-5-1",
            None,
            {"eta": step},
            step=step,
            users=users,
            with_paper_step=short(lost[0]),
            with_own_step=short(lost[1]),
        ),
    )


def figure(runs_by_agent: dict[str, Measured]) -> Figure:
    over_K = []
    over_epsilon = []
    for tone, (agent, one) in enumerate(runs_by_agent.items()):
        over_K += [
            _line(f"{agent}, tight", one.tight_over_K, tone),
            *paper_lines(agent, one.paper, tone),
        ]
        epsilons = dict(sorted(one.tight_over_epsilon.items()))
        over_epsilon.append(_line(f"{agent}, tight", epsilons, tone))
    users = next(iter(runs_by_agent.values())).tight_over_K
    bound = tuple(bounds.value_bound(JointDP(1.0, DELTA), n) for n in users)
    over_K.append(Line("bound (4)", tuple(map(float, users)), bound, None, 0, "dot"))
    loss = at_random(case("uniform", PROBLEM, NoPrivacy(), 1))
    over_K.append(
        Line(
            "uniform play",
            tuple(map(float, users)),
            tuple(loss * n for n in users),
            None,
            None,
            "dashdot",
        )
    )
    return Figure(
        "zhou22",
        "Regret of [Zhou22]'s algorithms in the tight form, with the paper's constants (dashed), "
        "and bound (4) (dotted), against users at epsilon = 1 and against epsilon. Bands are two "
        "standard errors.",
        (
            Panel("users", "users", "regret", tuple(over_K)),
            Panel("privacy", "epsilon", "regret", tuple(over_epsilon)),
        ),
    )


def _line(
    label: str, samples: "dict[int, Array] | dict[float, Array]", tone: int, dash: str = "solid"
) -> Line:
    table: Sequence[Array] = list(samples.values())
    error = tuple(2 * float(one.std(ddof=1)) / math.sqrt(len(one)) for one in table)
    return Line(
        label,
        tuple(map(float, samples)),
        tuple(float(one.mean()) for one in table),
        error,
        tone,
        dash,
    )
