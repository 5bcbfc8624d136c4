"""Private control of linear systems: regret on the named systems, and the gate on random ones.

    python benchmarks/control.py [--quick] [--write]

Regret is exact, in units of cost, K = 1e5, delta = 1e-5. The gate: on how many of 200 random
systems a whole run loses more than 1.05 times what doing nothing loses. With --write the tables go
to benchmarks/results/control.md.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import numpy as np
from cases import DELTA, Case, Sample, measure_cases, save_problem
from record import record

from confide.agents.catalogue import make_agent
from confide.mechanisms.sources import noise_source
from confide.privacy.request import JointDP, NoPrivacy, Request
from confide.problems import LQSystem

NAMED = ("oscillator", "thermal", "glucose")
AGENTS = ("thompson-lq", "certainty-equivalent-lq")
OFU = "ofu-lq"
# Systems before this one were looked at when the gate was made.
UNSEEN = 20


def regrets(seeds: tuple[int, ...], episodes: int) -> list[str]:
    requests: dict[str, Request] = {
        f"eps = {e:g}": JointDP(e, DELTA) for e in (0.5, 1.0, 5.0, 10.0)
    }
    requests |= {"none": NoPrivacy(), "eps = 1, delta = 0": JointDP(1.0, delta=0.0)}
    cases = {
        (agent, name, problem): Case(problem, agent, privacy, episodes, seeds)
        for agent in (OFU, *AGENTS)
        for name, privacy in requests.items()
        for problem in NAMED
    }
    samples = measure_cases(list(cases.values()))
    lines = [
        f"| regret at K = {episodes:,}, {len(seeds)} seeds | " + " | ".join(NAMED) + " |",
        "|---|---|---|---|",
    ]
    nothing = [samples[cases[AGENTS[0], "none", problem]].nothing for problem in NAMED]
    lines.append("| doing nothing | " + " | ".join(f"{cost:,.0f}" for cost in nothing) + " |")
    for agent in (OFU, *AGENTS):
        for name in requests:
            cells = []
            for problem in NAMED:
                values = samples[cases[agent, name, problem]].regret
                cells.append(
                    f"{values.mean():,.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f} (max "
                    f"{values.max():,.0f})"
                )
            lines.append(f"| {agent}, {name} | " + " | ".join(cells) + " |")
    return lines


def paper_calibration(seeds: tuple[int, ...], episodes: int) -> list[str]:
    """The paper's constants, and the best agent at a constant K epsilon."""
    options = (("calibration", "paper"),)
    rows = {
        f"ofu-lq paper, {name}": [
            Case(problem, OFU, privacy, episodes, seeds[:3], options=options) for problem in NAMED
        ]
        for name, privacy in (("eps = 1", JointDP(1.0, DELTA)), ("none", NoPrivacy()))
    }
    for agent in AGENTS:
        for K, epsilon in ((episodes // 10, 10.0), (episodes, 1.0), (episodes * 10, 0.1)):
            rows[f"{agent}, K = {K:,}, eps = {epsilon:g}"] = [
                Case(problem, agent, JointDP(epsilon, DELTA), K, seeds) for problem in NAMED
            ]
    samples = measure_cases([case for cases in rows.values() for case in cases])
    lines = [
        "| regret / regret of doing nothing | " + " | ".join(NAMED) + " |",
        "|---|---|---|---|",
    ]
    for name, cases in rows.items():
        ratios = [samples[case].regret / samples[case].nothing for case in cases]
        lines.append(
            f"| {name} | "
            + " | ".join(f"{each.mean():.4f} (max {each.max():.4f})" for each in ratios)
            + " |"
        )
    return lines


def gate(instances: int, sizes: tuple[int, ...]) -> list[str]:
    cases = {
        (agent, K, i): Case("random-lq", agent, JointDP(1.0, DELTA), K, (i,), instance=i)
        for agent in AGENTS
        for K in sizes
        for i in range(5000, 5000 + instances)
    }
    samples = measure_cases(list(cases.values()))
    head = " | ".join(f"K = {K:,}" for K in sizes)
    lines = [
        f"| regret / regret of doing nothing, {instances} random systems, eps = 1 | {head} |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for agent in AGENTS:
        cells = []
        for K in sizes:
            samples_of_size = [samples[cases[agent, K, i]] for i in range(5000, 5000 + instances)]
            ratios = np.array([one.regret[0] / one.nothing for one in samples_of_size])
            above = int((ratios > 1.05).sum())
            cells.append(f"mean {ratios.mean():.3f}, max {ratios.max():.2f}; above 1.05: {above}")
        lines.append(f"| {agent} | " + " | ".join(cells) + " |")
    return lines


def unstable(rng: np.random.Generator) -> LQSystem:
    return draw_system(rng, radius=rng.uniform(0.9, 1.1), horizon=int(rng.integers(10, 31)))


def draw_system(
    rng: np.random.Generator,
    *,
    radius: float | None = None,
    horizon: int | None = None,
    push: tuple[float, float] = (0.2, 0.6),
    states: tuple[int, int] = (2, 4),
    inputs: tuple[int, int] = (1, 2),
    others: float = 1.0,
    R: float = 0.1,
    noise: float = 0.1,
    loose: float | None = None,
) -> LQSystem:
    """Draw a system as random_lq does, with one thing different.

    A is as large as it was drawn, and Q = diag(1, others, others, ...).
    """
    n = int(rng.integers(states[0], states[1] + 1))
    d = int(rng.integers(inputs[0], inputs[1] + 1))
    H = horizon or int(rng.integers(5, 11))
    A = rng.normal(size=(n, n))
    B = rng.normal(size=(n, d))
    A *= (rng.uniform(0.4, 0.9) if radius is None else radius) / np.abs(np.linalg.eigvals(A)).max()
    B *= rng.uniform(*push) / np.linalg.norm(B)
    fitting = LQSystem(
        A, B, np.diag([1.0] + [others] * (n - 1)), R * np.eye(d), H, noise, name="drawn"
    )
    return (
        fitting
        if loose is None
        else replace(fitting, parameter_bound=max(loose, float(fitting.parameter_bound or 0.0)))
    )


FAMILIES: dict[str, Callable[[np.random.Generator], LQSystem]] = {
    "as random-lq": draw_system,
    "spectral radius .9 to 1.1, H = 10 to 30": unstable,
    "weak inputs, norm of B .02 to .1": partial(draw_system, push=(0.02, 0.1)),
    "R = 1": partial(draw_system, R=1.0),
    "R = 10": partial(draw_system, R=10.0),
    "Q = diag(1, .01, ...)": partial(draw_system, others=0.01),
    "5 or 6 states, 3 inputs": partial(draw_system, states=(5, 6), inputs=(3, 3)),
    "C_w = .01": partial(draw_system, noise=0.01),
    "C_w = .3": partial(draw_system, noise=0.3),
    "bound of 8": partial(draw_system, loose=8.0),
}


def elsewhere(family: str, agent: str, privacy: Request, episodes: int, instance: int) -> Case:
    system = FAMILIES[family](np.random.default_rng([list(FAMILIES).index(family), instance]))
    return Case(
        save_problem(f"control {family} {instance}", system), agent, privacy, episodes, (instance,)
    )


def ends(case: Case, sample: Sample) -> tuple[float, float]:
    """Return two numbers of one run: its regret, and its largest cost so far.

    Both are divided by that of doing nothing.
    """
    gained = sample.nothing / case.episodes
    idle = -case.loaded_problem.uniform_value
    so_far = 1 + (sample.curves[0] - sample.users * gained) / (sample.users * idle)
    return float(sample.regret[0] / sample.nothing), float(so_far.max())


def families(instances: int, columns: dict[str, tuple[Request, int]]) -> list[str]:
    """The gate on systems that it was not made on."""
    agent = AGENTS[1]
    of = range(UNSEEN, UNSEEN + instances)
    lines = [
        f"| {agent}, {instances} systems each | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    cases = {
        (f, name): [elsewhere(f, agent, *column, i) for i in of]
        for f in FAMILIES
        for name, column in columns.items()
    }
    samples = measure_cases(case for row in cases.values() for case in row)
    for family in FAMILIES:
        cells = []
        for name in columns:
            ratio, cost = np.array([ends(case, samples[case]) for case in cases[family, name]]).T
            cells.append(
                f"mean {ratio.mean():.2f}, max {ratio.max():.2f}; above 1.05: "
                f"{int((ratio > 1.05).sum())};"
                f" cost at any time at most {cost.max():.2f}"
            )
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return lines


def outside(case: Case) -> int:
    """1 if the truth is outside the confidence set at any release of the run, 0 otherwise."""
    problem, (seed,) = case.loaded_problem, case.seeds
    theta = np.concatenate([problem.A, problem.B], axis=1).T
    agent = make_agent(case.agent, problem, episodes=case.episodes, privacy=case.privacy)
    rng = np.random.default_rng(seed)
    agent.noise = noise_source("fast", seed)
    while agent.users < case.episodes:
        batch = agent.next_batch()
        agent.observe(problem.sample(batch.policy, batch.users, rng))
        confidence_set = agent.algorithm.confidence(agent.released())
        error = confidence_set.theta - theta
        if np.sqrt(np.trace(error.T @ confidence_set.V @ error)) > confidence_set.beta:
            return 1
    return 0


def coverage(runs: int) -> list[str]:
    lines = [
        (
            f"| Confidence set of OFU, failure = .1, {runs} runs of 2,000 users | oscillator | "
            "thermal |"
        ),
        "|---|---|---|",
    ]
    for name, privacy in (("eps = 1", JointDP(1.0, DELTA)), ("none", NoPrivacy())):
        cells = []
        for problem in NAMED[:2]:
            with get_context("spawn").Pool(2) as pool:
                failed = sum(
                    pool.map(
                        outside,
                        [Case(problem, OFU, privacy, 2_000, (seed,)) for seed in range(runs)],
                        chunksize=25,
                    )
                )
            cells.append(f"true system left the set in {failed} runs")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    if options.quick:
        sections = [
            regrets((0, 1), 20_000),
            paper_calibration((0, 1), 2_000),
            gate(20, (100, 10_000)),
            coverage(50),
        ]
        sections.append(families(4, {"K = 10,000, eps = 1": (JointDP(1.0, DELTA), 10_000)}))
    else:
        seeds = tuple(range(10))
        sections = [regrets(seeds, 100_000), paper_calibration(seeds, 100_000)]
        sections += [gate(200, (100, 1_000, 7_000, 100_000)), coverage(1000)]
        sections.append(families(30, {"K = 10,000, eps = 1": (JointDP(1.0, DELTA), 10_000)}))
    record(
        "Control of linear systems",
        "\n\n".join("\n".join(lines) for lines in sections) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
