"""A service whose PostgreSQL server is killed and started again and again.

    python benchmarks/service_postgres_killed.py --kills 20 --write

All processes of the server are killed (-9) while users report. The service stays up. Who is
answered 503 sends the same bytes again. At the end everybody who was told to be counted is counted
once.
"""

import argparse
import contextlib
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))

import psycopg
from postgres_cluster import Cluster, programs
from record import record
from service_bench import Bench

from confide.service.core.folder import ServiceFolder
from confide.service.core.verification import verify_store

USERS = 2000
EVERY = 100
GROUP = 10


class Server:
    """A PostgreSQL server that can be killed. It recovers from its log when it is started again."""

    def __init__(self, place):
        self.place = place
        self.where = programs()
        self.user = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(place, account.pw_uid, account.pw_gid)
            self.user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        command = [
            self.where / "initdb",
            "-D",
            f"{place}/data",
            "-U",
            "confide",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
        ]
        subprocess.run(command, check=True, capture_output=True, cwd=place, **self.user)
        self.start()

    def start(self):
        settings = {"listen_addresses": "", "unix_socket_directories": self.place}
        command = [
            self.where / "postgres",
            "-D",
            f"{self.place}/data",
            *(f"--{name}={value}" for name, value in settings.items()),
        ]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.place,
            start_new_session=True,
            **self.user,
        )
        for _ in range(600):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(Cluster(self.place).plain).close()
                return
            time.sleep(0.05)
        raise SystemExit("PostgreSQL did not start")

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def kill_repeatedly(kills, trust):
    """How many were told to be counted, how many are, refusals, releases, and checks that fail."""
    with tempfile.TemporaryDirectory() as place:
        server = Server(place)
        try:
            folder = ServiceFolder(Path(place) / "service", address=Cluster(place).url())
            bench = Bench(folder)
            bench.create(trust=trust, users=USERS, every=EVERY)
            counted_users = set()
            refused = 0
            person = 0
            done = 0
            while bench.service.runs["demo"].status == "open":
                names = [f"person {number}" for number in range(person, person + GROUP)]
                person += GROUP
                reports = [bench.report(name) for name in names]
                if done < kills and person % (USERS // kills) < GROUP:
                    server.kill()
                    done += 1
                    refused += sum(outcome == "unavailable" for outcome in bench.send(*reports))
                    server.start()
                # The devices send the same bytes again.
                outcomes = bench.send(*reports)
                while "unavailable" in outcomes:
                    refused += outcomes.count("unavailable")
                    time.sleep(0.1)
                    outcomes = bench.send(*reports)
                counted_users |= {
                    name
                    for name, outcome in zip(names, outcomes, strict=True)
                    if outcome in ("counted", "same")
                }
            counted = sum(bench.service.store.participants("demo").values())
            releases = bench.service.runs["demo"].generation
            failed = [
                finding.about
                for finding in verify_store(bench.service.store, folder.keys, folder.marks)
                if not finding.holds
            ]
            bench.stop()
            return done, len(counted_users), counted, refused, releases, failed
        finally:
            server.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20, help="the number of kills at each point")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    text = (
        "A service on PostgreSQL takes reports in groups of ten. "
        "The database server is killed (-9, all processes), a group is sent, the "
        "server is started again, and the same bytes are sent until they are answered.\n\n"
        "| trust | kills | told that they count | counted in the database | answers 503 | "
        "releases | checks that fail |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for trust in ("joint", "local"):
        done, counted_users, counted, refused, releases, failed = kill_repeatedly(
            options.kills, trust
        )
        text += (
            f"| {trust} | {done} | {counted_users:,} | {counted:,} | {refused} | {releases} | "
            f"{', '.join(failed) or 'none'} |\n"
        )
    record("Kills of the PostgreSQL server", text, write=options.write)


if __name__ == "__main__":
    main()
