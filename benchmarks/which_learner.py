"""How many users each learner needs at epsilon = 1: the figures of `confide list --for`.

python benchmarks/which_learner.py [--seeds 3] [--only tabular-psrl] [--write]
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

K, FIRST = 100_000, 500  # seeds on which nothing was chosen
TABLE = Path(confide.__file__).parent / "agents" / "users_needed.json"
PAGE = RESULTS / "users_needed.md"
LEFT_OUT = ("chain", "icu-sepsis")  # without a choice of actions; too long for this table
GYM = {"gym:FrozenLake-v1": 20, "gym:FrozenLake8x8-v1": 50}


def measured(name: str, problem: Any, seeds: range) -> dict[str, Any]:
    reached, lost, seconds = [], [], []
    for seed in seeds:
        agent = make_agent(name, problem, episodes=K, privacy=confide.JointDP(1.0, 1e-5))
        started = time.perf_counter()
        run = confide.run(agent, problem, seed=seed)
        seconds.append(time.perf_counter() - started)
        reached.append(run.episodes_to(0.9) or math.inf)
        lost.append(run.regret[-1] / (K * (run.optimal_value - run.uniform_value)))
    users = median(reached)
    print(
        f"{problem.name}, H = {problem.horizon} | {name} | {users:,.0f} | {np.mean(lost):.3f} | {median(seconds):.1f} s",
        flush=True,
    )
    return {
        "users": None if math.isinf(users) else int(users),
        "episodes": K,
        "seeds": len(seeds),
        "regret_of_uniform": round(float(np.mean(lost)), 4),
    }


def page(found: dict[str, Any]) -> None:
    """The table of benchmarks/results/users_needed.md."""
    lines = ["| problem | agent | users | regret / uniform play |", "|---|---|---|---|"]
    for problem, learners in found.items():
        for name, one in learners.items():
            users = (
                f"more than {one['episodes']:,}" if one["users"] is None else f"{one['users']:,}"
            )
            lines.append(f"| {problem} | {name} | {users} | {one['regret_of_uniform']:.3f} |")
    before, _, _ = PAGE.read_text().partition("| problem |")
    PAGE.write_text(before + "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument(
        "--problems",
        nargs="*",
        default=[*(name for name in PROBLEMS if name not in LEFT_OUT), *GYM],
    )
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(TABLE.read_text())
    for place in given.problems:
        problem = make(place, horizon=GYM.get(place))
        for name in given.only or private_agents():
            if fits(name, problem.public):
                key = f"{problem.name}, H = {problem.horizon}"
                found.setdefault(key, {})[name] = measured(
                    name, problem, range(FIRST, FIRST + given.seeds)
                )
                if given.write:
                    TABLE.write_text(json.dumps(found, indent=1) + "\n")
    if given.write:
        page(found)


if __name__ == "__main__":
    main()
