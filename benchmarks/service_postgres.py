"""Several workers of the service on one PostgreSQL database.

python benchmarks/service_postgres.py --kills 10 --write

Workers are killed at each point, one worker is stopped past its lease, and the sums of two and
three workers are compared.
"""

import argparse
import tempfile
from pathlib import Path

from record import record

# This import also makes the harness of the tests importable.
from service_crashes import matrix

from confide.service.core.folder import ServiceFolder
from confide.service.store import postgres

from crash_harness import POINTS, AnswersBeforeCommit, Crashes, ShowsBeforeCommit  # isort: skip
from postgres_cluster import cluster, programs  # isort: skip


def run_workers(address, trust, act, users, every):
    """What workers did, until everybody has an answer."""
    with tempfile.TemporaryDirectory() as folder:
        crashes = Crashes(
            ServiceFolder(Path(folder) / "service", address=address),
            trust=trust,
            users=users,
            every=every,
            noise="fast",
        )
        crashes.people = users + users // 4
        act(crashes)
        crashes.run("nowhere")
        counted_users = sum(bool(each & {"counted", "same"}) for each in crashes.told.values())
        return counted_users, len(crashes.shown), crashes.problems()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10, help="the number of kills at each point")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    head = (
        "users whose report was answered as counted | releases seen | lost, doubled or two-faced |"
    )
    killed = [f"| killed | trust | kills | {head}", "|---|---|---|---|---|---|"]
    worked_lines = [f"| workers | trust | stopped | {head}", "|---|---|---|---|---|---|"]
    with cluster(programs()) as server:
        for point in POINTS:
            for trust in ("joint", "local"):
                kills, problems, counted_users, releases = matrix(
                    point, trust, options.kills, address=server.url
                )
                killed.append(
                    f"| {point} | {trust} | {kills} | {counted_users} | {releases} "
                    f"| {len(problems)} |"
                )
                print(killed[-1], flush=True)
        for twin, point in ((AnswersBeforeCommit, "summed"), (ShowsBeforeCommit, "drawn")):
            kills, problems, counted_users, releases = matrix(
                point, "joint", 3, twin, address=server.url
            )
            killed.append(
                f"| {point}, twin {twin.__name__} | joint | {kills} | {counted_users} | "
                f"{releases} | "
                f"{len(problems)} |"
            )
        for count, trust in ((2, "joint"), (2, "local"), (3, "joint"), (3, "local")):
            counted_users, releases, problems = run_workers(
                server.url(), trust, lambda each, count=count: each.workers(count), 600, 40
            )
            worked_lines.append(
                f"| {count} | {trust} | none | {counted_users} | {releases} | {len(problems)} |"
            )
            print(worked_lines[-1], flush=True)
        postgres.LEASE = 0.5
        for count, trust in ((2, "joint"), (3, "local")):
            for point in POINTS:

                def act(crashes, point=point, others=count - 1):
                    return crashes.stopped(point, others=others)

                counted_users, releases, problems = run_workers(server.url(), trust, act, 240, 20)
                worked_lines.append(
                    f"| {count} | {trust} | one at {point} | {counted_users} | {releases} | "
                    f"{len(problems)} |"
                )
                print(worked_lines[-1], flush=True)
    text = (
        "A service on PostgreSQL is killed with -9 at a point of the crash matrix, "
        "again and again; devices retry the same bytes. "
        "At the end everybody who was told to be counted is counted once, "
        "sums are those of the users in their batches, no release "
        "has two faces. Two services are broken on purpose: what goes wrong in them is found.\n\n"
        + "\n".join(killed)
        + "\n\n"
        "Workers in processes of their own take reports at the same time. "
        "In some rows one of them is stopped (SIGSTOP) at a point, "
        "the others go on until they have nobody left, past its lease (0.5 s here), "
        "and then it goes on, too.\n\n"
    )
    text += "\n".join(worked_lines) + "\n"
    record("Workers on PostgreSQL", text, write=options.write)


if __name__ == "__main__":
    main()
