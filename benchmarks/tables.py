"""TabularPSRL on tabular MDPs whose transitions are unknown.

    python benchmarks/tables.py [--quick] [--write] [--only TEXT]

K = 1e5 and delta = 1e-5. Regret is relative to uniform play. Rewards, start distribution and
terminal states are public unless the row says otherwise. --quick takes two seeds of each row and a
tenth of the users. With --write the table goes to benchmarks/results/tables.md. --only makes the
rows that have TEXT in their second column. Large tables: benchmarks/large_tables.py.
"""

import argparse
import time
from typing import Any

import numpy as np
from record import record

import confide
from confide.agents import TabularPSRL
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.problems import TabularMDP, double_chain, garnet, make, riverswim, riverswim_stage

# These seeds are held out: no constant was tuned on them.
SEEDS = range(300, 316)
# Seeds of rows with learned rewards, whose constants were tuned on some of SEEDS.
OTHERS = range(500, 516)
K = 100_000
DELTA = 1e-5
# The runs take so many instances in turn.
GARNETS = 5
PROBLEMS = {
    "riverswim": lambda _: riverswim(),
    "FrozenLake 4x4, H = 20": lambda _: make("gym:FrozenLake-v1", horizon=20, rewards="public"),
    "garnet, five instances": lambda seed: garnet(seed=seed % GARNETS),
    "double chain": lambda _: double_chain(),
    "riverswim, steps differ": lambda _: riverswim_stage(),
    "FrozenLake 8x8, H = 50": lambda _: make("gym:FrozenLake8x8-v1", horizon=50, rewards="public"),
}
FIRST = tuple(PROBLEMS)[:4]
REQUESTS = {"1": JointDP(1.0, DELTA), "10": JointDP(10.0, DELTA), "none": NoPrivacy()}
HEAD = (
    (
        "| problem | knows | privacy | K | regret / uniform play: mean ± s.e. | median | largest | "
        "seconds |\n"
    )
    + "|---" * 8
    + "|"
)


def hide_rewards(problem: TabularMDP) -> TabularMDP:
    """The same table with random rewards that have to be learned."""
    P = problem
    return TabularMDP(
        P.transitions, P.rewards, P.start, stochastic_rewards=True, name=P.name, terminal=P.terminal
    )


def measure_runs(
    problem_name: str, privacy: Request, seeds: range, episodes: int, knows: str
) -> tuple[np.ndarray, np.ndarray]:
    """Relative regret and seconds [seed]."""
    lost = []
    seconds = []
    for seed in seeds:
        problem: Any = PROBLEMS[problem_name](seed)
        support = (problem.transitions.dense() > 0).any(axis=0) if knows == "support" else None
        problem = hide_rewards(problem) if knows == "no rewards" else problem
        started = time.perf_counter()
        agent = TabularPSRL(problem.public, episodes=episodes, privacy=privacy, support=support)
        run = confide.run(agent, problem, seed=seed)
        seconds.append(time.perf_counter() - started)
        lost.append(run.regret[-1] / (episodes * (run.optimal_value - run.uniform_value)))
    return np.array(lost), np.array(seconds)


def row(
    problem_name: str,
    privacy_name: str,
    privacy: Request,
    seeds: range,
    episodes: int,
    knows: str = "",
) -> str:
    lost, seconds = measure_runs(problem_name, privacy, seeds, episodes, knows)
    error = lost.std(ddof=1) / np.sqrt(len(lost))
    figures = (
        f"{lost.mean():.4f} ± {error:.4f} | {np.median(lost):.4f} | {lost.max():.4f} | "
        f"{np.median(seconds):.2f}"
    )
    line = f"| {problem_name} | {knows} | {privacy_name} | {episodes:,} | {figures} |"
    print(line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--only", metavar="TEXT", help="only rows with this in their second column")
    options = parser.parse_args()
    seeds, others, many = (SEEDS[:2], OTHERS[:2], 10) if options.quick else (SEEDS, OTHERS, 1)
    named = {name: f"epsilon = {name}" if name != "none" else name for name in REQUESTS}
    cases = [
        (problem_name, named[name], REQUESTS[name], seeds, K, "")
        for name in REQUESTS
        for problem_name in tuple(PROBLEMS)[:5]
    ]
    cases += [
        (problem_name, named["1"], REQUESTS["1"], seeds, K, "support") for problem_name in FIRST
    ]
    cases += [
        (problem_name, named[name], REQUESTS[name], others, K, "no rewards")
        for name in REQUESTS
        for problem_name in FIRST
    ]
    cases += [("riverswim", named[name], REQUESTS[name], seeds, 20_000, "") for name in REQUESTS]
    cases += [
        ("riverswim", f"local, epsilon = {e:g}", LocalDP(e, delta=0.0), seeds[:8], 1_000_000, "")
        for e in (1.0, 10.0)
    ]
    cases += [
        (tuple(PROBLEMS)[5], named[name], REQUESTS[name], seeds, K, "") for name in ("1", "10")
    ]
    cases += [(tuple(PROBLEMS)[5], named["1"], REQUESTS["1"], seeds, K, "support")]
    rows = [
        row(*most, users // many, knows)
        for *most, users, knows in cases
        if options.only in (None, knows)
    ]
    about = (
        f"TabularPSRL with its defaults, delta = {DELTA:g} (local: 0), "
        f"seeds {seeds[0]}..{seeds[-1]} (local: the first eight), "
        f"where rewards are learned {others[0]}..{others[-1]}; no constant was tuned on them. "
        "Seconds are medians of whole runs, simulation included, on a shared machine."
    )
    record("Tables", "\n".join([about, "", HEAD, *rows, ""]), write=options.write)


if __name__ == "__main__":
    main()
