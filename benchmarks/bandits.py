"""Regret of LinTS and LinUCB on contextual linear bandits with ten actions.

    python benchmarks/bandits.py [--quick] [--write]

K = 1e5 and delta = 1e-5. Regret is relative to uniform play. Rewards are 1 with probability 1/2 +
<x, theta>, ||theta|| = 1/2; each seed is another problem. --quick takes two seeds of each row and a
tenth of the users. With --write the table goes to benchmarks/results/bandits.md.
"""

import argparse
import time

import numpy as np
from record import record

import confide
from confide.agents import LinTS, LinUCB
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Request
from confide.privatizers import every
from confide.problems import linear_bandit

# These seeds are held out: no constant was tuned on them.
SEEDS = range(300, 316)
FEWER = range(300, 304)
K = 100_000
DELTA = 1e-5
ACTIONS = 10
PROBLEMS = {
    "sphere, d = 5": (5, "sphere"),
    "sphere, d = 10": (10, "sphere"),
    "sphere, d = 20": (20, "sphere"),
    "news, d = 20": (20, "news"),
}
REQUESTS = {
    "joint, eps = 1": JointDP(1.0, DELTA),
    "joint, eps = 10": JointDP(10.0, DELTA),
    "joint, eps = 1, delta = 0": JointDP(1.0, delta=0.0),
    "local, eps = 10": LocalDP(10.0, delta=0.0),
    "local, eps = 1": LocalDP(1.0, delta=0.0),
    "none": NoPrivacy(),
}
TARGETS = {
    ("joint, eps = 1", 5): 0.0026,
    ("joint, eps = 1", 10): 0.0100,
    ("joint, eps = 1", 20): 0.028,
    ("local, eps = 10", 5): 0.0035,
    ("local, eps = 10", 10): 0.014,
    ("local, eps = 10", 20): 0.070,
}
HEAD = (
    (
        "| agent | privacy | true epsilon | problem | regret / uniform: mean ± s.e. | median | "
        "largest | target | seeds | seconds |\n"
    )
    + "|---" * 10
    + "|"
)


def agent_for(agent_name: str, public: object, episodes: int, privacy: Request) -> LinTS | LinUCB:
    if agent_name == "LinTS":
        return LinTS(public, episodes=episodes, privacy=privacy)
    if agent_name == "LinUCB, tight":
        return LinUCB(public, episodes=episodes, privacy=privacy)
    return LinUCB(
        public,
        episodes=episodes,
        privacy=privacy,
        calibration="paper",
        schedule=every(episodes // 200, episodes),
    )


def row(
    agent_name: str,
    privacy_name: str,
    privacy: Request,
    problem_name: str,
    seeds: range,
    episodes: int,
) -> str:
    dimension, contexts = PROBLEMS[problem_name]
    lost = []
    seconds = []
    epsilon = 0.0
    for seed in seeds:
        problem = linear_bandit(dimension, ACTIONS, seed, contexts=contexts)
        started = time.perf_counter()
        run = confide.run(
            agent_for(agent_name, problem.public, episodes, privacy), problem, seed=seed
        )
        seconds.append(time.perf_counter() - started)
        lost.append(run.regret[-1] / (episodes * (run.optimal_value - run.uniform_value)))
        epsilon = run.certificate.epsilon if run.certificate else 0.0
    mean = np.mean(lost)
    error = np.std(lost, ddof=1) / np.sqrt(len(lost))
    target = (
        TARGETS.get((privacy_name, dimension))
        if agent_name == "LinTS" and contexts == "sphere"
        else None
    )
    met = "" if target is None else f"{target:.4f}{'' if mean <= target else ', mean above'}"
    if target is not None and mean - 2 * error > target:
        met = f"{target:.4f}, NOT MET"
    figures = f"{mean:.4f} ± {error:.4f} | {np.median(lost):.4f} | {np.max(lost):.4f}"
    true = "" if isinstance(privacy, NoPrivacy) else f"{epsilon:.3g}"
    line = (
        f"| {agent_name} | {privacy_name} | {true} | {problem_name} | {figures} | {met} | "
        f"{len(lost)} | "
        f"{np.median(seconds):.2f} |"
    )
    print(line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    seeds, fewer, episodes = (
        (range(300, 302), range(300, 302), K // 10) if options.quick else (SEEDS, FEWER, K)
    )
    rows = [
        row("LinTS", privacy_name, REQUESTS[privacy_name], problem_name, seeds, episodes)
        for privacy_name in REQUESTS
        for problem_name in PROBLEMS
    ]
    rows += [
        row(
            "LinUCB, tight",
            "joint, eps = 1",
            REQUESTS["joint, eps = 1"],
            problem_name,
            seeds,
            episodes,
        )
        for problem_name in PROBLEMS
    ]
    printed = {
        "joint, eps = 1": REQUESTS["joint, eps = 1"],
        "local, eps = 10": LocalDP(10.0, DELTA),
    }
    rows += [
        row("LinUCB, the paper's constants", key, request, problem_name, fewer, episodes)
        for key, request in printed.items()
        for problem_name in PROBLEMS
    ]
    about = (
        f"LinTS and LinUCB with their defaults, {ACTIONS} actions, K = {episodes:,}, "
        f"delta = {DELTA:g} where it is not 0, seeds "
        f"{seeds[0]}..{seeds[-1]} (with the papers' constants: the first {len(fewer)}), held out: "
        "no constant was tuned on them; "
        "each seed is another problem. The papers' constants are "
        "those of [Shariff18] (joint) and [Zheng20] (local) with 200 releases in place of "
        "one per user: less noise than theirs. "
        "A target is met when mean - 2 s.e. is at most the figure. "
        "Seconds are medians of whole runs, simulation included, on a shared "
        "machine."
    )
    record(
        "Contextual linear bandits", "\n".join([about, "", HEAD, *rows, ""]), write=options.write
    )


if __name__ == "__main__":
    main()
