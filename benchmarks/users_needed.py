"""How many users each agent needs at epsilon = 1: the figures of `confide list --for`.

python benchmarks/users_needed.py [--seeds 3] [--only tabular-psrl] [--write]

With --write the script updates src/confide/agents/users_needed.json, which `confide list --for`
reads, and benchmarks/results/users_needed.md.
"""

import argparse
import json
import math
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from record import RESULTS

import confide
from confide.agents.catalogue import fits, make_agent, private_agents
from confide.problems.catalogue import PROBLEMS, make

PRIVACY = confide.JointDP(epsilon=1.0, delta=1e-5)
EPISODES = 100_000
# An agent needs as many users as it takes until policies are worth this share of the way from
# uniform play to the optimum.
TARGET_SHARE = 0.9
# Seeds from here on are held out: no constant was tuned on them.
FIRST_SEED = 500
FIGURES = Path(confide.__file__).parent / "agents" / "users_needed.json"
PAGE = RESULTS / "users_needed.md"
# In the chain there is no choice of actions. icu-sepsis would take too long.
LEFT_OUT = ("chain", "icu-sepsis")
# Environments of Gymnasium, and the horizon of each.
GYM_HORIZONS = {"gym:FrozenLake-v1": 20, "gym:FrozenLake8x8-v1": 50}


def measure_agent(name: str, problem: Any, seeds: range) -> dict[str, Any]:
    """Run the agent with each seed, print a row, and return the entry of the JSON file."""
    users_by_seed = []
    relative_regrets = []
    seconds = []
    for seed in seeds:
        agent = make_agent(name, problem, episodes=EPISODES, privacy=PRIVACY)
        started = time.perf_counter()
        run = confide.run(agent, problem, seed=seed)
        seconds.append(time.perf_counter() - started)
        users_by_seed.append(run.episodes_to(TARGET_SHARE) or math.inf)
        regret_of_uniform = EPISODES * (run.optimal_value - run.uniform_value)
        relative_regrets.append(run.regret[-1] / regret_of_uniform)
    users = median(users_by_seed)
    print(
        f"{problem.name}, H = {problem.horizon} | {name} | {users:,.0f} | "
        f"{np.mean(relative_regrets):.3f} | {median(seconds):.1f} s",
        flush=True,
    )
    return {
        "users": None if math.isinf(users) else int(users),
        "episodes": EPISODES,
        "seeds": len(seeds),
        "regret_of_uniform": round(float(np.mean(relative_regrets)), 4),
    }


def write_page(figures: dict[str, Any]) -> None:
    """Write the table of benchmarks/results/users_needed.md below the page's introduction."""
    lines = ["| problem | agent | users | regret / uniform play |", "|---|---|---|---|"]
    for problem, agents in figures.items():
        for name, entry in agents.items():
            users = f"more than {entry['episodes']:,}"
            if entry["users"] is not None:
                users = f"{entry['users']:,}"
            lines.append(f"| {problem} | {name} | {users} | {entry['regret_of_uniform']:.3f} |")
    introduction, _, _ = PAGE.read_text().partition("| problem |")
    PAGE.write_text(introduction + "\n".join(lines) + "\n")


def main() -> None:
    problems = [*(name for name in PROBLEMS if name not in LEFT_OUT), *GYM_HORIZONS]
    parser = argparse.ArgumentParser(description="Measure how many users each agent needs.")
    parser.add_argument("--seeds", type=int, default=3, help="the number of held-out seeds")
    parser.add_argument(
        "--only", nargs="*", default=None, help="agents; all private ones if left out"
    )
    parser.add_argument("--problems", nargs="*", default=problems, help="problems by name")
    parser.add_argument("--write", action="store_true", help="update the JSON file and the page")
    options = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    figures: dict[str, Any] = json.loads(FIGURES.read_text())
    for problem_name in options.problems:
        problem = make(problem_name, horizon=GYM_HORIZONS.get(problem_name))
        row = figures.setdefault(f"{problem.name}, H = {problem.horizon}", {})
        for name in options.only or private_agents():
            if not fits(name, problem.public):
                continue
            row[name] = measure_agent(name, problem, seeds)
            if options.write:
                FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    if options.write:
        write_page(figures)


if __name__ == "__main__":
    main()
