"""Do devices on other processors plan the same rounds?

    PYTHONPATH=OTHER/src python benchmarks/processors.py --users 400 --json before.json
    python benchmarks/processors.py --users 400 --before before.json --write

A server learns from simulated devices, and keeps each release. Processes with other kernels of
OpenBLAS, without NumPy's CPU features, with numba for a generic processor, and with one or two
threads plan the rounds anew from the same bytes. Each then makes a message, and the server that
made the release takes it or refuses it. Numbers of another version (--before) stand beside the new
ones.
"""

import argparse
import base64
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from record import record

from confide.agents.catalogue import agent_class
from confide.errors import ConfideError
from confide.mechanisms.sources import noise_source
from confide.policy import LinearPolicy
from confide.privacy import LocalDP
from confide.privatizers.schedule import every
from confide.problems import (
    linear_bandit,
    lock,
    lock_rewards,
    one_hot,
    oscillator,
    riverswim,
    riverswim_stage,
)

ROOT = Path(__file__).parents[1]
# (agent, problem, without noise worth mentioning): weak privacy makes planning branch on the data.
CASES = {
    "ucrl-vtr": lambda: lock(0),
    "ucrl-vtr-plus": lambda: lock(0),
    "linopt-vi": lambda: lock_rewards(0),
    "linopt-po": lambda: lock_rewards(0),
    "likelihood-vi": lambda: lock(0),
    "questions-vi": lambda: lock(0),
    "questions-vi, unknown rewards": lambda: lock_rewards(0),
    "next-state-vi": lambda: one_hot(states=4, horizon=5),
    "tabular-psrl": lambda: riverswim(),
    "tabular-psrl, steps differ": lambda: riverswim_stage(),
    "pucb": lambda: riverswim(),
    "ucbvi": lambda: riverswim(),
    "ucbpo": lambda: riverswim(),
    "dp-ucbvi": lambda: riverswim(),
    "ldp-obi": lambda: riverswim(),
    "lin-ts": lambda: linear_bandit(4, 3),
    "lin-ucb": lambda: linear_bandit(4, 3),
    "ofu-lq": lambda: oscillator(horizon=5),
    "thompson-lq": lambda: oscillator(horizon=5),
    "certainty-equivalent-lq": lambda: oscillator(horizon=5),
}
FEATURES = "AVX2 FMA3 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL X86_V3 X86_V4"
PROCESSORS = {
    "as it is": {},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "NumPy's baseline": {"NPY_DISABLE_CPU_FEATURES": FEATURES},
    "numba generic": {"NUMBA_CPU_NAME": "generic"},
    "one thread": {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    "two threads": {"OPENBLAS_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"},
    "Nehalem, NumPy's baseline, numba generic": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": FEATURES,
        "NUMBA_CPU_NAME": "generic",
    },
}
# Of statistics without `tables()`, as in version 0.2: where they keep the tables of a round.
TABLES = (
    "_whole",
    "_steps",
    "_signs",
    "_rewards",
    "_later",
    "_weight",
    "_rows",
    "_offset",
    "costs",
    "guess",
    "scales",
)


def digests_module():
    """This version's digest, also where an older version of the package is measured."""
    spec = importlib.util.spec_from_file_location(
        "round_digest", ROOT / "src/confide/learning/round_digest.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Tables:
    def __init__(self, statistic):
        self._statistic = statistic

    def tables(self):
        if hasattr(self._statistic, "tables"):
            return self._statistic.tables()
        parts = [getattr(self._statistic, name, None) for name in ("first", "second")]
        inner = [table for part in parts if part is not None for table in Tables(part).tables()]
        return inner + [
            value for name in TABLES if (value := getattr(self._statistic, name, None)) is not None
        ]


def server_of(name, users):
    problem = CASES[name]()
    kind = agent_class(name.split(",")[0])
    options = (
        {} if name.startswith("questions-vi") else {"schedule": every(max(users // 20, 1), users)}
    )
    privacy = LocalDP(200.0, 1e-3)
    agent = kind(
        problem.public, episodes=users, privacy=privacy, noise=noise_source("fast", 0), **options
    )
    agent.rng = np.random.default_rng(0)
    return agent, problem


def make_releases(folder, names, users):
    """Under weak privacy, so that what is planned depends on what was seen."""
    for name in names:
        agent, problem = server_of(name, users)
        rng = np.random.default_rng(1)
        place = folder / name
        place.mkdir()
        while agent.users < agent.episodes:
            generation = agent.released().generation
            (place / f"{generation}.release").write_bytes(agent.publish())
            (place / f"{generation}.state").write_bytes(agent.save())
            batch = agent.next_batch()
            for start in range(0, batch.users, 1000):
                agent.observe_crowd(
                    problem.sample(batch.policy, min(1000, batch.users - start), rng)
                )
            if agent.released().generation > 25:
                break


def plan_releases(folder, names, users):
    """What one processor makes of the releases: digests, and a message to each round."""
    module = digests_module()
    results = {}
    for name in names:
        agent, problem = server_of(name, users)
        for path in sorted((folder / name).glob("*.release")):
            client = agent.client()
            try:
                policy = client.plan(path.read_bytes())
            except ConfideError as error:
                results[f"{name} {path.stem}"] = {
                    "decisions": type(error).__name__,
                    "bits": "",
                    "message": "",
                }
                continue
            planned = client._planned[0]
            tables = Tables(planned.statistic)
            size = None if planned.size is None else planned.size[0].size
            decisions = module.round_digest(planned.policies, planned.shares, tables, size).hex()
            arrays = [
                *tables.tables(),
                *(np.asarray(part) for one in planned.policies for part in arrays_of(one)),
            ]
            bits = hashlib.sha256(
                b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)
            ).hexdigest()
            episode = problem.sample(policy, 1, np.random.default_rng(3))
            message = base64.b64encode(client.report(episode)).decode()
            results[f"{name} {path.stem}"] = {
                "decisions": decisions,
                "bits": bits,
                "message": message,
            }
    return results


def arrays_of(policy):
    if isinstance(policy, LinearPolicy):
        return [policy.gains]
    return [
        part
        for name in ("actions", "weights", "widths")
        if (part := getattr(policy, name, None)) is not None
    ]


def take_messages(folder, planned, users):
    """Which messages the server that made a release counts, and why it refuses the others."""
    answers = {}
    for key, result in planned.items():
        name, generation = key.rsplit(" ", 1)
        agent, _ = server_of(name, users)
        agent.restore(
            (folder / name / f"{generation}.state").read_bytes(), released=int(generation)
        )
        try:
            agent.absorb(base64.b64decode(result["message"]))
            answers[key] = "counted"
        except ConfideError as error:
            answers[key] = type(error).__name__
    return answers


def measure(names, users):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_releases(folder, names, users)
        shared = ["--folder", place, "--users", str(users), "--agents", ";".join(names)]
        measured = {}
        for processor, variables in PROCESSORS.items():
            command = [sys.executable, __file__, "--plan", *shared]
            done = subprocess.run(
                command,
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"{processor}: {done.stderr[-2000:]}")
            measured[processor] = json.loads(done.stdout)
        usual = measured["as it is"]
        return {
            processor: compare(usual, planned, take_messages(folder, planned, users))
            for processor, planned in measured.items()
        }


def compare(usual, planned, answers):
    """`another` are the rounds whose policies, questions or tables differ by more than rounding."""
    another = [key for key in usual if planned[key]["decisions"] != usual[key]["decisions"]]
    bits = [key for key in usual if planned[key]["bits"] != usual[key]["bits"]]
    return {
        "rounds": len(usual),
        "other last bits": len(bits),
        "another round": len(another),
        "counted though another": sum(answers[key] == "counted" for key in another),
        "refused though the same": sum(
            answers[key] != "counted" for key in usual if key not in another
        ),
        "which": another,
        "answers": sorted({answers[key] for key in another}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=2_000, help="the number of users")
    parser.add_argument("--agents", default=";".join(CASES), help="names, separated by semicolons")
    parser.add_argument("--folder", default="")
    parser.add_argument(
        "--plan", action="store_true", help="for the processes that this script starts"
    )
    parser.add_argument("--json", type=Path, help="where to keep the numbers, for --before")
    parser.add_argument("--before", type=Path, help="numbers of another version, from --json")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    names = options.agents.split(";")
    if options.plan:
        print(json.dumps(plan_releases(Path(options.folder), names, options.users)))
        return
    results = measure(names, options.users)
    if options.json:
        options.json.write_text(json.dumps(results))
    before = json.loads(options.before.read_text()) if options.before else None
    record("Rounds on other processors", page(results, before), write=options.write)


ABOUT = """A server learns from simulated devices of {agents} agents and problems under local
privacy, and keeps each release. Another process plans the rounds again from the same bytes, on an
emulated processor, and makes a message to each round. A round differs if its policies, its
questions or its tables differ by more than rounding. The server counts a message only if it names
the round that the server has planned.
"""


def page(results, before):
    """A table with a row for each processor, and the agents whose rounds differ."""
    columns = [
        "processor",
        "rounds",
        "rounds that differ",
        "of these counted",
        "same round refused",
    ]
    if before:
        columns += ["version 0.2: rounds that differ", "of these counted"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    names = ("rounds", "another round", "counted though another", "refused though the same")
    for processor, counts in results.items():
        cells = [processor, *(counts[name] for name in names)]
        if before:
            cells += [before[processor][name] for name in names[1:3]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    agents = {key.rsplit(" ", 1)[0] for counts in results.values() for key in counts["which"]}
    answers = {answer for counts in results.values() for answer in counts["answers"]}
    last = (
        (
            f"Only rounds of {', '.join(sorted(agents))} differ. The server answers "
            f"{', '.join(sorted(answers))}."
        )
        if agents
        else "No round differs."
    )
    return ABOUT.format(agents=len(CASES)) + "\n" + "\n".join(lines) + f"\n\n{last}\n"


if __name__ == "__main__":
    main()
