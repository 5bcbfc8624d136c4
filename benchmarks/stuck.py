"""Which agents get stuck with their defaults, on families of problems.

    python benchmarks/stuck.py [--aside] [--agents NAME ...] [--write]

The table says how far the policies of the last quarter of the users are from optimal. Defaults were
chosen on instances 0 to 15 of each family; --aside takes instances that nothing was chosen on.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np
from families import ASIDE, MIXTURES, TUNING, tabular
from record import record

import confide
from confide.agents import (
    LSVIUCB,
    UCRLVTR,
    LikelihoodVI,
    LinOptPO,
    LinOptVI,
    NextStateVI,
    QuestionsVI,
    UCRLVTRPlus,
)
from confide.privacy import JointDP, NoPrivacy

# A run is stuck if it is further from the optimum than this, in per cent.
EPISODES = 20_000
LIMIT = 2.0
AGENTS = (
    UCRLVTR,
    UCRLVTRPlus,
    LinOptVI,
    LinOptPO,
    LikelihoodVI,
    QuestionsVI,
    NextStateVI,
    LSVIUCB,
)
# These learn the same problems as linear MDPs, without the kernels.
TABLES = (NextStateVI, LSVIUCB)


def distance(agent_class: type, family: str, instance: int, epsilon: float) -> float:
    """The regret of the last quarter of the users, in per cent of what uniform play loses in it."""
    problem = (
        tabular(MIXTURES[family](instance)) if agent_class in TABLES else MIXTURES[family](instance)
    )
    privacy = NoPrivacy() if epsilon == math.inf else JointDP(epsilon, 1e-5)
    run = confide.run(
        agent_class(problem.public, episodes=EPISODES, privacy=privacy), problem, seed=instance
    )
    late = np.diff(run.curve("regret", np.array([3 * EPISODES // 4, EPISODES])))[0]
    return 400 * late / EPISODES / (problem.optimal_value - problem.uniform_value)


def rows(instances: range, agent_names: list[str]) -> Iterator[str]:
    yield f"| agent | epsilon | {' | '.join(MIXTURES)} |"
    yield f"|---|---|{'---|' * len(MIXTURES)}"
    for agent_class in (one for one in AGENTS if one.name in agent_names):
        for epsilon in (math.inf, 10.0):
            cells = []
            for family in MIXTURES:
                distances = [
                    distance(agent_class, family, instance, epsilon) for instance in instances
                ]
                within = sum(one <= LIMIT for one in distances)
                text = (
                    f"{within}/{len(distances)}, {np.median(distances):.1f}, {max(distances):.1f}"
                )
                cells.append(text if within == len(distances) else f"**{text}**")
            line = (
                f"| {agent_class.name} | {'none' if epsilon == math.inf else f'{epsilon:g}'} | "
                f"{' | '.join(cells)} |"
            )
            print(line, flush=True)
            yield line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aside", action="store_true", help="use held-out instances")
    parser.add_argument("--agents", nargs="+", default=[agent_class.name for agent_class in AGENTS])
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    instances = ASIDE if options.aside else TUNING
    about = (
        f"{EPISODES:,} users, delta = 1e-5, default agents, instances {instances[0]} to "
        f"{instances[-1]} of each family in "
        "`benchmarks/families.py`, one run each. A cell has the number of runs in which the "
        "policies that serve the last quarter of the "
        f"users are within {LIMIT:g} % of optimal, the median and the largest distance in per "
        "cent: 0 is optimal, 100 is uniform play. "
        "**Bold**: not all runs are. next-state-vi and lsvi-ucb learn the same problems as linear "
        "MDPs with one feature for each state and "
        "action: they do not know the kernels or the rewards."
    )
    record(
        "Agents that get stuck",
        f"{about}\n\n" + "\n".join(rows(instances, options.agents)) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
