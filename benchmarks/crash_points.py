"""Kill the commands that write files at every operation on a file, and fill the disk under them.

    python benchmarks/crash_points.py [--only NAME] [--quick] [--write] [--before FILE]

Each command runs in a forked process, under a library (`crash_points.c`, compiled with cc) that
numbers the calls that change files: open for writing, write, truncate, fsync, rename, unlink,
mkdir. After a kill readers look at what is there, and the same command runs again; `ABOUT` says
what is bad. A small disk is a tmpfs, mounted in a namespace of its own, which needs the permission
to do so; afterwards it gets enough room. Numbers from another version of the library (--before)
stand beside the new ones: they are the JSON that --json writes there, on the same machine.
"""

import argparse
import ctypes
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from statistics import median
from typing import Any

from record import record

HERE = Path(__file__).parent
Numbers = dict[str, Any]
ABOUT = """What the commands leave behind if they are killed (SIGKILL) before each call that
changes a file, and for a write also when half of its bytes are written; and on disks (tmpfs) of
20 sizes, most of them too small. A point is bad if

- a reader takes a result for complete that lacks its certificate or another file, or holds a file
  of another result;
- the same command, run again, does not end in the result of a command that was not killed (locked
  out);
- PRIVATE state or temporary files are left behind after that;
- the ledger was charged, and the release cannot be had again at no further cost, or differs from
  what was shown before;
- on a full disk, the error is not one line.

A kill keeps what the kernel holds in memory, so that power cuts are not part of this table.
Figures are replaced by small files."""
# A command that takes more seconds than this hangs.
TIMEOUT = 120
PAGES = "</html>"
SIGNING_KEY = re.compile("signing-[0-9a-f]+")
# Fields of JSON that depend on the clock.
CLOCK = ("seconds",)


@dataclass
class Command:
    """A command, what must be there before it, and how its result is judged."""

    name: str
    arguments: list[str]
    # The folder or the file that it makes.
    result: str
    prepare: Callable[[Path], None]
    # "": nothing is taken for complete that is not.
    complete: Callable[[Path, "Command"], str]
    # "": nothing is missing after the command ran again
    after: Callable[[Path, "Command"], str] = lambda _folder, _command: ""
    # digests of the files of a result that was not interrupted
    expected: dict[str, str] = field(default_factory=dict)
    # Digests of the files that `prepare` made.
    before: dict[str, str] = field(default_factory=dict)
    # The bytes of the release, for evaluate and learn.
    answer: bytes = b""


def digests(folder: Path) -> dict[str, str]:
    """By the name of each file; that of a signing key is random."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        SIGNING_KEY.sub("signing-key", path.relative_to(folder).as_posix()): digest(path)
        for path in files
    }


def digest(path: Path) -> str:
    """Of what does not depend on the clock.

    Of a page only whether it is whole: it says when it was made, and what was charged.
    """
    data = path.read_bytes()
    if path.suffix == ".html":
        return "whole" if data.rstrip().endswith(PAGES.encode()) else "cut off"
    if path.name.endswith((".ledger", ".lock", ".sqlite", ".key")):
        return "there"
    if path.suffix == ".json":
        try:
            data = json.dumps(
                {key: value for key, value in json.loads(data).items() if key not in CLOCK}
            ).encode()
        except ValueError:
            return "not JSON"
    return hashlib.sha256(data).hexdigest()[:16]


def below(digests_of_files: dict[str, str], folder: str) -> dict[str, str]:
    """The files of a result: no temporary files and no locks, which readers do not look at."""
    names = [
        name
        for name in digests_of_files
        if name.startswith(folder) and ".part" not in name and not name.endswith(".lock")
    ]
    return {name: digests_of_files[name] for name in names}


# What readers see


def runs_complete(folder: Path, command: Command) -> str:
    from confide.errors import ConfideError
    from confide.runs.run import Run

    files = digests(folder)
    for path in folder.rglob("run.json"):
        where = path.parent.relative_to(folder).as_posix() + "/"
        try:
            read = Run.load(path.parent)
        except ConfideError:
            continue
        if read.certificate is None:
            state = "complete" if read.complete else "interrupted"
            return f"run.json without a certificate ({state})"
        if read.complete and below(files, where) != below(command.expected, where):
            return "a complete run lacks files, or holds others"
        if not read.complete and below(files, where) != below(command.before, where):
            return "an interrupted run holds files of another one"
    return ""


def load_release(folder: Path, command: Command) -> Any:
    """The estimate or the model in a folder."""
    from confide.evaluation import ValueEstimate
    from confide.offline import PrivateModel

    return {"est": ValueEstimate, "model": PrivateModel}[command.result].load(
        folder / command.result
    )


def release_complete(folder: Path, command: Command) -> str:
    from confide.errors import ConfideError

    try:
        release = load_release(folder, command)
    except ConfideError:
        return ""
    if release.to_bytes() != command.answer:
        return f"the {command.result} that is shown is not the one that was charged"
    lacking = below(command.expected, f"{command.result}/").items() - digests(folder).items()
    return "" if not lacking else f"{command.result} without its certificate or report"


def ledger_whole(folder: Path, command: Command) -> str:
    """Check that the ledger was charged once and has the releases.

    With --holdout, each part is charged once, and the larger of the two losses counts.
    """
    from confide.privacy.ledger import Ledger

    ledger = Ledger(folder / "budget.ledger")
    spends = ledger.spends
    parts = ["learn", "test"] if "--holdout" in command.arguments else [None]
    if [spend.part and spend.part[1] for spend in spends] != parts or not all(
        spend.released for spend in spends
    ):
        return f"{len(spends)} spends in the ledger, or no release"
    if ledger.spent.mu != max(spend.loss.mu for spend in spends):
        return "the parts were added up"
    same = load_release(folder, command).to_bytes() == command.answer
    return "" if same else "another release for the same charge"


def comparison_complete(folder: Path, command: Command) -> str:
    from confide.comparison.comparison import Comparison
    from confide.errors import ConfideError

    try:
        Comparison.load(folder / "out")
    except ConfideError:
        return ""
    files = below(digests(folder), "out/")
    whole = [below(one, "out/") for one in (command.expected, command.before)]
    return (
        ""
        if any(files == one for one in whole if one)
        else "a table with figures or a report that are missing or of another one"
    )


def ledger_made(folder: Path, _command: Command) -> str:
    from confide.errors import ConfideError
    from confide.privacy.ledger import Ledger

    try:
        total = Ledger(folder / "budget.ledger").total
    except ConfideError:
        return ""
    return "" if (total.epsilon, total.delta) == (10.0, 1e-4) else "a ledger with another total"


def service_made(folder: Path, _command: Command) -> str:
    """If `verify` says that all holds, the service can be opened.

    Opening leaves a lock, so a copy is opened.
    """
    from confide.errors import ConfideError
    from confide.service.core.folder import ServiceFolder

    if call(["service", "verify", "service"], folder)[0]:
        return ""
    try:
        with tempfile.TemporaryDirectory() as elsewhere:
            place = ServiceFolder(shutil.copytree(folder / "service", Path(elsewhere) / "service"))
            place.open().stop()
            place.let_go()
    except ConfideError as error:
        return f"verify says that all holds, and the service does not start: {error}"
    return ""


def service_works(folder: Path, _command: Command) -> str:
    for command in ("verify", "rotate"):
        code, output = call(["service", command, "service"], folder)
        if code:
            return f"{command} fails: {output.strip()[-110:]}"
    return ""


# The commands


def nothing(_folder: Path) -> None:
    pass


def interrupt_run(folder: Path) -> None:
    """Make a run that Ctrl-C has stopped.

    It has a result so far, and the state from which the same command goes on.
    """
    from confide.privacy.request import JointDP
    from confide.problems.catalogue import make
    from confide.runs.spec import RunSpec, run_seeds

    def progress(_seed: int) -> Callable[[int, float | None], None]:
        def served(users: int, _regret: float | None) -> None:
            if users > 20:
                raise KeyboardInterrupt

        return served

    problem = make("lock", seed=0, horizon=None)
    spec = RunSpec(agent="ucrl-vtr", problem=problem.name, episodes=60, privacy=JointDP(1.0, 1e-5))
    list(
        run_seeds(spec, problem, range(1), out=folder / "out", progress=progress, command="confide")
    )


def with_ledger(folder: Path) -> None:
    from confide.privacy.ledger import Ledger

    Ledger.init(folder / "budget.ledger", epsilon=10.0, delta=1e-4)


def other_comparison(folder: Path) -> None:
    """The folder holds another comparison already."""
    (folder / "sweep.toml").write_text(SWEEP.replace("seeds = 2", "seeds = 1"))
    call(["compare", "sweep.toml", "--out", "out", "--store", "store", "--workers", "1"], folder)
    (folder / "sweep.toml").write_text(SWEEP)


def sweep_file(folder: Path) -> None:
    (folder / "sweep.toml").write_text(SWEEP)


SWEEP = (
    'agents = ["ucrl-vtr", "uniform"]\nproblems = ["lock"]\nepisodes = 60\nseeds = 2\n'
    "[privacy]\nepsilons = [1.0]\n"
)


def commands(log: Path) -> list[Command]:
    run = ["run", "ucrl-vtr", "lock", "--epsilon", "1", "--episodes", "60", "--out", "out"]
    compare = ["compare", "sweep.toml", "--out", "out", "--store", "store", "--workers", "1"]
    arguments = [
        "--states",
        "3",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--source",
        "fast",
        "--seed",
        "7",
    ]
    evaluate = [
        "evaluate",
        str(log),
        *arguments,
        "--ledger",
        "budget.ledger",
        "--yes",
        "--return-bound",
        "1",
        "--out",
        "est",
    ]
    learned = [
        "learn",
        str(log),
        *arguments,
        "--actions",
        "2",
        "--ledger",
        "budget.ledger",
        "--yes",
        "--ends",
        "--reward-range",
        "0",
        "1",
        "--out",
        "model",
    ]
    tested = [*learned, "--holdout", "0.5", "--max-steps", "10"]
    init = ["ledger", "init", "budget.ledger", "--epsilon", "10", "--delta", "1e-4"]
    service = ["service", "init", "service"]
    return [
        Command("run --out, 2 seeds", [*run, "--seeds", "2"], "out", nothing, runs_complete),
        Command("run --out, resumed", run, "out", interrupt_run, runs_complete),
        Command(
            "evaluate --ledger --out", evaluate, "est", with_ledger, release_complete, ledger_whole
        ),
        Command(
            "learn --ledger --out", learned, "model", with_ledger, release_complete, ledger_whole
        ),
        Command(
            "learn --holdout --ledger --out",
            tested,
            "model",
            with_ledger,
            release_complete,
            ledger_whole,
        ),
        Command("compare", compare, "out", sweep_file, comparison_complete),
        Command("compare, over another one", compare, "out", other_comparison, comparison_complete),
        Command("ledger init", init, "budget.ledger", nothing, ledger_made),
        Command("service init", service, "service", nothing, service_made, service_works),
    ]


# Processes


def call(
    arguments: list[str], folder: Path, *, at: int = 0, torn: bool = False, log: int = -1
) -> tuple[int, str]:
    """Run the command in a forked process, and return its exit code and its output.

    The process is killed at call `at`, and never if `at` is 0. The exit code is then -9.
    """
    output_file = folder.parent / "said.txt"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            signal.alarm(TIMEOUT)
            out = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(out, 2)
            os.chdir(folder)
            from confide.cli import main

            sys.argv = ["confide", *arguments]
            ctypes.CDLL(None).crash_arm(str(folder).encode(), ctypes.c_long(at), int(torn), log)
            main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status), output_file.read_text(errors="replace")


def fresh(folder: Path, command: Command) -> None:
    """What must be there before the command is made once, and copied."""
    copy = folder.with_name(command.name)
    if not copy.exists():
        copy.mkdir()
        command.prepare(copy)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(copy, folder)


def learn(command: Command, folder: Path) -> str:
    """What the command makes if nothing happens; a letter for each of its calls."""
    fresh(folder, command)
    command.before = digests(folder)
    read, write = os.pipe()
    code, output = call(command.arguments, folder, log=write)
    os.close(write)
    if code:
        raise SystemExit(f"{command.name}: {output}")
    with os.fdopen(read, "rb") as pipe:
        calls = pipe.read().decode()
    command.expected = digests(folder)
    if command.complete is release_complete:
        command.answer = load_release(folder, command).to_bytes()
    return calls


def verdict(command: Command, folder: Path) -> str:
    """After a crash: what readers see, what the same command makes of it, what is left.

    The empty text is good.
    """
    whole = (
        command.result == "budget.ledger"
        and not command.complete(folder, command)
        and usable(folder)
    )
    if wrong := command.complete(folder, command):
        return wrong
    code, output = call(command.arguments, folder)
    if "Traceback" in output:
        return "traceback"
    if code == -signal.SIGALRM:
        return "hangs"
    if code and not whole:
        return f"locked out: {output.strip().splitlines()[-1][:110]}"
    files = digests(folder)
    left = sorted(files.keys() - command.expected.keys())
    if any(".private" in name for name in left) or any(
        path.name.endswith(".private") for path in folder.iterdir()
    ):
        return "PRIVATE state is left"
    if left:
        return f"temporary files are left: {Path(left[0]).suffix}"
    if files != command.expected:
        return "another result"
    return command.after(folder, command)


def usable(folder: Path) -> bool:
    from confide.errors import ConfideError
    from confide.privacy.ledger import Ledger

    try:
        Ledger(folder / "budget.ledger")
    except ConfideError:
        return False
    return True


def crashes(command: Command, folder: Path, calls: str, step: int) -> Iterator[str]:
    """A verdict for each point."""
    points = [
        (at, torn)
        for at, kind in enumerate(calls, start=1)
        for torn in ((False, True) if kind == "w" else (False,))
    ]
    for at, torn in points[::step]:
        fresh(folder, command)
        code, output = call(command.arguments, folder, at=at, torn=torn)
        wrong = (
            verdict(command, folder)
            if code == -signal.SIGKILL
            else f"not killed: {output.strip()[-200:]}"
        )
        if wrong:
            print(
                (
                    f"  {command.name}, {'half of ' if torn else ''}call {at} ({calls[at - 1]}): "
                    f"{wrong}"
                ),
                file=sys.stderr,
            )
        yield wrong


# Disk full


def full(command: Command, folder: Path, kilobytes: int, enough: int) -> str:
    """In a process with a mount namespace of its own, so that the small disk is gone with it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            wrong = _full(command, folder, kilobytes, enough)
        except BaseException as error:
            wrong = f"{type(error).__name__}: {error}"
        os.write(write, wrong.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        wrong = pipe.read()
    os.waitpid(child, 0)
    return wrong


def _full(command: Command, folder: Path, kilobytes: int, enough: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(options: str, flags: int) -> None:
        if libc.mount(b"none", str(folder).encode(), b"tmpfs", flags, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")

    new_namespace = 0x00020000
    new_user = 0x10000000
    private = 1 << 18
    recursive = 1 << 14
    remount = 32
    if libc.unshare(new_namespace | (0 if os.geteuid() == 0 else new_user)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    libc.mount(b"none", b"/", None, private | recursive, None)
    mount(f"size={enough}k", 0)
    shutil.copytree(folder.with_name(command.name), folder, dirs_exist_ok=True)
    used = sum(-(-path.stat().st_size // 4096) * 4 for path in folder.rglob("*") if path.is_file())
    mount(f"size={used + kilobytes}k", remount)
    code, output = call(command.arguments, folder)
    if "Traceback" in output or output.count("\n") > 1:
        return f"no one-line error: {output.strip()[-200:]}"
    if code < 0 or (code == 0 and digests(folder) != command.expected):
        return f"exit code {code}, and the result is not whole"
    mount(f"size={enough}k", remount)
    return verdict(command, folder)


# The report


def a_picture(_figure: object, path: Path) -> Path:
    """Instead of a figure: a file of the same name."""
    path.write_bytes(path.name.encode() * 500)
    return path


class Noon(datetime):
    """A clock that stands: the same command writes the same certificate."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime(2000, 1, 1, 12, tzinfo=tz)


def warm(log: Path, folder: Path, only: str) -> None:
    """Import and compile in this process what the forked ones need."""
    import matplotlib

    matplotlib.use("agg")
    from confide.cli import main
    from confide.privacy import certificate
    from confide.report import picture
    from confide.runs import loop

    # With this value a state is saved after every batch.
    loop.SAVE_EVERY = -1.0
    # Drawing takes longer than all the rest, so a small file replaces the figure.
    picture.save = a_picture
    certificate.datetime = Noon  # type: ignore[attr-defined, misc]
    for command in commands(log):
        if only not in command.name:
            continue
        fresh(folder, command)
        os.chdir(folder)
        sys.argv = ["confide", *command.arguments]
        try:
            with redirect_stdout(io.StringIO()):
                main(command.arguments)
        except SystemExit as end:
            if end.code:
                raise
        os.chdir(HERE)


def make_log(path: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    users = 50
    steps = 4
    columns = {
        "user": np.repeat(np.arange(users), steps),
        "trajectory": np.zeros(users * steps, dtype=np.int64),
    }
    columns |= {
        "step": np.tile(np.arange(steps), users),
        "state": rng.integers(3, size=users * steps),
    }
    columns |= {"reward": rng.random(users * steps), "action": rng.integers(2, size=users * steps)}
    pq.write_table(pa.table(columns), path)


def disks_for(folder: Path, number: int) -> tuple[list[int], int]:
    """Return the sizes of disks in kilobytes, and of a disk that has room for everything.

    Half of the disks have no room for all files but the page. The other half have no room for the
    page.
    """
    files = [
        (path.suffix, path.stat().st_size // 1024 + 4)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    small, every = (
        sum(size for suffix, size in files if suffix not in without) for without in ((".html",), ())
    )
    few = number // 2
    many = number - number // 2
    rooms = [4 + small * i // few for i in range(few)] + [
        4 + small + (every - small) * i // many for i in range(many)
    ]
    return [room // 4 * 4 for room in rooms], 4096 + 3 * every


def measure(only: str, step: int, sizes: int) -> Numbers:
    numbers: Numbers = {}
    with tempfile.TemporaryDirectory() as base:
        log = Path(base) / "log.parquet"
        folder = Path(base) / "work"
        make_log(log)
        warm(log, folder, only)
        for command in commands(log):
            if only not in command.name:
                continue
            started = time.monotonic()
            calls = learn(command, folder)
            print(
                f"{command.name}: {len(calls)} calls in {time.monotonic() - started:.1f} s",
                file=sys.stderr,
            )
            rooms, enough = disks_for(folder, sizes)
            verdicts = list(crashes(command, folder, calls, step))
            disks = [full(command, folder, room, enough) for room in rooms]
            for i, wrong in enumerate(disks):
                if wrong:
                    print(f"  {command.name}, disk {i} of {sizes}: {wrong}", file=sys.stderr)
            numbers[command.name] = {
                "calls": dict(Counter(calls)),
                "points": len(verdicts),
                "bad": dict(Counter(wrong.split(":")[0] for wrong in verdicts if wrong)),
                "disks": len(disks),
                "bad disks": dict(Counter(wrong.split(":")[0] for wrong in disks if wrong)),
            }
            print(
                f"{command.name}: {numbers[command.name]}, {time.monotonic() - started:.0f} s",
                file=sys.stderr,
            )
    return numbers


def saving(repeats: int = 50) -> float:
    """Milliseconds of `Run.save` into a new folder, median."""
    import confide

    with tempfile.TemporaryDirectory() as folder:
        problem = confide.problems.lock(seed=0)
        agent = confide.agents.UCRLVTR(
            problem.public, episodes=60, privacy=confide.JointDP(1.0, 1e-5)
        )
        done = confide.run(agent, problem)
        times = []
        for i in range(repeats):
            started = time.perf_counter()
            done.save(f"{folder}/{i}")
            times.append(1000 * (time.perf_counter() - started))
    return median(times)


def table(numbers: Numbers, before: Numbers | None) -> str:
    """One line per command; numbers of the version before on the left of the arrow."""

    def pair(name: str, number: Callable[[dict[str, Any]], int]) -> str:
        new = f"{number(numbers[name])}"
        return new if before is None else f"{number(before[name])} → {new}"

    names = [name for name in numbers if name != "saving"]
    points = sum(numbers[name]["points"] for name in names)
    bad = sum(sum(numbers[name]["bad"].values()) for name in names)
    disks = sum(numbers[name]["disks"] for name in names)
    full_disks = sum(sum(numbers[name]["bad disks"].values()) for name in names)
    lines = [f"{bad} of {points} crash points are bad, and {full_disks} of {disks} full disks."]
    if before is not None:
        worse = (
            sum(sum(before[name]["bad"].values()) for name in names),
            sum(before[name]["points"] for name in names),
        )
        old = sum(sum(before[name]["bad disks"].values()) for name in names)
        lines[0] += (
            f" Before: {worse[0]} of {worse[1]} crash points, and {old} of {disks} full disks."
        )
        lines[0] += " In the table, numbers before stand on the left of an arrow."
    lines += [
        "",
        "| command | crash points | bad | full disks | bad | calls of fsync |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        cells = [
            pair(name, lambda one: one["points"]),
            pair(name, lambda one: sum(one["bad"].values())),
            f"{numbers[name]['disks']}",
            pair(name, lambda one: sum(one["bad disks"].values())),
            pair(name, lambda one: one["calls"].get("s", 0)),
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    if before is not None:
        lines += ["", "What was bad before:", "", "| command | verdict | points |", "|---|---|---|"]
        for name in names:
            for part, what in (("bad", ""), ("bad disks", "disk full: ")):
                lines += [
                    f"| `{name}` | {what}{verdict} | {number} |"
                    for verdict, number in before[name][part].items()
                ]
    saved = (
        f"{numbers['saving']:.1f}"
        if before is None
        else f"{before['saving']:.1f} → {numbers['saving']:.1f}"
    )
    lines += [
        "",
        f"`Run.save` takes {saved} ms (median of 50, into new folders on this machine's disk).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="commands whose name contains this")
    parser.add_argument("--quick", action="store_true", help="every tenth point, four disks")
    parser.add_argument("--step", type=int, default=1, help="one of so many points")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--before", type=Path, help="numbers of another version, from --json")
    parser.add_argument(
        "--write", action="store_true", help="write benchmarks/results/crash_points.md"
    )
    options = parser.parse_args()
    if not os.environ.get("CRASH_POINTS"):
        with tempfile.TemporaryDirectory() as folder:
            library = str(Path(folder) / "crash_points.so")
            subprocess.run(
                [
                    "cc",
                    "-shared",
                    "-fPIC",
                    "-O1",
                    "-o",
                    library,
                    str(HERE / "crash_points.c"),
                    "-ldl",
                ],
                check=True,
            )
            again = {**os.environ, "LD_PRELOAD": library, "CRASH_POINTS": "1"}
            raise SystemExit(
                subprocess.run([sys.executable, *sys.argv], env=again, check=False).returncode
            )
    numbers = measure(
        options.only, 10 if options.quick else options.step, 4 if options.quick else 20
    ) | {"saving": saving()}
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    before = json.loads(options.before.read_text()) if options.before else None
    record("Crash points", f"{ABOUT}\n\n{table(numbers, before)}", write=options.write)


if __name__ == "__main__":
    main()
