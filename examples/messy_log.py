"""Write a messy log of a made-up hospital, to try `confide logs import` on.

python examples/messy_log.py [raw.csv] [--people 2000] [--seed 0]

Ids and states are text, and times are timestamps. Patients have several stays. Rows are unsorted,
some are repeated, and some cells are missing or damaged.

Three more files are written to the same folder: states.txt and actions.txt list the labels, and
rewards.csv has the rewards of the states. All three are known without looking at anybody's data.
Then import the log:

confide logs import raw.csv --out log.parquet --user patient_id --stay stay_id --time charttime \
    --state condition --action treatment --reward reward \
    --states-file states.txt --actions-file actions.txt
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

import confide

STATES = ("stable", "mild", "moderate", "severe", "critical", "discharged")
ACTIONS = ("observe", "treat", "intensive care")
DISCHARGED = STATES.index("discharged")
HORIZON = 12


def hospital() -> confide.problems.TabularMDP:
    """The true problem: a patient gets better or worse, and a discharge ends the stay.

    A patient who is discharged earns a reward of 1.
    """
    # The probabilities that a patient gets better or worse, by action.
    better = (0.15, 0.35, 0.5)
    worse = (0.25, 0.15, 0.2)
    critical = STATES.index("critical")
    transitions = np.zeros((6, 3, 6))
    rewards = np.zeros((6, 3))
    for state in range(critical + 1):
        for action in range(3):
            up = better[action]
            down = worse[action] if state < critical else 0.0
            better_state = DISCHARGED if state == 0 else state - 1
            worse_state = min(state + 1, critical)
            transitions[state, action, better_state] += up
            transitions[state, action, worse_state] += down
            transitions[state, action, state] += 1 - up - down
    transitions[DISCHARGED, :, DISCHARGED] = 1.0
    rewards[DISCHARGED] = 1.0
    return confide.problems.TabularMDP(
        transitions, rewards, [0, 0.3, 0.3, 0.3, 0.1, 0], horizon=HORIZON, name="hospital"
    )


def clean_rows(people: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Simulate stays, and return their columns with one row per step.

    The columns are patient, stay, time in seconds, state, action and reward.
    """
    problem = hospital()
    policy = confide.policy.uniform_policy(HORIZON, 6, 3)
    stays_of_patient = 1 + (rng.random(people) < 0.3) + (rng.random(people) < 0.1)
    # The patient of each stay.
    owner = np.repeat(np.arange(people), stays_of_patient)
    blocks = list(confide.logs.simulate(problem, policy, len(owner), rng, end={DISCHARGED}))
    lengths = np.concatenate([np.diff(block.trajectories) for block in blocks])
    stay = np.repeat(np.arange(len(owner)), lengths)
    step = np.arange(len(stay)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    admitted = 1_500_000_000 + rng.permutation(len(owner)) * 7 * 3600
    rows = {
        "patient": owner[stay],
        "stay": stay,
        "time": admitted[stay] + 4 * 3600 * step + rng.integers(0, 3600, len(stay)),
    }
    return rows | {
        "state": np.concatenate([block.states for block in blocks]),
        "action": np.concatenate([block.actions for block in blocks]),
        "reward": np.concatenate([block.rewards for block in blocks]),
    }


def messy_table(rows: dict[str, np.ndarray], rng: np.random.Generator) -> pa.Table:
    """Return the same rows as shuffled text with repeated rows.

    Some cells are missing, padded with a space, or damaged.
    """
    clean_count = len(rows["stay"])
    repeated = rng.integers(0, clean_count, clean_count // 30)
    order = rng.permutation(np.concatenate([np.arange(clean_count), repeated]))
    n = len(order)
    shuffled = {name: values[order] for name, values in rows.items()}
    # Each label twice: as it is, and after a space.
    padded = pa.array([f"{space}{label}" for label in STATES for space in ("", " ")])

    def missing(share: float) -> np.ndarray:
        return rng.random(n) < share

    patients = int(shuffled["patient"].max(initial=0)) + 1
    stays = int(shuffled["stay"].max(initial=0)) + 1
    patient_ids = pa.array([f"P{number:07d}" for number in range(patients)])
    stay_ids = pa.array([f"S{number:08d}" for number in range(stays)])
    times = pa.array(shuffled["time"], pa.timestamp("s")).cast(pa.string())
    without_time = pa.array(missing(0.001))
    return pa.table(
        {
            "patient_id": _blank(patient_ids.take(shuffled["patient"]), missing(0.001)),
            "hospital": pa.array(np.full(n, "north")),
            "stay_id": stay_ids.take(shuffled["stay"]),
            "charttime": pa.compute.if_else(without_time, "unknown", times),
            "condition": _blank(padded.take(2 * shuffled["state"] + missing(0.05)), missing(0.01)),
            "treatment": _blank(pa.array(ACTIONS).take(shuffled["action"]), missing(0.005)),
            "reward": _blank(pa.array(shuffled["reward"]), missing(0.005)),
        }
    )


def _blank(column: pa.Array, where: np.ndarray) -> pa.Array:
    return pa.compute.if_else(pa.array(where), pa.scalar(None, column.type), column)


def write_messy(path: Path, people: int, seed: int = 0) -> None:
    """Write the log, and in the same folder the two lists of labels and the rewards of states."""
    rng = np.random.default_rng(seed)
    csv.write_csv(messy_table(clean_rows(people, rng), rng), path)
    for name, labels in (("states.txt", STATES), ("actions.txt", ACTIONS)):
        path.with_name(name).write_text("\n".join(labels) + "\n")
    rewards = hospital().rewards[0, :, 0]
    path.with_name("rewards.csv").write_text("".join(f"{reward:g}\n" for reward in rewards))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a messy log of a made-up hospital.")
    parser.add_argument(
        "path", type=Path, nargs="?", default=Path("raw.csv"), help="the file to write"
    )
    parser.add_argument("--people", type=int, default=2000, help="the number of patients")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the simulation")
    options = parser.parse_args()
    write_messy(options.path, options.people, options.seed)
    print(
        f"{options.path}: {options.people:,} patients; "
        "labels in states.txt and actions.txt, rewards in rewards.csv"
    )


if __name__ == "__main__":
    main()
