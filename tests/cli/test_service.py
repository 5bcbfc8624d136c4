"""confide serve and confide service."""

import json
import sqlite3
import stat
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from service_bench import still_open

from confide.service.core.folder import ServiceFolder
from confide.service.core.spec import parse_spec
from confide.service.web.access import Keyring

RUN = """name = "demo"
agent = "likelihood-vi"
problem = "lock"
epsilon = 1.0
delta = 1e-5
users = 100
noise = "fast"
"""


def test_a_folder_is_made_and_looked_after(call, tmp_path):
    place = str(tmp_path / "service")
    assert "keys" in call("service", "init", place)
    assert "nothing is missing" in call("service", "init", place)
    key = call("service", "keys", place, "--new", "device", "--label", "phones").strip()
    assert key.startswith("cfd_")
    listed = call("service", "keys", place)
    assert "phones" in listed and key.split("_", 2)[2] not in listed and "signing key" in listed
    call("service", "keys", place, "--revoke", key.split("_")[1])
    assert "revoked" in call("service", "keys", place)
    call("service", "keys", place, "--new", "device", "--expires", "90d")
    assert "all runs, expires 20" in call("service", "keys", place)
    assert "no run none" in call(
        "service", "keys", place, "--new", "device", "--run", "none", code=2
    )
    assert "--new" in call("service", "keys", place, "--expires", "90d", code=2)
    assert "no runs yet" in call("service", "status", place)
    assert "holds  audit: 4 rows" in call("service", "verify", place)
    assert "PRIVATE" in call("service", "backup", place, str(tmp_path / "copy"))
    assert "File exists" in call("service", "backup", place, str(tmp_path / "copy"), code=2)
    store = ServiceFolder(place).store()
    assert [row.action for row in store.audit_rows()][-3:] == ["backup", "backup", "backup failed"]
    store.close()
    assert json.loads(call("service", "status", place, "--json")) == []
    assert "no mark is missing" in call("service", "mark", place)
    rotated = call("service", "rotate", place).split()[4]
    assert f"signing key {rotated}  in use" in call("service", "keys", place)
    assert "FAILS" not in call("service", "verify", place)  # it is endorsed by the first
    assert "has no run demo" in call("service", "finish", place, "demo", code=2)
    for command, more in (("status", []), ("mark", []), ("finish", ["demo"])):
        assert "has no service" in call("service", command, str(tmp_path / "none"), *more, code=2)


def test_the_status_names_runs_that_cannot_be_served(call, tmp_path):
    folder = ServiceFolder(tmp_path / "service")
    folder.init()
    service = folder.open()
    for name in ("good", "bad"):
        service.create(parse_spec(RUN.replace("demo", name)))
    service.stop()
    folder.let_go()
    with closing(sqlite3.connect(folder.database)) as db:
        db.execute("UPDATE run SET state = ? WHERE name = 'bad'", (bytes(1000),))
        db.commit()
    listed = call("service", "status", str(folder.folder)).splitlines()
    assert listed[0].startswith("bad: NOT READY: the state of run bad")
    assert listed[1] == "good: open, release 0, 0 users in the open batch"
    facts = json.loads(call("service", "status", str(folder.folder), "--json"))
    assert facts[0]["cause"] and facts[1]["cause"] is None


def test_what_cannot_be_served_is_said(call, tmp_path):
    assert "nothing to serve" in call("serve", code=2)
    (tmp_path / "run.toml").write_text(RUN.replace("lock", "none"))
    assert "unknown problem" in call(
        "serve", str(tmp_path / "run.toml"), "--folder", str(tmp_path / "x"), code=2
    )
    assert still_open(tmp_path / "x" / "service.sqlite") == []
    assert "cannot read" in call("serve", str(tmp_path / "missing.toml"), code=2)


@pytest.mark.process
def test_a_file_is_enough_to_serve(tmp_path):
    """From the file to a manifest over HTTP, and a graceful end."""
    (tmp_path / "run.toml").write_text(RUN)
    command = [sys.executable, "-m", "confide", "serve", "run.toml", "--port", "18719"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            said = [server.stdout.readline() for _ in range(3)]
            assert "SIMULATION" in said[0] and "serving at http://127.0.0.1:18719" in said[2]
            with urllib.request.urlopen(
                "http://127.0.0.1:18719/v1/runs/demo/manifest", timeout=20
            ) as answer:
                assert json.load(answer)["run"] == "demo"
        finally:
            server.terminate()
        errors = server.stderr.read()
    assert server.returncode == 0
    assert "Traceback" not in errors
    # What a service prints is kept in journals: the keys are in files, and only their paths are
    # printed.
    assert "cfd_" not in "".join([*said, errors])
    for role in ("admin", "device"):
        path = Path("demo-service", "keys", f"api-{role}.key")
        assert f"API key for {role}: in the file {path}\n" in errors
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o600
        key = (tmp_path / path).read_text().strip()
        with closing(ServiceFolder(tmp_path / "demo-service").store()) as store:
            assert Keyring(store).find(key).role == role
    assert (tmp_path / "demo-service" / "service.sqlite").exists()
