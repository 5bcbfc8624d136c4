"""The folder of a service: `init` can be repeated after a kill at any file operation, and a key can
be replaced.
"""

import os
import shutil
import signal
import sys

import pytest
from service_bench import Bench

from confide.errors import InvalidParameter, StateError, StoreError
from confide.service.core.folder import ServiceFolder
from confide.service.core.verification import verify_store
from confide.service.store.sqlite import SqliteStore
from confide.service.store.vault import Vault
from confide.service.web.setup import open_service

ON_BOTH = pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)
CHANGES = {
    "os.mkdir",
    "os.chmod",
    "os.link",
    "os.rename",
    "os.remove",
    "fcntl.flock",
    "sqlite3.connect",
}


def failed_checks(folder):
    store = folder.store()
    try:
        return [
            each.about for each in verify_store(store, folder.keys, folder.marks) if not each.holds
        ]
    finally:
        store.close()


def killed(call, point):
    """Whether a process that does this was killed before its file operation of this number."""
    child = os.fork()
    if child == 0:
        reached = 0

        def operation(*_):
            nonlocal reached
            reached += 1
            if reached == point:
                os.kill(os.getpid(), signal.SIGKILL)

        def hook(event, arguments):
            if event in CHANGES or (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
            ):
                operation()

        def traced(store, opened):
            connection = connect(store, opened)
            connection.set_trace_callback(operation)
            return connection

        connect, SqliteStore._connect = SqliteStore._connect, traced
        sync, os.fsync = os.fsync, lambda handle: (operation(), sync(handle))
        sys.addaudithook(hook)
        try:
            call()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.process
def test_init_that_was_killed_anywhere_can_be_repeated(tmp_path):
    points = 0
    while True:
        folder = ServiceFolder(tmp_path / "service")
        if not killed(folder.init, points + 1):
            break
        points += 1
        folder.init()
        assert failed_checks(folder) == []
        assert sorted(path.name.partition("-")[0] for path in folder.keys.folder.iterdir()) == [
            "pseudonym.key",
            "signing",
            "vault.key",
        ]
        assert not [path for path in folder.folder.iterdir() if path.name.endswith(".part")]
        if points % 5 == 0:
            folder.rotate()
        shutil.rmtree(folder.folder)
    assert points > 50


@pytest.mark.process
@pytest.mark.parametrize("folder", ["postgres"], indirect=True)
def test_init_on_postgres_that_was_killed_can_be_repeated(folder):
    for point in range(1, 40, 4):
        if not killed(folder.init, point):
            break
        folder.init()
        assert (
            failed_checks(folder) == [] and ServiceFolder(folder.folder).address == folder.address
        )
    assert point > 1 and not folder.init()


def test_serving_finishes_an_init_that_was_killed(tmp_path):
    folder = ServiceFolder(tmp_path / "service")
    folder.keys.init()
    opened = open_service(folder, [])
    opened.service.stop()
    folder.let_go()
    assert failed_checks(folder) == []


@ON_BOTH
def test_init_again_changes_nothing(folder):
    assert folder.init()
    before = {path.name: path.read_bytes() for path in folder.keys.folder.iterdir()}
    assert not folder.init()
    assert {path.name: path.read_bytes() for path in folder.keys.folder.iterdir()} == before


@ON_BOTH
@pytest.mark.parametrize("name", ["vault.key", "pseudonym.key", "signing-*.key"])
def test_a_key_that_was_lost_is_named_and_not_made_anew(folder, name):
    folder.init()
    (path,) = folder.keys.folder.glob(name)
    path.unlink()
    for call in (folder.init, lambda: open_service(folder, [])):
        with pytest.raises(
            StateError, match=f"cannot read {path.name} .* Copy it there from your backup"
        ):
            call()
    assert not path.exists()
    assert failed_checks(folder) == ["keys"]


@ON_BOTH
def test_the_key_of_the_vault_can_be_replaced(bench, folder):
    bench.create(every=3)
    bench.create("local", trust="local", every=3)
    bench.send(*(bench.report(f"person {number}") for number in range(3)))
    bench.send(bench.report("ann", generation=1), bench.report("ann", "local"))
    sums = [bench.service.store.open_sum(name) for name in ("demo", "local")]
    old = (folder.keys.folder / "vault.key").read_bytes()
    bench.stop()
    assert folder.replace_vault_key() == 2
    assert [path.name for path in folder.keys.folder.glob("vault*")] == ["vault.key"]
    assert (folder.keys.folder / "vault.key").read_bytes() != old
    again = Bench(folder)
    assert [again.service.store.open_sum(name) for name in ("demo", "local")] == sums
    assert again.send(again.report("bob", generation=1), again.report("bob", "local")) == [
        "counted",
        "counted",
    ]
    again.stop()
    assert failed_checks(folder) == []
    (folder.keys.folder / "vault.key").write_bytes(old)
    assert set(failed_checks(folder)) == {
        f"{name}: {about}" for name in ("demo", "local") for about in ("people", "state")
    }


@ON_BOTH
@pytest.mark.parametrize("point", ["begin", "sealed"])
def test_a_replacement_that_was_killed_can_be_repeated(bench, folder, point, monkeypatch):
    """Between its steps both keys are there, and the service can go on."""
    bench.create(every=9)
    bench.send(bench.report("ann"))
    bench.stop()
    if point == "begin":
        folder.keys.begin_vault_replacement()
    else:
        monkeypatch.setattr(folder.keys, "finish_vault_replacement", lambda: None)
        folder.replace_vault_key()
        monkeypatch.undo()
    again = Bench(folder)
    assert again.send(again.report("bob")) == ["counted"]
    again.stop()
    folder.replace_vault_key()
    assert failed_checks(folder) == [] and not (folder.keys.folder / "vault.next.key").exists()


@pytest.mark.parametrize("folder", ["postgres"], indirect=True)
def test_a_worker_that_runs_follows_a_replacement(bench, folder):
    """It knows only the old key, and must not seal with it any more."""
    bench.create(every=2)
    bench.send(bench.report("ann"))
    ServiceFolder(folder.folder).replace_vault_key()
    assert bench.send(bench.report("bob")) == ["counted"]
    bench.send(bench.report("eve", generation=1))
    store = ServiceFolder(folder.folder).store()
    assert store.open_sum("demo").users == 1 and store.state("demo").generation == 1
    store.close()


@ON_BOTH
def test_a_run_can_be_given_up_without_the_key_of_the_vault(bench, folder):
    bench.create()
    bench.stop()
    (folder.keys.folder / "vault.key").unlink()
    folder.finish("demo")
    store = folder.store()
    assert store.head("demo").status == "finished"
    with pytest.raises((StateError, StoreError), match=r"vault\.key"):
        store.state("demo")
    store.close()


@pytest.mark.parametrize("place", ["service", "keys"])
def test_a_folder_with_files_of_others_stays_readable(tmp_path, place):
    """`confide service init /` must not take everybody's right to read /."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "notes.txt").touch()
    folder = (
        ServiceFolder(shared)
        if place == "service"
        else ServiceFolder(tmp_path / "service", keys=shared)
    )
    with pytest.raises(InvalidParameter, match=r"other files, such as notes\.txt"):
        folder.init()
    assert shared.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in shared.iterdir()] == ["notes.txt"]


def test_an_empty_folder_becomes_private(tmp_path):
    tmp_path.chmod(0o755)
    ServiceFolder(tmp_path).init()
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


def test_the_vault_reads_its_key_when_it_is_needed(tmp_path):
    folder = ServiceFolder(tmp_path / "service")
    folder.init()
    (folder.keys.folder / "vault.key").unlink()
    store = folder.store()
    assert isinstance(store.vault, Vault) and store.runs() == []
    store.close()
