"""Every agent for mixtures of known kernels, under one protocol.

    python benchmarks/mixtures.py [--quick] [--write]

Instance seed 0, run seeds 0..7, K = 1e5 (local: 4e6), delta = 1e-5. Regret is exact; "90 %" is
`Run.episodes_to(0.9)`. --quick takes two seeds of each row. With --write the tables go to
benchmarks/results/mixtures.md.
"""

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from cases import DELTA, Case, Sample, joint, measure_cases, save_problem
from record import record

from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.problems import lock, make, rand

SEEDS = range(8)
FRESH = range(100, 164)
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, math.inf)
AGENTS = ("ucrl-vtr", "ucrl-vtr-plus", "linopt-vi", "linopt-po", "likelihood-vi")
MADE = {
    "lock, S=30 A=9 H=6 d=10": lambda: lock(0, states=30, actions=9, horizon=6, jump=7),
    "lock, S=50 A=4 H=10 d=5": lambda: lock(0, states=50, actions=4, horizon=10, jump=7),
    "rand, S=30 A=4 H=8 d=10": lambda: rand(1, states=30, actions=4, horizon=8, dimension=10),
    "rand, S=50 A=6 H=6 d=20": lambda: rand(2, states=50, actions=6, horizon=6, dimension=20),
}
BIGGER = (*MADE, "liao-hard")


def problem_file(problem: str) -> str:
    """As a case has it: of the catalogue, or a file."""
    return save_problem(problem, MADE[problem]()) if problem in MADE else problem


def error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def number(value: float) -> str:
    return (
        "-"
        if not math.isfinite(value)
        else f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.3g}"
    )


def spread(values: np.ndarray) -> str:
    """mean ± standard error | median: no mean if a seed never gets there."""
    mean = number(values.mean()) if np.isfinite(values).all() else "-"
    if len(values) > 1 and np.isfinite(values).all():
        mean += f" ± {number(error(values))}"
    middle = float(np.median(values)) if np.isfinite(values).any() else math.inf
    return f"{mean} | {number(middle) if math.isfinite(middle) else 'never'}"


def cells(sample: Sample) -> str:
    reached = f"{int(np.isfinite(sample.episodes).sum())}/{len(sample.episodes)}"
    return f"{spread(sample.regret)} | {spread(sample.episodes)} | {reached}"


def table(first: str, rows: Iterable[tuple[str, Sample]]) -> list[str]:
    head = (
        f"| {first} | regret: mean ± s.e. | median | episodes to 90 % of optimal: mean ± s.e. "
        "| median | seeds that reach it |"
    )
    return [
        head,
        "|" + "---|" * (first.count("|") + 6),
        *(f"| {name} | {cells(sample)} |" for name, sample in rows),
    ]


def name(privacy: Request) -> str:
    return "none" if isinstance(privacy, NoPrivacy) else f"{privacy.epsilon:g}"


def row(case: Case) -> str:
    return f"{case.agent} | {name(case.privacy)}"


def references(problem: str, episodes: int, seeds: Sequence[int]) -> list[Case]:
    agents = ("uniform",) if make(problem).public.rewards is None else ("uniform", "no-data")
    return [Case(problem, agent, NoPrivacy(), episodes, seeds[:1]) for agent in agents]


@dataclass(frozen=True)
class Plan:
    """All cases of the document, by section."""

    seeds: Sequence[int]
    fresh: Sequence[int]

    def central(self, problem: str) -> list[Case]:
        learners = ("linopt-vi", "linopt-po") if problem == "lock-rewards" else AGENTS
        played = [
            Case(problem, agent, joint(epsilon), seeds=self.seeds)
            for agent in learners
            for epsilon in EPSILONS
        ]
        return [*references(problem, 100_000, self.seeds), *played]

    def local(self, problem: str) -> list[Case]:
        def cases(agent: str, epsilons: Sequence[float]) -> list[Case]:
            return [
                Case(problem, agent, LocalDP(epsilon, DELTA), 4_000_000, self.seeds)
                for epsilon in epsilons
            ]

        both = [
            case for agent in ("ucrl-vtr", "likelihood-vi") for case in cases(agent, (1, 2, 5, 10))
        ]
        others = [case for agent in AGENTS[1:4] for case in cases(agent, (1,))]
        return [*references(problem, 4_000_000, self.seeds), *both, *others]

    def pure(self) -> list[Case]:
        return [
            Case("lock", agent, JointDP(5.0, 0.0), 1_000_000, self.seeds)
            for agent in ("ucrl-vtr", "likelihood-vi")
        ]

    def paper(self) -> list[Case]:
        printed = (("calibration", "paper"),)
        return [
            Case("lock", "ucrl-vtr", privacy, 10_000, self.seeds[:2], printed)
            for privacy in (joint(1.0), joint(10.0))
        ]

    def bigger(self, problem: str) -> list[Case]:
        # liao-hard is made for 10,000 users.
        K = 10_000 if problem == "liao-hard" else 100_000
        place = problem_file(problem)
        learners = [
            Case(place, agent, joint(epsilon), K, self.seeds)
            for agent in ("ucrl-vtr", "likelihood-vi")
            for epsilon in (1.0, 10.0, math.inf)
        ]
        return [*references(place, K, self.seeds), *learners]

    def again(self, problem: str) -> list[Case]:
        return [
            Case(problem, agent, joint(epsilon), seeds=self.fresh)
            for agent in ("ucrl-vtr", "likelihood-vi")
            for epsilon in (1.0, 10.0, math.inf)
        ]

    def sections(self) -> dict[str, list[Case]]:
        sections = {
            f"{problem}, joint privacy, K = 1e5": self.central(problem)
            for problem in ("lock", "rand", "lock-rewards")
        }
        sections |= {
            f"{problem}, local privacy, K = 4e6": self.local(problem)
            for problem in ("lock", "rand")
        }
        sections["lock, pure joint privacy (delta = 0), K = 1e6"] = self.pure()
        sections["lock, the paper's constants, a release per episode, K = 1e4"] = self.paper()
        sections |= {
            f"{problem}, K = {'1e4' if problem == 'liao-hard' else '1e5'}": self.bigger(problem)
            for problem in BIGGER
        }
        seeds = f"run seeds {self.fresh[0]}..{self.fresh[-1]}"
        sections |= {
            f"{problem}, joint privacy, K = 1e5, {seeds}": self.again(problem)
            for problem in ("lock", "rand")
        }
        return sections


def values(case: Case) -> str:
    here = case.loaded_problem
    return f"Optimal value: {here.optimal_value:.4g}, uniform play: {here.uniform_value:.4g}."


def verdict(mean: float, standard_error: float, figure: float) -> str:
    """Say whether a mean is at most its reference figure.

    Otherwise it is above it within two standard errors, or by more.
    """
    if mean <= figure:
        return "yes"
    return "above, within 2 s.e." if mean - 2 * standard_error <= figure else "no"


def at_most(values: np.ndarray, figure: float) -> tuple[str, str]:
    if not np.isfinite(values).all():
        return f"{int(np.isfinite(values).sum())}/{len(values)} seeds reach it", "no"
    mean = float(values.mean())
    off = error(values)
    return f"{number(mean)} ± {number(off)}", verdict(mean, off, figure)


def best(
    samples: dict[Case, Sample],
    problem: str,
    agents: Sequence[str],
    seeds: Sequence[int],
    epsilon: float,
) -> tuple[str, Sample]:
    cases = [Case(problem, agent, joint(epsilon), seeds=seeds) for agent in agents]
    return min(
        ((case.agent, samples[case]) for case in cases),
        key=lambda pair: float(pair[1].regret.mean()),
    )


def ratio(private: tuple[str, Sample], free: tuple[str, Sample], figure: float) -> tuple[str, str]:
    """The ratio of mean regrets, with a standard error from the relative errors."""
    (one, a), (other, b) = (private[0], private[1].regret), (free[0], free[1].regret)
    value = a.mean() / b.mean()
    off = value * math.hypot(error(a) / a.mean(), error(b) / b.mean())
    text = f"{value:.2f} ± {off:.2f} ({one} {number(a.mean())}, {other} {number(b.mean())})"
    return text, verdict(float(value), off, figure)


def figures(plan: Plan, samples: dict[Case, Sample]) -> list[str]:
    """Return a sentence and a table of the reference figures.

    The table says whether each measured mean is at most its figure.
    """

    def central(problem: str, agent: str, epsilon: float) -> Sample:
        return samples[Case(problem, agent, joint(epsilon), seeds=plan.seeds)]

    def local(problem: str, agent: str) -> Sample:
        return samples[Case(problem, agent, LocalDP(1, DELTA), 4_000_000, plan.seeds)]

    lines = [
        (
            "lock, eps = 1: episodes to 90 %, ucrl-vtr",
            "366",
            *at_most(central("lock", "ucrl-vtr", 1.0).episodes, 366),
        )
    ]
    for problem, agent, epsilon, figure in (
        ("lock", "ucrl-vtr", 1.0, 371),
        ("lock", "ucrl-vtr", 5.0, 96),
        ("rand", "ucrl-vtr", 1.0, 377),
        ("lock", "likelihood-vi", 1.0, 210),
        ("rand", "likelihood-vi", 1.0, 52),
    ):
        measured_ = at_most(central(problem, agent, epsilon).regret, figure)
        lines.append((f"{problem}, eps = {epsilon:g}: regret, {agent}", f"{figure}", *measured_))
    for epsilon, factor in ((1.0, 3.0), (10.0, 1.2)):
        for problem in ("lock", "rand"):
            for seeds, agents in (
                (plan.seeds, AGENTS),
                (plan.fresh, ("ucrl-vtr", "likelihood-vi")),
            ):
                private, free = (
                    best(samples, problem, agents, seeds, e) for e in (epsilon, math.inf)
                )
                what = (
                    f"{problem}, eps = {epsilon:g}: lowest regret / lowest regret without "
                    f"privacy, {len(seeds)} seeds"
                )
                lines.append((what, f"{factor:g}", *ratio(private, free, factor)))
    for problem, figure in (("lock", 2.5e4), ("rand", 3.2e5)):
        lines += [
            (
                f"{problem}, local, eps = 1: episodes to 90 %, {agent}",
                f"{figure:,.0f}",
                *at_most(local(problem, agent).episodes, figure),
            )
            for agent in ("ucrl-vtr", "likelihood-vi")
        ]
    for problem in ("lock", "rand"):
        plus = central(problem, "ucrl-vtr-plus", 1.0).episodes
        lines.append(
            (f"{problem}, eps = 1: ucrl-vtr-plus episodes to 90 %", "100,000", *at_most(plus, 1e5))
        )
    lines += [
        (
            f"lock, eps = 5, delta = 0: {case.agent} episodes to 90 %",
            "1,000,000",
            *at_most(samples[case].episodes, 1e6),
        )
        for case in plan.pure()
    ]
    met, above, missed = (
        [line[-1] for line in lines].count(kind) for kind in ("yes", "above, within 2 s.e.", "no")
    )
    sentence = (
        f"The measured value is a mean, or the ratio of two means. Of {len(lines)} values, "
        f"{met} are at most their reference figure "
        f'("yes"), {above} are above it by at most two standard errors ("above, within 2 s.e."), '
        f'and {missed} are above it by more ("no").'
    )
    head = ["| measurement | reference figure (at most) | measured | met |", "|---|---|---|---|"]
    return [sentence, "", *head, *("| " + " | ".join(line) + " |" for line in lines)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    plan = Plan(SEEDS[:2], FRESH[:2]) if options.quick else Plan(SEEDS, FRESH)
    sections = plan.sections()
    samples = measure_cases(case for cases in sections.values() for case in cases)
    seeds = f"run seeds {plan.seeds[0]}..{plan.seeds[-1]}"
    parts = [
        f"The instance seed is 0 unless the title says otherwise; {seeds}, delta = {DELTA:g}. "
        'Regret is exact. "Episodes to 90 % of '
        'optimal" is the smallest k such that the average value over users (j, '
        "1.25 j] is at least 90 % of the way from uniform to optimal "
        "play, for every j from k to min(10 k, K / 1.25). `uniform` and `no-data` (planning with "
        "equal weights) do not depend on the seed. "
        "With known rewards linopt-vi is ucrl-vtr.",
        "## Reference figures\n\n" + "\n".join(figures(plan, samples)),
    ]
    for title, cases in sections.items():
        rows = [(row(case), samples[case]) for case in cases]
        parts.append(
            f"## {title}\n\n{values(cases[0])}\n\n" + "\n".join(table("agent | eps", rows))
        )
    record("Mixtures of known kernels", "\n\n".join(parts) + "\n", write=options.write)


if __name__ == "__main__":
    main()
