"""A PostgreSQL server of its own in a temporary folder, on a Unix socket."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg


def programs():
    """The folder of `initdb` and `postgres`; None if there is none."""
    found = shutil.which("initdb")
    places = (
        [Path(found).resolve().parent]
        if found
        else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    )
    return next(
        (
            each
            for each in reversed(places)
            if (each / "initdb").exists() and (each / "postgres").exists()
        ),
        None,
    )


class Cluster:
    """Each test has a schema of its own: `url()` makes one."""

    def __init__(self, socket):
        self.folder = Path(socket)
        self.plain = f"postgresql:///postgres?host={quote(str(socket), safe='')}&user=confide"
        self._numbers = itertools.count()

    def url(self):
        schema = f"test_{next(self._numbers)}"
        with psycopg.connect(self.plain, autocommit=True) as db:
            db.execute(f"CREATE SCHEMA {schema}")
        return f"{self.plain}&options={quote(f'-csearch_path={schema}')}"


@contextlib.contextmanager
def cluster(where):
    """PostgreSQL refuses to run as root: then it runs as the user that Debian makes for it."""
    with tempfile.TemporaryDirectory(prefix="confide-pg-") as place:
        folder = Path(place) / "data"
        user = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(place, account.pw_uid, account.pw_gid)
            user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        made = [
            where / "initdb",
            "-D",
            folder,
            "-U",
            "confide",
            "--no-sync",
            "--wal-segsize=1",
            "--encoding=UTF8",
            "--locale=C",
            "--auth=trust",
        ]
        subprocess.run(made, check=True, capture_output=True, cwd=place, **user)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": place,
            "max_connections": 60,
            "shared_buffers": "16MB",
        }
        command = [
            where / "postgres",
            "-D",
            folder,
            *(f"--{name}={value}" for name, value in settings.items()),
        ]
        server = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=place, **user
        )
        try:
            made = Cluster(place)
            wait_for(made, server)
            yield made
        finally:
            server.send_signal(signal.SIGQUIT)  # at once: nobody reads it again
            server.wait()


def wait_for(made, server):
    for _ in range(600):
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(made.plain).close()
            return
        assert server.poll() is None, "PostgreSQL did not start"
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=0.05)
    raise AssertionError("PostgreSQL was not ready within 30 seconds")
