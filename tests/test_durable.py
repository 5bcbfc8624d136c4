"""Results that are whole or not there, wherever a process is killed. `benchmarks/crash_points.py`
kills whole commands.
"""

import errno
import io
import os
import resource
import stat
from pathlib import Path

import pytest

from confide._durable import building, clean, leftovers, output, replace, replace_files
from confide.errors import InvalidParameter
from confide.privacy import JointDP
from confide.problems import lock
from confide.runs.run import Run
from confide.runs.runner import run
from confide.runs.store import Store

CALLS = ("open", "fsync", "replace", "link", "unlink", "mkdir", "rmdir")


def killed(work, at):
    """Work in a forked process that ends at its call `at` of those that change files; False if
    there are fewer calls.
    """
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        return code == 9
    seen = 0

    def counting(real):
        def called(*arguments, **options):
            nonlocal seen
            seen += 1
            if seen == at:
                os._exit(9)
            return real(*arguments, **options)

        return called

    code = 1
    try:
        for name in CALLS:
            setattr(os, name, counting(getattr(os, name)))
        io.open = counting(io.open)
        work()
        code = 0
    finally:
        os._exit(code)


def whole(folder, *accepted):
    """Which of these runs is in the folder, with all its files; None if readers find no run."""
    try:
        loaded = Run.load(folder)
    except InvalidParameter:
        return None
    (same,) = [run for run in accepted if run.seed == loaded.seed]
    assert (loaded.certificate, loaded.segments) == (same.certificate, same.segments)
    assert (folder / "curve.csv").read_text() == same.csv()
    return same


@pytest.fixture(scope="module")
def runs():
    """Two runs with certificates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent / "runs")
        from visits_agent import Visits
    world = lock(0)
    return [
        run(Visits(world.public, episodes=60, privacy=JointDP(1.0, 1e-5)), world, seed=seed)
        for seed in (1, 2)
    ]


@pytest.mark.parametrize("over", [False, True])
def test_a_run_that_is_killed_while_it_is_saved_is_whole_or_not_there(runs, tmp_path, over):
    old, new = runs
    points, versions = 0, set()
    for at in range(1, 100, 3):
        folder = tmp_path / f"{at}" / "run"
        if over:
            old.save(folder)
        if not killed(lambda folder=folder: new.save(folder), at):
            break
        points, versions = points + 1, versions | {whole(folder, old, new)}
        new.save(folder)
        assert whole(folder, new) is new
        assert sorted(path.name for path in folder.iterdir()) == [
            "certificate.json",
            "curve.csv",
            "policy.npz",
            "run.json",
        ]
    assert points > 10 and versions == ({None, old, new} if over else {None, new})


@pytest.mark.parametrize("room", range(5))
def test_a_full_disk_does_no_harm_to_the_result_before(runs, tmp_path, monkeypatch, room):
    """Wherever there is no room for the next file; folders have room."""
    old, new = runs
    old.save(tmp_path)
    files, real = iter(range(room)), os.fsync

    def full(file):
        if stat.S_ISREG(os.fstat(file).st_mode) and next(files, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        new.save(tmp_path)
    assert whole(tmp_path, old, new) is old
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "certificate.json",
        "curve.csv",
        "policy.npz",
        "run.json",
    ]


def test_only_leftovers_are_cleaned(tmp_path):
    mine = ["a.txt", "b.part", "c.0123.part", ".0123456789abcdef.part"]
    for name in (*mine, "a.txt.0123456789abcdef.part"):
        (tmp_path / name).write_text("")
    (tmp_path / "result.00112233445566ff.part").mkdir()
    (tmp_path / "result.00112233445566ff.part" / "run.json").write_text("")
    assert [path.name for path in leftovers(tmp_path, "a.txt")] == ["a.txt.0123456789abcdef.part"]
    clean(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)
    clean(tmp_path / "nowhere")


def test_one_process_at_a_time_and_the_dead_lock_nobody_out(tmp_path):
    folder = tmp_path / "out"
    with (
        output(folder),
        pytest.raises(InvalidParameter, match="another process is writing to"),
        output(folder),
    ):
        pass
    child = os.fork()
    if child == 0:
        try:
            with output(folder):
                os._exit(9)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert (folder / ".lock").exists()
    with output(folder):
        pass
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_an_error_before_the_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder, message in (
        (tmp_path / "file", "a file has this name"),
        (tmp_path / "file" / "below", "a file has this name"),
    ):
        with pytest.raises(InvalidParameter, match=message), output(folder):
            pytest.fail("the work began")
    with pytest.raises(InvalidParameter, match="cannot write into"), output(Path("/proc/nowhere")):
        pytest.fail("the work began")
    with pytest.raises(KeyError), output(tmp_path / "a" / "b"):
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_device_is_written_to_and_not_replaced():
    replace(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()


def test_whoever_uses_a_store_alone_cleans_it(tmp_path):
    store, key = Store(tmp_path / "store"), "ab" * 16
    store.put(key, {"status": "done"})
    left = tmp_path / "store" / "ab" / f"{key}.json.0123456789abcdef.part"
    left.write_text("cut o")
    with store.in_use():
        assert not left.exists()
        left.write_text("of another process")
        with store.in_use():
            assert left.exists()
    assert store.get(key)["status"] == "done"
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InvalidParameter, match="cannot write into the store"),
        Store(tmp_path / "file").in_use(),
    ):
        pass


def test_a_large_file_that_is_built_and_killed_at_any_call(tmp_path):
    """It is the old one or the new one, and the next build removes what is left; two builds of one
    file at a time are refused.
    """
    path = tmp_path / "log.parquet"

    def build(text):
        with building(path) as place:
            (place.parent / "0.rows").write_text("rows")
            place.write_text(text)

    build("old")
    calls = 0
    while killed(lambda: build("new"), calls + 1):
        calls += 1
        assert path.read_text() in ("old", "new")
    assert calls > 6 and path.read_text() == "new"
    assert killed(lambda: build("newer"), 4) and list(tmp_path.glob("*.part"))
    build("newest")
    assert [each.name for each in tmp_path.iterdir()] == ["log.parquet"]
    with building(path) as place:
        place.write_text("x")
        with pytest.raises(InvalidParameter, match="another process is writing"), building(path):
            pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidParameter, match="not a file"), building(tmp_path / "folder"):
        pass


def test_a_full_disk_names_the_file(tmp_path):
    """The limit on the size of files has the same effect as a disk without space."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as single:
            replace(tmp_path / "state", bytes(2000))
        with (
            pytest.raises(OSError, match="too large") as several,
            replace_files(tmp_path / "results", last="run.json") as stage,
        ):
            (stage / "run.json").write_bytes(bytes(2000))
        with (
            pytest.raises(OSError, match="too large") as large,
            building(tmp_path / "log.npz") as place,
        ):
            place.write_bytes(bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    named = [str(error.value.filename) for error in (single, several, large)]
    assert named == [str(tmp_path / name) for name in ("state", "results", "log.npz")]
    assert not list(tmp_path.rglob("*.part"))
