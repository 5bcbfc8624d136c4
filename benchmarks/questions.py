"""QuestionsVI at delta = 0 beside LikelihoodVI at delta = 1e-5.

    python benchmarks/questions.py [--quick] [--write]

Instance seed 0, K = 1e5. Run seeds 300..315 are held out: no constant was tuned on them. Regret is
exact. --quick takes two seeds of each row. With --write the table goes to
benchmarks/results/questions.md.
"""

import argparse
from time import process_time
from typing import Any

import numpy as np
from cases import Case, measure_cases, save_problem
from record import record

from confide import run
from confide.agents import QuestionsVI, Round
from confide.privacy.request import JointDP, NoPrivacy
from confide.problems import lock
from confide.problems.linear_mixture import LinearMixtureMDP
from mixtures import error, number

FRESH = range(300, 316)
SETTINGS = (
    "QuestionsVI at delta = 0 beside LikelihoodVI at delta = 1e-5. Instance seed 0, K = 1e5. "
    "Run seeds 300..315 are held out: no constant was tuned on them."
)
LARGER_LOCK = (
    "S = 60, A = 8, H = 8, d = 10. It has jumps of 10 and a second idle kernel "
    "(stay 0.4, left 0.3, right 0.3)."
)


def larger_lock() -> LinearMixtureMDP:
    """A lock with a second idle kernel: see LARGER_LOCK."""
    original = lock(0, states=60, actions=8, horizon=8, jump=10)
    states = np.arange(60)
    idle = np.zeros((60, 8, 60))
    for place, share in (
        (states, 0.4),
        (np.maximum(states - 10, 0), 0.3),
        (np.minimum(states + 10, 59), 0.3),
    ):
        for action in range(8):
            np.add.at(idle, (states, action, place), share)
    weights = np.full((8, 10), 0.2 / 9)
    weights[np.arange(8), original.weights.argmax(axis=1)] = 0.8
    return LinearMixtureMDP(
        np.concatenate([original.kernels, idle[None]]),
        weights,
        original.rewards,
        original.start,
        name="larger-lock",
    )


class Timed(QuestionsVI):
    """Takes the time of planning."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.times: list[float] = []

    def current_round(self) -> Round:
        planned = self._round is not None
        begun = process_time()
        current = super().current_round()
        if not planned:
            self.times.append(process_time() - begun)
        return current


def costs() -> list[str]:
    """Planning time, run time and saved state for more and more users, on one core."""
    lines = [
        "| problem | users | rounds | planning per round | whole run | saved state |",
        "|" + "---|" * 6,
    ]
    for name, problem in (("lock", lock(0)), ("larger lock", larger_lock())):
        for episodes in (10_000, 1_000_000):
            agent = Timed(problem.public, episodes=episodes, privacy=JointDP(1.0, delta=0.0))
            begun = process_time()
            run(agent, problem, seed=0)
            times = f"{1e3 * float(np.median(agent.times)):.0f} ms | {process_time() - begun:.1f} s"
            lines.append(
                f"| {name} | {episodes:,} | {len(agent.times)} | {times} | "
                f"{len(agent.save()) / 1e3:.0f} kB |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    seeds = FRESH[:2] if options.quick else FRESH
    problems = {
        "lock": "lock",
        "rand": "rand",
        "larger lock": save_problem("larger lock", larger_lock()),
    }
    kinds = {"1": JointDP(1.0, delta=0.0), "10": JointDP(10.0, delta=0.0), "none": NoPrivacy()}
    approximate = {"1": JointDP(1.0, 1e-5), "10": JointDP(10.0, 1e-5), "none": NoPrivacy()}
    cases = {
        (problem, agent, kind): Case(
            file, agent, (kinds if agent == "questions-vi" else approximate)[kind], seeds=seeds
        )
        for problem, file in problems.items()
        for kind in kinds
        for agent in AGENTS
    }
    results = measure_cases(cases.values())
    samples = {key: results[case] for key, case in cases.items()}
    lines = [
        (
            "| problem | agent | epsilon | regret: mean ± s.e. | median | largest | "
            "against the best without privacy |"
        ),
        "|" + "---|" * 7,
    ]
    for (problem, agent, kind), sample in samples.items():
        best = min(samples[problem, other, "none"].regret.mean() for other in AGENTS)
        values = sample.regret
        shown = (
            f"{number(values.mean())} ± {number(error(values))} | "
            f"{number(float(np.median(values)))} | {number(values.max())}"
        )
        lines.append(f"| {problem} | `{agent}` | {kind} | {shown} | {values.mean() / best:.1f} x |")
    about = f"{SETTINGS} Larger lock: {LARGER_LOCK}"
    spent = (
        "Seconds are those of one core, at epsilon = 1. The saved state grows with the "
        "rounds only, by the table of questions."
    )
    record(
        "Questions",
        "\n".join([about, "", *lines, "", spent, "", *costs(), ""]),
        write=options.write,
    )


AGENTS = ("questions-vi", "likelihood-vi")

if __name__ == "__main__":
    main()
