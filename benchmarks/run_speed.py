"""CPU time of whole runs in two versions, measured in turn.

    python benchmarks/run_speed.py --other OTHER/src [--rounds 9] [--write] [AGENT ...]

Each version has one process that lives as long as the benchmark, so neither compiling nor importing
is measured. A round makes the agent and runs it, with the seed of the round. A ratio above one
means that this version is faster. Clocks of a machine drift, so both versions of a round are
measured one after the other, and the version that begins changes from round to round.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from record import record

HERE = Path(__file__).parent
PROBLEMS = {
    "lin-ucb": "linear-bandit",
    "thompson-lq": "oscillator",
    "ucbvi": "riverswim",
    "likelihood-vi": "lock",
    "ucrl-vtr": "lock",
    "lsvi-ucb": "one-hot",
}
# The smallest acceptable median of the ratios.
LEAST_RATIO = 0.95


class Version:
    """A process that runs agents with the sources of one version."""

    def __init__(self, source: Path, episodes: int) -> None:
        # Compiled kernels of two versions must not replace each other.
        cache = Path(os.environ.get("TMPDIR", "/tmp")) / "confide-run-speed" / source.parent.name
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work", "--episodes", str(episodes)],
            env={**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, agent: str, seed: int) -> tuple[float, float]:
        """CPU seconds of one run, and its regret."""
        self._process.stdin.write(json.dumps([agent, seed]) + "\n")
        self._process.stdin.flush()
        seconds, regret = json.loads(self._process.stdout.readline())
        return seconds, regret

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def work(episodes: int) -> None:
    """Run the agents whose names come on the standard input, one in each line."""
    import confide
    from confide.agents.catalogue import make_agent

    for line in sys.stdin:
        name, seed = json.loads(line)
        problem = confide.problems.make(PROBLEMS[name], seed=0)
        privacy = confide.JointDP(epsilon=1.0, delta=1e-5)
        start = time.process_time()
        agent = make_agent(name, problem, episodes=episodes, privacy=privacy)
        run = confide.run(agent, problem, seed=seed)
        seconds = time.process_time() - start
        print(json.dumps([seconds, float(run.regret[-1])]), flush=True)


def compare(agent: str, other: Version, this: Version, rounds: int) -> tuple[str, float]:
    """One line of the table, and the median ratio."""
    for version in (other, this):
        # The first run compiles.
        version.measure(agent, 0)
    seconds = np.empty((rounds, 2))  # [round, version]
    regrets = np.empty((rounds, 2))  # [round, version]
    for number in range(rounds):
        order = [(0, other), (1, this)]
        if number % 2:
            order.reverse()
        for column, version in order:
            seconds[number, column], regrets[number, column] = version.measure(agent, number)
    ratios = seconds[:, 0] / seconds[:, 1]
    median = float(np.median(ratios))
    low, high = np.quantile(ratios, [0.25, 0.75])
    milliseconds = 1000 * np.median(seconds, axis=0)
    is_same = np.array_equal(regrets[:, 0], regrets[:, 1])
    cells = [agent, PROBLEMS[agent], f"{milliseconds[0]:.1f}", f"{milliseconds[1]:.1f}"]
    cells += [f"{median:.3f}", f"{low:.3f} to {high:.3f}", "yes" if is_same else "no"]
    return f"| {' | '.join(cells)} |", median


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("agents", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--other", type=Path, help="the sources of the other version")
    parser.add_argument("--rounds", type=int, default=9, help="the number of rounds")
    parser.add_argument("--episodes", type=int, default=100_000, help="the number of episodes")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--work", action="store_true", help="used by this script itself")
    options = parser.parse_args()
    if options.work:
        work(options.episodes)
        return
    other = Version(options.other.resolve(), options.episodes)
    this = Version(HERE.parent.resolve() / "src", options.episodes)
    lines = [
        "| agent | problem | other version, ms | this version, ms "
        "| median ratio | middle half | same regret |",
        "|---" * 7 + "|",
    ]
    medians = []
    for agent in options.agents:
        line, median = compare(agent, other, this, options.rounds)
        medians.append(median)
        lines.append(line)
        print(line, flush=True)
    other.stop()
    this.stop()
    about = (
        f"CPU time of a run of {options.episodes:,} users (joint privacy, epsilon = 1, "
        f"delta = 1e-5), with the making of its agent, in {options.rounds} rounds. "
        "A ratio above one means that this version is faster."
    )
    overall = (
        f"The median of the ratios is {np.median(medians):.3f}, "
        f"and at least {LEAST_RATIO} is wanted."
    )
    text = f"{about}\n\n" + "\n".join(lines) + f"\n\n{overall}\n"
    record("Speed of runs in two versions", text, write=options.write)


if __name__ == "__main__":
    main()
