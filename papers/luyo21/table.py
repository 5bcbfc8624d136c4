"""Table 1 of [Luyo21] with measured columns, and the claims that the paper makes about it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.comparison.growth import Growth
from confide.comparison.intervals import difference, ratio
from confide.linear_mdps.batches import adaptive, one_by_one, static
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.runs.spec import Named, RunSpec
from papers.findings import Claim, Figure, Line, Panel, Say, Table, short
from papers.fits import fit_growth, plain
from papers.luyo21.bounds import (
    in_episodes,
    linear_bound,
    mixture_bound,
    nontrivial_from,
    plus_bound,
)
from papers.regret import PaperRuns, judge, paper_lines, run_paper, sizes
from papers.runs import at_random, case, promised_epsilon, regrets, with_epsilon
from papers.text import Texts

CLAIMS = Texts(Path(__file__).with_name("claims.toml"))
Array = npt.NDArray[np.float64]
DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class Row:
    """A line of Table 1, or one of the appendix that belongs there."""

    locator: str
    case: RunSpec
    bound: Callable[[Request, float], float]
    in_K: float  # claimed exponents
    in_epsilon: float
    users: tuple[int, ...]
    epsilons: tuple[float, ...]

    @property
    def name(self) -> str:
        kind = "local" if isinstance(self.case.privacy, LocalDP) else "joint"
        return f"{self.case.agent}, {kind}, {self.case.problem}"

    def regret_bound(self, users: float) -> float:
        return self.bound(self.case.privacy, users)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRow:
    """What was measured of a row: regrets [seed, point]."""

    row: Row
    over_K: Array  # in the tight form
    over_epsilon: Array  # in the tight form
    paper: PaperRuns | str  # with the paper's constants, or why these are refused

    @property
    def in_K(self) -> Growth:
        return fit_growth(self.row.users, self.over_K)

    @property
    def in_epsilon(self) -> Growth:
        """Of 1/epsilon: growing."""
        return fit_growth([1 / epsilon for epsilon in self.row.epsilons], self.over_epsilon)


def rows(quick: bool) -> tuple[Row, ...]:
    joint = JointDP(0.8, DELTA)
    local = LocalDP(0.8, DELTA)
    pure = JointDP(0.8, delta=0.0)
    users = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    many = (100_000, 1_000_000) if quick else (10_000, 100_000, 1_000_000, 10_000_000)
    epsilons = (0.8, 0.4) if quick else (0.8, 0.4, 0.2, 0.1)

    def row(
        locator: str, agent: str, problem: str, privacy: Request, in_K: float, in_epsilon: float
    ) -> Row:
        far = isinstance(privacy, LocalDP) or privacy.delta == 0 or agent == "lsvi-ucb"
        bound = {"ucrl-vtr": mixture_bound, "ucrl-vtr-plus": plus_bound, "lsvi-ucb": linear_bound}[
            agent
        ]
        times = many if far else users
        return Row(
            locator,
            case(agent, problem, privacy, times[-1]),
            bound,
            in_K,
            in_epsilon,
            times,
            epsilons,
        )

    return (
        row("Cor. 5", "ucrl-vtr", "lock", joint, 1 / 2, 1 / 2),
        row("Cor. 6", "ucrl-vtr", "lock", local, 3 / 4, 1 / 2),
        row("Thm. 8", "lsvi-ucb", "latent", joint, 3 / 5, 2 / 5),
        row("Cor. 10", "ucrl-vtr-plus", "lock", joint, 1 / 2, 1 / 2),
        row("Cor. 11", "ucrl-vtr-plus", "lock", local, 3 / 4, 1 / 2),
        row("C.4, pure", "ucrl-vtr", "lock", pure, 1 / 2, 1 / 2),
        row("E.3, pure", "lsvi-ucb", "latent", pure, 2 / 3, 1 / 3),
    )


def measure(quick: bool, say: Say, users: int | None = None) -> tuple[MeasuredRow, ...]:
    seeds = range(2 if quick else 8)
    measured = []
    for row in rows(quick):
        say(f"Table 1: {row.locator}, {row.name}")
        over_K = _stack_regrets([replace(row.case, episodes=users) for users in row.users], seeds)
        over_epsilon = _stack_regrets(
            [with_epsilon(row.case, epsilon) for epsilon in row.epsilons], seeds
        )
        paper = _run_paper(row, quick, users)
        measured.append(MeasuredRow(row, over_K, over_epsilon, paper))
    return tuple(measured)


def _stack_regrets(cases: Sequence[RunSpec], seeds: Sequence[int]) -> Array:
    return np.stack([regrets(spec, seeds) for spec in cases], axis=1)


def _run_paper(row: Row, quick: bool, users: int | None) -> PaperRuns | str:
    """Run with the paper's constants.

    LSVI-UCB releases once per batch, which is fast. The other algorithms release once per user.
    """
    if row.case.agent == "lsvi-ucb":
        planned = sizes(10_000 if quick else 1_000_000, None)
    else:
        planned = sizes(200 if quick else 100_000, users)
    return run_paper(row.case, planned, range(1))


def table(measured_rows: Sequence[MeasuredRow]) -> Table:
    lines = []
    for one in measured_rows:
        row = one.row
        lines.append(
            (
                row.locator,
                row.name,
                f"{row.in_K:.3g}",
                f"{in_episodes(row.regret_bound):.3f}",
                "refused" if isinstance(one.paper, str) else f"{one.paper.power:.2f}",
                "refused" if isinstance(one.paper, str) else short(one.paper.share),
                f"{plain(one.in_K)} ({one.in_K.verdict(row.in_K)})",
                f"{row.in_epsilon:.3g}",
                f"{plain(one.in_epsilon)} ({one.in_epsilon.verdict(row.in_epsilon)})",
                short(nontrivial_from(row.regret_bound)),
            )
        )
    headings = (
        "row",
        "algorithm",
        "exponent of K, claimed",
        "of the bound as a formula",
        "measured, paper",
        "regret / uniform play's, paper",
        "measured, tight",
        "exponent of 1/epsilon, claimed",
        "measured, tight",
        "bound below K H from K",
    )
    first = measured_rows[0].row.users
    last = measured_rows[1].row.users
    most = [one.paper.users[-1] for one in measured_rows if not isinstance(one.paper, str)]
    note = (
        "The rows from Cor. 10 on are not in the paper's Table 1. "
        "Formula: the proof's own constants between K = 1e100 and 1e103, H = d = 5, epsilon = .8, "
        "delta = 1e-5 or 0, p = .1. "
        "Paper: the algorithm with the paper's constants, over the last factor of ten of "
        f"{min(most):,} to {max(most):,} users at epsilon = .8. At delta = 0 the paper prints "
        "orders only. There the constants of the algorithm and of the formula are ours, with noise "
        "that is enough for the guarantee. "
        "Tight: our tight form, for which the paper proves no regret; "
        f"K from {first[0]:,} to {first[-1]:,} (local, pure and linear: {last[0]:,} to "
        f"{last[-1]:,}) at epsilon = .8; epsilon from {measured_rows[0].row.epsilons[0]:g} to "
        f"{measured_rows[0].row.epsilons[-1]:g} at the largest K; "
        f"{len(measured_rows[0].over_K)} seeds. "
        "The bounds are for the worst problem. On a single problem regret grows linearly at first "
        "(exponent 1) and stops growing once the problem is solved (exponent 0)."
    )
    return Table("Table 1, with measured columns", headings, tuple(lines), note)


def cited_rows(quick: bool, say: Say) -> Table:
    """The rows of Table 1 that cite other papers, on a tabular MDP.

    They are in our tight form, because nobody has read the constants of these papers.
    """
    seeds = range(2 if quick else 8)
    users = (1_000, 3_000) if quick else (1_000, 10_000, 100_000)
    epsilons = (0.8, 0.4) if quick else (0.8, 0.4, 0.2, 0.1)
    lines = []
    for name, agent, privacy, claimed in (
        (
            "Garcelon et al. (2020)",
            "ldp-obi",
            LocalDP(0.8, delta=0.0),
            "H^(3/2) S sqrt(A K) + H^3 S^2 A sqrt(K) / epsilon",
        ),
        (
            "Vietri et al. (2020)",
            "pucb",
            JointDP(0.8, delta=0.0),
            "H^2 sqrt(S A K) + (S A H^3 + S^2 A H^3) / epsilon",
        ),
    ):
        say(f"Table 1: {name}, {agent}")
        kind = "local" if isinstance(privacy, LocalDP) else "joint"
        # Local users send codes of whole trajectories, which transition counts do not have.
        spec = replace(case(agent, "riverswim", privacy, users[-1]), counts=None)
        over_K = _stack_regrets([replace(spec, episodes=n) for n in users], seeds)
        over_epsilon = _stack_regrets([with_epsilon(spec, epsilon) for epsilon in epsilons], seeds)
        lines.append(
            (
                name,
                f"{agent}, tight, {kind}, riverswim",
                claimed,
                plain(fit_growth(users, over_K)),
                plain(fit_growth([1 / epsilon for epsilon in epsilons], over_epsilon)),
                short(float(over_K[:, -1].mean() / at_random(spec))),
            )
        )
    headings = (
        "row",
        "algorithm",
        "regret, claimed",
        "exponent of K, tight",
        "exponent of 1/epsilon, tight",
        "regret / uniform play's",
    )
    note = (
        "These two papers were not read, so their constants are not known here. The algorithms are "
        "measured in our tight form, to which their theorems do not apply. "
        f"delta = 0, K from {users[0]:,} to {users[-1]:,} at epsilon = .8, epsilon from "
        f"{epsilons[0]:g} to {epsilons[-1]:g} at the largest K, {len(seeds)} seeds."
    )
    return Table("Rows of Table 1 that cite other papers", headings, tuple(lines), note)


def figure(measured_rows: Sequence[MeasuredRow]) -> Figure:
    names = {"Cor. 5": 0, "Cor. 6": 1, "Thm. 8": 2}
    shown = [one for one in measured_rows if one.row.locator in names]
    over_K = []
    over_epsilon = []
    for one in shown:
        row = one.row
        tone = names[one.row.locator]
        over_K.append(_line(f"{row.locator}, tight: {row.name}", row.users, one.over_K, tone))
        over_K += paper_lines(row.locator, one.paper, tone)
        bound = tuple(row.regret_bound(users) for users in row.users)
        over_K.append(
            Line(
                f"{row.locator}: its bound", tuple(map(float, row.users)), bound, None, tone, "dot"
            )
        )
        over_epsilon.append(
            _line(
                f"{row.locator}, K = {row.users[-1]:.0e}",
                row.epsilons[::-1],
                one.over_epsilon[:, ::-1],
                tone,
            )
        )
    ends = [min(one.row.users[0] for one in shown), max(one.row.users[-1] for one in shown)]
    loss = at_random(shown[0].row.case) / shown[0].row.case.episodes
    over_K.append(
        Line(
            "uniform play on lock",
            tuple(map(float, ends)),
            tuple(loss * end for end in ends),
            None,
            None,
            "dashdot",
        )
    )
    return Figure(
        "luyo21",
        "Regret of the algorithms of Table 1 in the tight form (solid), with the paper's constants "
        "(dashed), and the paper's bounds (dotted), against users at epsilon = .8 and against "
        "epsilon. Bands are two standard errors.",
        (
            Panel("users", "users", "regret", tuple(over_K)),
            Panel("privacy", "epsilon", "regret", tuple(over_epsilon)),
        ),
    )


def _line(label: str, x: Sequence[float], samples: Array, tone: int, dash: str = "solid") -> Line:
    error = (
        2 * samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
        if len(samples) > 1
        else np.zeros(samples.shape[1])
    )
    return Line(label, tuple(map(float, x)), tuple(samples.mean(axis=0)), tuple(error), tone, dash)


def claims(measured_rows: Sequence[MeasuredRow], quick: bool, say: Say) -> tuple[Claim, ...]:
    say("claims about Table 1")
    return (
        *(_rate(one) for one in measured_rows),
        local_costs_more(quick),
        variance(quick),
        batching(quick),
        triggered(quick),
        local(quick),
    )


def _rate(one: MeasuredRow) -> Claim:
    row = one.row
    judged = judge(one.paper, row.regret_bound)
    return CLAIMS.claim(
        "rate",
        judged.holds,
        judged.numbers,
        locator=f"Table 1, {row.locator}"
        if row.locator in ("Cor. 5", "Cor. 6", "Thm. 8")
        else row.locator,
        in_K=row.in_K,
        in_epsilon=row.in_epsilon,
        judged=judged.text,
        seeds=1,
        constants="" if row.case.privacy.delta > 0 else "; at delta = 0 the constants are ours",
    )


def local_costs_more(quick: bool) -> Claim:
    """The regret of local privacy over that of joint privacy, on the same problem."""
    users = 10_000 if quick else 1_000_000
    seeds = range(8 if quick else 16)
    local_regrets, joint_regrets = (
        regrets(case("ucrl-vtr", "lock", privacy, users), seeds)
        for privacy in (LocalDP(0.8, DELTA), JointDP(0.8, DELTA))
    )
    cost = ratio(local_regrets, joint_regrets)
    low = cost.low or 0.0
    return CLAIMS.claim(
        "local-costs-more",
        # "Much larger" is read as twice as large. An interval that reaches below 2 decides nothing.
        True if low > 2 else "not tested",
        {"ratio": cost.estimate, "low": low, "seeds": float(len(seeds))},
        users=users,
        cost=cost,
    )


def variance(quick: bool) -> Claim:
    seeds = range(2 if quick else 16)
    texts = []
    free = True
    for privacy in (JointDP(1.0, DELTA), NoPrivacy()):
        for problem in ("lock", "rand"):
            spec = case("ucrl-vtr-plus", problem, privacy, 10_000 if quick else 100_000)
            gap = difference(
                regrets(spec, seeds), regrets(replace(spec, agent="ucrl-vtr"), seeds), paired=True
            )
            low = gap.low or 0.0
            high = gap.high or 0.0
            guarantee = "epsilon = 1" if privacy.epsilon < math.inf else "no privacy"
            if privacy.epsilon < math.inf:
                free = free and low <= 0 <= high
            texts.append(f"{problem}, {guarantee}: {gap.estimate:+.3g} [{low:.3g}, {high:.3g}]")
    return CLAIMS.claim("variance", free, measured="; ".join(texts), seeds=len(seeds))


def batching(quick: bool) -> Claim:
    users, seeds = (100, range(2)) if quick else (2_000, range(3))
    spec = case("lsvi-ucb", "latent", JointDP(1.0, DELTA), users)
    few, all_of_them = (
        regrets(replace(spec, options=(("schedule", plan),)), seeds)
        for plan in (
            Named("static", static(users, max(2, users // 100))),
            Named("one by one", one_by_one(users)),
        )
    )
    gained = ratio(few, all_of_them)
    return CLAIMS.claim(
        "batching",
        None if quick else gained.estimate < 1,
        {"ratio": gained.estimate},
        users=users,
        batches=max(2, users // 100),
        gained=gained,
    )


def triggered(quick: bool) -> Claim:
    users, seeds = (10_000, range(2)) if quick else (100_000, range(8))
    spec = case("lsvi-ucb", "latent", JointDP(1.0, DELTA), users)
    other = replace(spec, options=(("schedule", Named("adaptive", adaptive(users))),))
    cost = ratio(regrets(other, seeds), regrets(spec, seeds))
    promised = promised_epsilon(other)
    return CLAIMS.claim(
        "triggered",
        None,
        {"epsilon": promised, "ratio": cost.estimate},
        promised=promised,
        cost=cost,
        users=users,
    )


def local(quick: bool) -> Claim:
    users, seeds = (10_000, range(1)) if quick else (1_000_000, range(4))
    spec = case("next-state-vi", "latent", LocalDP(10.0, DELTA), users)
    share = float(regrets(spec, seeds).mean() / at_random(spec))
    return CLAIMS.claim("local", None, {"share": share}, share=share, users=users)
