"""Durable reports per second of two versions of the service, in turn on the same machine.

python benchmarks/vault_speed.py --other OTHER/src --rounds 11 --write

One process of each version waits for its turn. Reports are prepared before the clock starts, and go
through the writer (`Service.handle`): who reported, the open sum, and the commit. HTTP is not part
of it, so that what the versions do differently weighs more than it does for devices.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from record import record

HERE = Path(__file__).parent
GROUPS = (1, 64)
SECONDS = 1.0
ABOUT = """A joint run of `likelihood-vi` on `lock`. The versions take turns, {rounds} rounds of
about {seconds:g} s each, and change their order from round to round. Ratios are of neighbouring
turns. Version 0.2 does not seal what it stores."""


def work(folder, address):
    """A service of this process's version.

    Each line of the input is a group size and a number of groups.
    """
    # In version 0.2 these modules were not yet in a folder of their own.
    package = "confide.service" if find_spec("confide.service.folder") else "confide.service.core"
    Report = import_module(f"{package}.admission").Report
    ServiceFolder = import_module(f"{package}.folder").ServiceFolder
    spec = import_module(f"{package}.spec")
    Batching = spec.Batching
    RunSpec = spec.RunSpec

    place = ServiceFolder(folder, address=address or None)
    if not place.exists():
        place.init()
    service = place.open()
    batch = Batching(schedule=5_000_000)
    privacy = {"epsilon": 1.0, "delta": 1e-5, "noise": "fast"}
    service.create(
        RunSpec(
            name="speed",
            agent="likelihood-vi",
            problem="lock",
            users=10_000_000,
            batch=batch,
            **privacy,
        )
    )
    run = service.runs["speed"]
    content = ([0, 3, 5, 2, 9, 1], [0, 1, 2, 3, 0], [0.0, 0.25, 0.0, 1.0, 0.0])
    answers = []

    def group(size):
        names = [
            (secrets.token_bytes(32), secrets.token_bytes(32), secrets.token_bytes(16))
            for _ in range(size)
        ]
        return [
            (Report("speed", who, person, nonce, run.generation, content), answers.append)
            for who, person, nonce in names
        ]

    for line in sys.stdin:
        size, count = map(int, line.split())
        groups = [group(size) for _ in range(count)]
        answers.clear()
        started = time.perf_counter()
        for tickets in groups:
            service.handle(tickets)
        seconds = time.perf_counter() - started
        assert {answer.outcome for answer in answers} == {"counted"}
        print(size * count / seconds, flush=True)
    service.stop()


class Version:
    def __init__(self, source, folder, address):
        environment = os.environ | {"PYTHONPATH": str(source)}
        command = [sys.executable, __file__, "--work", str(folder), "--address", address]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder.parent,
        )
        self.counts = {size: max(1, int(SECONDS * self.rate(size, 20) / size)) for size in GROUPS}

    def rate(self, size, count=None):
        self.process.stdin.write(f"{size} {count or self.counts[size]}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(sources, rounds, address):
    """For each size of a group: rates of both versions, one row per round."""
    with tempfile.TemporaryDirectory(dir=".") as place, ExitStack() as stack:
        versions = []
        for number, source in enumerate(sources):
            versions.append(Version(source, Path(place).resolve() / f"{number}", address()))
            stack.callback(versions[-1].end)
        rates = {size: [] for size in GROUPS}
        for turn in range(rounds):
            order = [0, 1] if turn % 2 else [1, 0]
            for size in GROUPS:
                row = [0.0, 0.0]
                for which in order:
                    row[which] = versions[which].rate(size)
                rates[size].append(row)
        return rates


def lines_of(database, rates):
    for size, rows in rates.items():
        before, now = np.array(rows).T
        ratio = now / before
        yield (
            f"| {database} | {size} | {np.median(before):,.0f} | {np.median(now):,.0f} | "
            f"{np.median(ratio):.2f} "
            f"| {ratio.min():.2f} | {ratio.max():.2f} |"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--other", type=Path, help="the sources of the other version")
    parser.add_argument("--rounds", type=int, default=11, help="the number of rounds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.address)
        return
    sys.path.insert(0, str(HERE.parent / "tests" / "service"))
    from postgres_cluster import cluster, programs

    sources = options.other.resolve(), HERE.parent / "src"
    lines = [
        (
            "| database | reports in a transaction | other version | this version | median ratio | "
            "least | largest |"
        )
    ]
    lines += ["|---" * 7 + "|"]
    lines += lines_of("SQLite", compare(sources, options.rounds, str))
    with cluster(programs()) as server:
        lines += lines_of("PostgreSQL", compare(sources, options.rounds, server.url))
    text = ABOUT.format(rounds=options.rounds, seconds=SECONDS) + "\n\n" + "\n".join(lines) + "\n"
    record("Speed of a service that seals what it stores", text, write=options.write)


if __name__ == "__main__":
    main()
