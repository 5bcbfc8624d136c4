"""Regret of all agents in two versions, with the same problems, options and seeds.

    python benchmarks/learning_versions.py --other OTHER/src --write [ROW ...]

Each version runs `confide run ... --seeds 8 --json` with its own sources. The difference of the
mean regrets is compared with its standard error, which adds the variances of both means.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from record import record

HERE = Path(__file__).parent
SEEDS = 8
JOINT = ["--epsilon", "1", "--delta", "1e-5"]
LOCAL = ["--trust", "local", "--epsilon", "4", "--delta", "1e-5"]
PURE = ["--epsilon", "1", "--delta", "0"]
# (agent, problem, options, users)
ROWS = {
    "likelihood-vi": ("likelihood-vi", "lock", JOINT, 20_000),
    "likelihood-vi, local": ("likelihood-vi", "lock", LOCAL, 20_000),
    "questions-vi": ("questions-vi", "lock", PURE, 20_000),
    "questions-vi, unknown rewards": ("questions-vi", "lock-rewards", PURE, 20_000),
    "ucrl-vtr": ("ucrl-vtr", "lock", JOINT, 100_000),
    "ucrl-vtr-plus": ("ucrl-vtr-plus", "lock", JOINT, 100_000),
    "linopt-vi": ("linopt-vi", "lock-rewards", JOINT, 100_000),
    "linopt-po": ("linopt-po", "lock-rewards", JOINT, 100_000),
    "tabular-psrl": ("tabular-psrl", "riverswim", JOINT, 100_000),
    "tabular-psrl, local": ("tabular-psrl", "riverswim", LOCAL, 100_000),
    "tabular-psrl, steps differ": ("tabular-psrl", "riverswim-stage", JOINT, 100_000),
    "pucb": ("pucb", "riverswim", JOINT, 20_000),
    "ucbvi": ("ucbvi", "riverswim", JOINT, 20_000),
    "ucbpo": ("ucbpo", "riverswim", JOINT, 20_000),
    "dp-ucbvi": ("dp-ucbvi", "riverswim", JOINT, 20_000),
    "ldp-obi": ("ldp-obi", "riverswim", LOCAL, 20_000),
    "next-state-vi": ("next-state-vi", "one-hot", JOINT, 20_000),
    "lsvi-ucb": ("lsvi-ucb", "one-hot", JOINT, 20_000),
    "lin-ts": ("lin-ts", "linear-bandit", JOINT, 20_000),
    "lin-ucb": ("lin-ucb", "linear-bandit", JOINT, 20_000),
    "ofu-lq": ("ofu-lq", "oscillator", JOINT, 20_000),
    "thompson-lq": ("thompson-lq", "oscillator", JOINT, 20_000),
    "certainty-equivalent-lq": ("certainty-equivalent-lq", "oscillator", JOINT, 20_000),
}
HEAD = (
    "| agent | problem | privacy | users | regret, other version | regret, this version "
    "| difference in standard errors | same to the last bit |"
)
ABOUT = f"""Mean regret over {SEEDS} seeds ± its standard error, with default options. Smaller is
better. A positive difference means that this version is worse."""


def regrets(source: Path, row: str) -> np.ndarray:
    """The regret of each seed, computed by the sources of one version."""
    agent, problem, privacy, users = ROWS[row]
    command = [sys.executable, "-m", "confide", "run", agent, problem, *privacy]
    command += ["--episodes", str(users), "--seeds", str(SEEDS), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{row}: {done.stderr[-2000:]}")
    return np.array([each["regret"] for each in json.loads(done.stdout)])


def line(row: str, sources: tuple[Path, Path]) -> str:
    agent, problem, privacy, users = ROWS[row]
    other, this = (regrets(source, row) for source in sources)
    errors = [np.std(each, ddof=1) / np.sqrt(SEEDS) for each in (other, this)]
    difference = this.mean() - other.mean()
    is_same = np.array_equal(this, other)
    in_errors = 0.0 if is_same else difference / np.hypot(*errors)
    words = (
        f"{'local' if 'local' in privacy else 'joint'}, epsilon = "
        f"{privacy[privacy.index('--epsilon') + 1]}"
    )
    cells = [agent, problem, words, f"{users:,}"]
    cells += [
        f"{each.mean():,.0f} ± {error:,.0f}"
        for each, error in zip((other, this), errors, strict=True)
    ]
    cells += [f"{in_errors:+.2f}", "yes" if is_same else "no"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="rows of the table by name")
    parser.add_argument(
        "--other", type=Path, required=True, help="the sources of the other version"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    sources = options.other.resolve(), HERE.parent / "src"
    lines = [HEAD, "|---" * 8 + "|"]
    for row in options.rows:
        lines.append(line(row, sources))
        print(lines[-1], flush=True)
    text = f"{ABOUT}\n\n" + "\n".join(lines) + "\n"
    record("Learning in two versions", text, write=options.write)


if __name__ == "__main__":
    main()
