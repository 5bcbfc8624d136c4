"""The crash matrix of the service, with many kills at each point.

Kills are -9, for joint and local privacy, and for the two broken twins. Everything happens on
SQLite and on PostgreSQL.

python benchmarks/service_crashes.py --kills 50 --write
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))

from crash_harness import CLOSES, POINTS, AnswersBeforeCommit, Crashes, ShowsBeforeCommit, Watched
from postgres_cluster import cluster, programs
from record import record

from confide.service.core.folder import ServiceFolder

FULL = "\n\nWhat happens when the disk is full is [on a page of its own](service_full_disk.md).\n"


def matrix(point, trust, kills, service=Watched, address=lambda: None):
    """Kills at one point, over as many services as it takes; how many, and what went wrong."""
    done = 0
    problems = []
    counted_users = 0
    releases = 0
    while done < kills:
        with tempfile.TemporaryDirectory() as folder:
            place = ServiceFolder(Path(folder) / "service", address=address())
            crashes = Crashes(place, trust=trust, service=service, users=48, every=6)
            for attempt in range(60):
                killed = crashes.run(point, 1 + attempt % (2 if point in CLOSES else 5))
                if done + crashes.kills >= kills or not killed:
                    break
            crashes.run("nowhere")
            done += crashes.kills
            problems += crashes.problems()
            counted_users += sum(bool(each & {"counted", "same"}) for each in crashes.told.values())
            releases += len(crashes.shown)
    return done, problems, counted_users, releases


def rows(database, address, kills):
    """Return the rows of one database, each with its number of kills.

    The kills of the twins are not counted.
    """
    for point in POINTS:
        for trust in ("joint", "local"):
            done, problems, counted_users, releases = matrix(point, trust, kills, address=address)
            row = (
                f"| {database} | {point} | {trust} | {done} | {counted_users} | {releases} | "
                f"{len(problems)} |"
            )
            print(row, flush=True)
            yield row, done
    for twin, point in ((AnswersBeforeCommit, "summed"), (ShowsBeforeCommit, "drawn")):
        done, problems, counted_users, releases = matrix(point, "joint", 5, twin, address)
        row = (
            f"| {database} | {point}, twin {twin.__name__} | joint | {done} | "
            f"{counted_users} | {releases} |"
        )
        yield f"{row} {len(problems)} |", 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50, help="the number of kills at each point")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    with cluster(programs()) as server:
        measured = [*rows("SQLite", lambda: None, options.kills)]
        measured += rows("PostgreSQL", server.url, options.kills)
    lines = [
        (
            "| database | killed | trust | kills | users whose report was answered as counted | "
            "releases seen | lost, doubled or two-faced |"
        ),
        "|---" * 7 + "|",
        *(row for row, _ in measured),
    ]
    text = (
        f"{sum(kills for _, kills in measured)} kills. "
        "A service is killed with -9 at a point of the crash matrix, again and again; "
        "devices retry the same bytes. At the end "
        "everybody who was told to be counted is counted once, "
        "sums are those of the users in their batches, and no "
        "release has two faces. The last two rows of each database "
        "are services that are broken on purpose: what goes wrong in them is found.\n\n"
    )
    record("Kills of a service", text + "\n".join(lines) + FULL, write=options.write)


if __name__ == "__main__":
    main()
