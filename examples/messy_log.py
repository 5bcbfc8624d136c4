"""A messy file of a made-up hospital: text ids and states, timestamps, duplicates, missing cells, several stays per patient, unsorted.

python examples/messy_log.py [raw.csv] [--people 2000] [--seed 0]

It writes the file, and beside it states.txt and actions.txt, the lists of labels, and rewards.csv, the rewards of states, which are all
known without looking at anybody's data. Then

confide logs import raw.csv --out log.parquet --user patient_id --stay stay_id --time charttime --state condition --action treatment \
    --reward reward --states-file states.txt --actions-file actions.txt
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

import confide

STATES = ("stable", "mild", "moderate", "severe", "critical", "discharged")
ACTIONS = ("observe", "treat", "intensive care")
HORIZON = 12


def hospital() -> confide.problems.TabularMDP:
    """A patient gets better or worse; being discharged is worth 1, and ends the stay."""
    better, worse = (0.15, 0.35, 0.5), (0.25, 0.15, 0.2)  # by action
    transitions, rewards = np.zeros((6, 3, 6)), np.zeros((6, 3))
    for state in range(5):
        for action in range(3):
            up, down = better[action], worse[action] if state < 4 else 0.0
            transitions[state, action, 5 if state == 0 else state - 1] += up
            transitions[state, action, min(state + 1, 4)] += down
            transitions[state, action, state] += 1 - up - down
    transitions[5, :, 5] = 1.0
    rewards[5] = 1.0
    return confide.problems.TabularMDP(
        transitions, rewards, [0, 0.3, 0.3, 0.3, 0.1, 0], horizon=HORIZON, name="hospital"
    )


def clean_rows(people: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """One row per step, as it was: patient, stay, time in seconds, state, action, reward."""
    problem = hospital()
    policy = confide.policy.uniform_policy(HORIZON, 6, 3)
    owner = np.repeat(
        np.arange(people), 1 + (rng.random(people) < 0.3) + (rng.random(people) < 0.1)
    )
    blocks = list(confide.logs.simulate(problem, policy, len(owner), rng, end={5}))
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
    """The same rows as text: shuffled, some twice, with cells that are missing, padded or damaged."""
    order = rng.permutation(
        np.concatenate(
            [
                np.arange(len(rows["stay"])),
                rng.integers(0, len(rows["stay"]), len(rows["stay"]) // 30),
            ]
        )
    )
    n = len(order)
    taken = {name: values[order] for name, values in rows.items()}
    padded = pa.array([f"{space}{label}" for label in STATES for space in ("", " ")])

    def missing(share: float) -> np.ndarray:
        return rng.random(n) < share

    ids = pa.array([f"P{number:07d}" for number in range(int(taken["patient"].max(initial=0)) + 1)])
    stays = pa.array([f"S{number:08d}" for number in range(int(taken["stay"].max(initial=0)) + 1)])
    times = pa.array(taken["time"], pa.timestamp("s")).cast(pa.string())
    some = pa.array(missing(0.001))
    return pa.table(
        {
            "patient_id": _blank(ids.take(taken["patient"]), missing(0.001)),
            "hospital": pa.array(np.full(n, "north")),
            "stay_id": stays.take(taken["stay"]),
            "charttime": pa.compute.if_else(some, "unknown", times),
            "condition": _blank(padded.take(2 * taken["state"] + missing(0.05)), missing(0.01)),
            "treatment": _blank(pa.array(ACTIONS).take(taken["action"]), missing(0.005)),
            "reward": _blank(pa.array(taken["reward"]), missing(0.005)),
        }
    )


def _blank(column: pa.Array, where: np.ndarray) -> pa.Array:
    return pa.compute.if_else(pa.array(where), pa.scalar(None, column.type), column)


def write_messy(path: Path, people: int, seed: int = 0) -> None:
    """The file, and beside it the two lists of labels and the rewards of states."""
    rng = np.random.default_rng(seed)
    csv.write_csv(messy_table(clean_rows(people, rng), rng), path)
    for name, labels in (("states.txt", STATES), ("actions.txt", ACTIONS)):
        path.with_name(name).write_text("\n".join(labels) + "\n")
    path.with_name("rewards.csv").write_text(
        "".join(f"{reward:g}\n" for reward in hospital().rewards[0, :, 0])
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path, nargs="?", default=Path("raw.csv"))
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_messy(arguments.path, arguments.people, arguments.seed)
    print(
        f"{arguments.path}: {arguments.people:,} patients; labels in states.txt and actions.txt, rewards in rewards.csv"
    )


if __name__ == "__main__":
    main()
