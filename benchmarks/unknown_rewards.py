"""QuestionsVI at delta = 0 beside LinOptVI at delta = 1e-5, with unknown rewards.

    python benchmarks/unknown_rewards.py [--seeds 8] [--write]

K = 1e5. Run seeds from 200 on are held out. Regret is exact. With --write the table goes to
benchmarks/results/unknown_rewards.md.
"""

import argparse

import numpy as np
from cases import Case, measure_cases, save_problem
from record import record

from confide.privacy.request import JointDP, NoPrivacy
from confide.problems import rand
from confide.problems.linear_mixture import LinearMixtureMDP
from mixtures import error, number

SETTINGS = (
    "QuestionsVI at delta = 0 beside LinOptVI at delta = 1e-5, with unknown rewards. K = 1e5. "
    "Run seeds from 200 on are held out: no constant was tuned on them."
)
RAND_REWARDS = (
    "instance 0 of rand, but rewards are unknown too. The rewards of the two states with a reward, "
    "and of all others, are random: 0 or 1 at each step."
)


def rand_rewards() -> LinearMixtureMDP:
    """Instance 0 of rand with unknown rewards: see RAND_REWARDS."""
    original = rand(0)
    place = np.full(20, 2)
    place[np.flatnonzero(original.rewards[0, :, 0])] = 0, 1
    features = np.repeat(np.eye(3)[place][:, None], 4, axis=1)  # [s, a, place]
    return LinearMixtureMDP(
        original.kernels,
        original.weights,
        original.rewards,
        original.start,
        features,
        name="rand-rewards",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8, help="the number of seeds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    problems = {
        "lock-rewards": "lock-rewards",
        "rand-rewards": save_problem("rand rewards", rand_rewards()),
    }
    requests = {"questions-vi": JointDP(1.0, delta=0.0), "linopt-vi": JointDP(1.0, 1e-5)}
    seeds = range(200, 200 + options.seeds)
    cases = {
        (problem, agent, kind): Case(
            file, agent, requests[agent] if kind == "1" else NoPrivacy(), seeds=seeds
        )
        for problem, file in problems.items()
        for kind in ("1", "none")
        for agent in requests
    }
    results = measure_cases(cases.values())
    lines = [
        "| problem | agent | epsilon | regret: mean ± s.e. | median | largest |",
        "|" + "---|" * 6,
    ]
    for (problem, agent, kind), case in cases.items():
        values = results[case].regret
        shown = (
            f"{number(values.mean())} ± {number(error(values))} | "
            f"{number(float(np.median(values)))} | {number(values.max())}"
        )
        lines.append(f"| {problem} | `{agent}` | {kind} | {shown} |")
    about = f"{SETTINGS} rand-rewards: {RAND_REWARDS}"
    record("Unknown rewards", "\n".join([about, "", *lines, ""]), write=options.write)


if __name__ == "__main__":
    main()
