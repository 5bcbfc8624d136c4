"""Random command lines, and what became of them: options and files come from the real parsers,
their values are hostile.
"""

import copy
import io
import json
import os
import shutil
import sqlite3
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import typer
from hostile import NUMBERS, TEXTS, TITLE, WHOLE, TooLong, limit, place

from confide.cli import app, main

# An error has at most so many characters.
LONGEST = 2_000
# The exit code of an error that nobody foresaw.
INTERNAL = 70
SWEEP = """agents = ["ucrl-vtr"]
problems = ["lock"]
episodes = 40
seeds = 1
[privacy]
epsilons = [1.0]
delta = 1e-5
"""


@dataclass(frozen=True)
class Outcome:
    """What became of a command line. `kind`: done, refused (one line on stderr, exit code 2), and
    everything else is a defect.
    """

    kind: str
    # The type of an exception, and the last line of confide in it.
    where: str = ""
    said: str = ""


@dataclass
class Files:
    """Files by what they are; the first of each list is valid, except under `hostile`."""

    folder: Path
    of: dict[str, list[str]] = field(default_factory=dict)

    def pick(self, kind: str, rng: np.random.Generator) -> str:
        """Mostly of the kind that is expected, mutated or not, else any other file."""
        pool = self.of[kind] if rng.random() < 0.85 else self.of[str(rng.choice(sorted(self.of)))]
        return str(pool[rng.integers(len(pool))])


def write_files(folder: Path, rng: np.random.Generator, mutants: int) -> Files:
    """Valid files of every kind, mutants of each, and files that are no files."""
    files = Files(folder)
    call(
        [
            "run",
            "ucrl-vtr",
            "lock",
            "--epsilon",
            "1",
            "--episodes",
            "40",
            "--out",
            str(folder / "runs"),
        ],
        120,
    )
    call(["ledger", "init", str(folder / "ledger.sqlite"), "--epsilon", "3", "--delta", "1e-6"], 60)
    (folder / "sweep.toml").write_text(SWEEP)
    np.save(folder / "features.npy", np.eye(5))
    (folder / "features.csv").write_text(
        "\n".join(",".join("10"[i != j] for j in range(5)) for i in range(5))
    )
    import confide

    confide.problems.save_problem(confide.problems.riverswim(), folder / "problem.npz")
    world = confide.problems.chain(states=4, horizon=6)
    users = confide.logs.simulate(
        world, confide.policy.uniform_policy(6, 5, 1), 30, np.random.default_rng(0)
    )
    confide.logs.write(folder / "log.parquet", users)
    (folder / "log.csv").write_text("user,trajectory,step,state,reward\n0,0,0,1,0.5\n")
    (folder / "labels.csv").write_text("0\n1\nmild\n")
    run = next((folder / "runs").rglob("run.json")).parent
    evaluated = [
        "evaluate",
        str(folder / "log.parquet"),
        "--states",
        "5",
        "--epsilon",
        "0.1",
        "--delta",
        "1e-7",
        "--source",
        "fast",
        "--return-bound",
        "1",
        "--yes",
    ]
    call(
        [*evaluated, "--ledger", str(folder / "ledger.sqlite"), "--out", str(folder / "estimate")],
        120,
    )
    valid = {
        "certificate": run / "certificate.json",
        "policy": run / "policy.npz",
        "ledger": folder / "ledger.sqlite",
    }
    valid |= {
        "sweep": folder / "sweep.toml",
        "problem": folder / "problem.npz",
        "log": folder / "log.parquet",
    }
    valid |= {
        "table": folder / "features.npy",
        "csv": folder / "features.csv",
        "log.csv": folder / "log.csv",
    }
    valid |= {"labels": folder / "labels.csv"}
    valid |= {"estimate": folder / "estimate" / "estimate.npz"}
    for kind, path in valid.items():
        files.of[kind] = [str(path)] + [str(_mutant(path, i, rng)) for i in range(mutants)]
    files.of["run"] = [str(run)] + [str(_run_mutant(run, i, rng)) for i in range(2 * mutants)]
    files.of["service"] = _services(folder / "service", mutants, rng)
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    (folder / "empty").touch()
    (folder / f"name{TITLE}").write_text("x")
    odd = [
        fifo,
        folder / "empty",
        folder,
        folder / f"name{TITLE}",
        folder / "missing" / "x",
        "/dev/zero",
        "/dev/null",
        "/proc/self/x",
    ]
    files.of["hostile"] = [*map(str, odd), "/dev/null/x", "/dev/full", "\udce9", "x" * 5000, ""]
    return files


def _mutant(path: Path, number: int, rng: np.random.Generator) -> Path:
    """A copy that was edited where one can edit, else bytes changed, cut off or repeated."""
    target = path.with_name(f"{path.stem}-{number}{path.suffix}")
    shutil.copy(path, target)
    if path.suffix == ".json" and rng.random() < 0.8:
        _edit_json(target, rng)
    elif path.suffix == ".sqlite" and rng.random() < 0.8:
        _edit_ledger(target, rng)
    elif path.suffix in (".toml", ".csv") and rng.random() < 0.8:
        lines = target.read_text().splitlines()
        line = int(rng.integers(len(lines)))
        value = str(rng.choice(NUMBERS + TEXTS))
        lines[line] = f"{lines[line].partition('=')[0]}= {value}" if "=" in lines[line] else value
        target.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    else:
        data = bytearray(target.read_bytes())
        for place in rng.integers(len(data), size=int(rng.integers(1, 5))):
            data[place] = int(rng.integers(256))
        target.write_bytes(
            bytes(data)[: int(rng.integers(len(data))) if rng.random() < 0.3 else None]
        )
    return target


JSON_VALUES = [
    None,
    True,
    -1,
    0,
    1.5,
    1e300,
    10**400,
    2**63,
    "",
    "x",
    TITLE,
    [],
    [1],
    {},
    {"a": 1},
    "nan",
    "x" * 100_000,
]


def _edit_json(path: Path, rng: np.random.Generator) -> None:
    """One value somewhere in it is replaced by another, its key removed, or one added."""
    document = json.loads(path.read_text())
    places = list(_places(document))
    holder, key = places[rng.integers(len(places))]
    choice = rng.random()
    value = copy.deepcopy(JSON_VALUES[rng.integers(len(JSON_VALUES))])
    if choice < 0.85:
        holder[key] = value
    elif choice < 0.95:
        del holder[key]
    elif isinstance(holder, dict):
        holder[TITLE] = value
    path.write_text(json.dumps(document).replace('"nan"', "NaN"))


def _places(node):
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


LEDGER_VALUES = [
    "'x'",
    "NULL",
    "-1",
    "1e999",
    "9e999",
    "X'00ff'",
    "'\x1b]0;x\x07'",
    "0",
    "''",
    "1e-320",
    "'replace'",
]


def _edit_ledger(path: Path, rng: np.random.Generator) -> None:
    """As somebody would who has a SQLite shell: triggers and checks do not stop them."""
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        tables = {
            "total": ("epsilon", "delta", "relation", "others_epsilon", "others_delta"),
            "division": ("mu", "epsilon", "delta"),
        }
        tables |= {
            "spend": ("id", "at", "what", "relation", "kind", "mu", "epsilon", "delta"),
            "release": ("bytes",),
        }
        table = str(rng.choice(sorted(tables)))
        act = rng.random()
        db.execute(f"DROP TRIGGER IF EXISTS {table}_UPDATE")
        db.execute(f"DROP TRIGGER IF EXISTS {table}_DELETE")
        try:
            if act < 0.7:
                db.execute(
                    f"UPDATE {table} SET {rng.choice(tables[table])} = {rng.choice(LEDGER_VALUES)}"
                )
            elif act < 0.85:
                db.execute(f"DELETE FROM {table}")
            else:
                db.execute(f"DROP TABLE {table}")
        except sqlite3.Error:
            db.execute("DELETE FROM spend WHERE 0")
    db.close()


def _run_mutant(run: Path, number: int, rng: np.random.Generator) -> Path:
    target = run.with_name(f"{run.name}-{number}")
    shutil.copytree(run, target)
    if rng.random() < 0.8:
        _edit_json(target / "run.json", rng)
    else:
        one = sorted(target.iterdir())[rng.integers(len(list(target.iterdir())))]
        data = one.read_bytes()
        one.write_bytes(data[: int(rng.integers(len(data) + 1))])
    return target


def _services(place: Path, mutants: int, rng: np.random.Generator) -> list[str]:
    """A service with one run, and copies of it whose database or keys are damaged."""
    from confide.service.core.folder import ServiceFolder
    from confide.service.core.spec import ServiceRunSpec

    made = ServiceFolder(place)
    made.init()
    service = made.open()
    service.create(
        ServiceRunSpec(
            name="demo",
            agent="likelihood-vi",
            problem="lock",
            epsilon=1.0,
            delta=1e-5,
            users=40,
            noise="fast",
        )
    )
    service.stop()
    made.let_go()
    arguments = [str(place)]
    for number in range(mutants):
        copied = place.with_name(f"service-{number}")
        shutil.copytree(place, copied)
        database = copied / "service.sqlite"
        if rng.random() < 0.6:
            columns = [
                "run SET manifest",
                "run SET state",
                "run SET spec",
                "open_sum SET total",
                "release SET body",
                "api_key SET label",
            ]
            with sqlite3.connect(database) as db:
                db.execute("DROP TRIGGER release_is_not_changed")
                column = rng.choice(columns)
                value = rng.choice(["0", "-1", "1e999", *LEDGER_VALUES[5:7]])
                db.execute(f"UPDATE {column} = {value}")
                db.execute(f"DELETE FROM open_sum WHERE {rng.integers(2)}")
            db.close()
        else:
            data = bytearray(database.read_bytes())
            for at in rng.integers(len(data), size=20):
                data[at] ^= 255
            database.write_bytes(
                bytes(data[: int(rng.integers(len(data) + 1))] if rng.random() < 0.3 else data)
            )
        arguments.append(str(copied))
    return arguments


# A quick, valid command line for every command: (arguments, what the value of each file argument
# is). Names in braces are files.
BASES = {
    ("run",): ["ucrl-vtr", "lock", "--epsilon", "1", "--episodes", "40"],
    ("compare",): ["{sweep}", "--dry-run"],
    ("explain",): ["ucrl-vtr", "--episodes", "40"],
    ("show",): ["{run}"],
    ("list",): [],
    ("evaluate",): [
        "{log}",
        "--states",
        "5",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--source",
        "fast",
        "--seed",
        "0",
        "--return-bound",
        "1",
    ],
    ("audit",): ["gaussian", "--runs", "100"],
    ("verify",): ["{certificate}"],
    ("ledger", "init"): ["{new}", "--epsilon", "1", "--delta", "1e-6"],
    ("ledger", "show"): ["{ledger}"],
    ("logs", "check"): ["{log}"],
    ("service", "init"): ["{new}"],
    ("service", "keys"): ["{service}"],
    ("service", "rotate"): ["{service}"],
    ("service", "backup"): ["{service}", "{new}"],
    ("service", "verify"): ["{service}"],
    ("service", "finish"): ["{service}", "demo"],
    ("service", "mark"): ["{service}"],
    ("service", "check"): ["http://127.0.0.1:9", "demo"],
    ("service", "status"): ["{service}"],
    ("learn",): [
        "{log}",
        "--states",
        "5",
        "--actions",
        "1",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--source",
        "fast",
        "--seed",
        "0",
        "--ends",
        "--reward-range",
        "0",
        "1",
    ],
    ("logs", "import"): ["{log.csv}", "--out", "{new}", "--stay", "trajectory", "--time", "step"],
    ("plan", "evaluate"): [
        "--states",
        "5",
        "--users",
        "100",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--return-bound",
        "1",
    ],
    ("plan", "learn"): ["--on", "riverswim", "--runs", "1", "--epsilon", "4", "--delta", "1e-6"],
}
WEIGHTS = {
    ("list",): 0.2,
    ("run",): 4,
    ("evaluate",): 4,
    ("show",): 4,
    ("ledger", "show"): 2,
    ("verify",): 2,
}
# Of these commands the file is the hostile part.
READS = {
    ("show",),
    ("verify",),
    ("ledger", "show"),
    ("compare",),
    ("logs", "check"),
    ("service", "verify"),
    ("logs", "import"),
}
FILE_OPTIONS = {
    "features": "table",
    "weights": "table",
    "target": "policy",
    "ledger": "ledger",
    "visit_shares": "table",
}
FILE_OPTIONS |= {
    "rewards": "table",
    "support": "table",
    "states_file": "labels",
    "state_clusters": "labels",
    "actions_file": "labels",
}
SOME_VALID = {
    "agent": [
        "ucrl-vtr",
        "linopt-vi",
        "likelihood-vi",
        "lsvi-ucb",
        "ofu-lq",
        "thompson-lq",
        "uniform",
        "oracle",
        "next-state-vi",
    ],
    "problem": [
        "lock",
        "rand",
        "latent",
        "one-hot",
        "riverswim",
        "oscillator",
        "{problem}",
        "gym:FrozenLake-v1",
        "gym:x",
    ],
    "on": ["lock", "rand", "oscillator", "{problem}"],
    "estimator": [
        "counts-and-sums",
        "dp-lsw",
        "dp-lsl",
        "sufficient-statistics",
        "lstd",
        "importance-sampling",
    ],
    "subject": ["laplace", "smooth", "tree", "toeplitz", "stream", "exact"],
    "trust": ["joint", "local"],
    "source": ["fast", "secure"],
    "schedule": ["every", "geometric", "adaptive", "7"],
    "relation": ["null", "replace"],
    "calibration": ["paper", "tight"],
    "unknown": ["refuse", "missing"],
    "drop": ["row", "person"],
    "twin": ["noise", "clip", "redraw", "shared"],
    "compare_with": ["paper", "no-privacy", "uniform"],
    "settings": [
        "failure=nan",
        "bonus_scale=x",
        "failure=2",
        "step=-1",
        "schedule=0",
        "=",
        "privacy=1",
        "noise=1",
        "x=1",
        'x="',
    ],
}
NEVER = {
    "backend": {"ray", "dask"},
    "help": None,
    "install_completion": None,
    "show_completion": None,
}


def commands():
    """Every command with its parameters, as the parser has them."""
    commands_by_path = {}

    def walk(command, path):
        inner = getattr(command, "commands", None)
        if inner is None:
            commands_by_path[path] = command.get_params(typer.Context(command))
        for name, sub in (inner or {}).items():
            walk(sub, (*path, name))

    walk(typer.main.get_command(app), ())
    return commands_by_path


def command_line(rng: np.random.Generator, files: Files, known=None) -> list[str]:
    """A valid command line, of which one to three arguments were replaced, added or removed."""
    known = known or commands()
    names = [name for name in known if name in BASES]
    weights = np.array([WEIGHTS.get(name, 1) for name in names], dtype=float)
    name = names[rng.choice(len(names), p=weights / weights.sum())]
    reads = name in READS
    arguments = [_filled(part, files, rng, valid=0.1 if reads else 0.7) for part in BASES[name]]
    for _ in range(int(rng.integers(2) if reads else rng.integers(1, 4))):
        arguments = _changed(arguments, known[name], files, rng)
    if name == ("compare",) and "--dry-run" not in arguments:
        # There is no time for whole sweeps.
        arguments.append("--dry-run")
    if name == ("audit",) and "--runs" not in arguments:
        # There is no time for 200,000 runs.
        arguments += ["--runs", "100"]
    return [*name, *arguments]


def _filled(part: str, files: Files, rng: np.random.Generator, valid: float) -> str:
    if part == "{new}":
        return str(files.folder / f"new-{rng.integers(10**9)}")
    if part.startswith("{"):
        kind = part.strip("{}")
        return files.of[kind][0] if rng.random() < valid else files.pick(kind, rng)
    return part


def _changed(arguments: list[str], params, files: Files, rng: np.random.Generator) -> list[str]:
    choice, place = rng.random(), int(rng.integers(len(arguments) + 1))
    if choice < 0.08 and arguments:
        return arguments[: place % len(arguments)] + arguments[place % len(arguments) + 1 :]
    if choice < 0.14:
        return [*arguments[:place], str(rng.choice(TEXTS)), *arguments[place:]]
    param = params[rng.integers(len(params))]
    if param.name in NEVER and NEVER[param.name] is None:
        return arguments
    value = _value(param, files, rng)
    if param.param_type_name == "argument":
        first = next((i for i, part in enumerate(arguments) if not part.startswith("--")), None)
        if first is None or (first and arguments[first - 1].startswith("--")):
            return [value, *arguments]
        return [*arguments[:first], value, *arguments[first + 1 :]]
    option = str(rng.choice(list(param.opts) + list(param.secondary_opts)))
    if getattr(param, "is_flag", False):
        return [*arguments, option]
    if rng.random() < 0.2:
        return [*arguments, f"{option}={value}"]
    return [*arguments, option, value, *([str(rng.choice(NUMBERS))] if param.nargs == 2 else [])]


def _value(param, files: Files, rng: np.random.Generator) -> str:
    kind = str(param.bare_type())
    if param.name in SOME_VALID and rng.random() < 0.5:
        return _filled(str(rng.choice(SOME_VALID[param.name])), files, rng, valid=0.5)
    if param.name in ("out", "store"):
        return str(
            rng.choice(
                [
                    str(files.folder / f"out-{rng.integers(50)}"),
                    str(files.folder / "empty"),
                    "/dev/null/x",
                    "/proc/x",
                ]
            )
        )
    if "Path" in kind or param.name in ("files", "problem"):
        return files.pick(FILE_OPTIONS.get(param.name, str(rng.choice(sorted(files.of)))), rng)
    if kind == "int" and rng.random() < 0.7:
        return str(rng.choice(WHOLE))
    if "int" in kind or "float" in kind:
        return str(rng.choice(NUMBERS))
    value = str(rng.choice(TEXTS))
    return "x" if value in (NEVER.get(param.name) or ()) else value


def call(arguments: list[str], seconds: float, *, encoding: str = "utf-8") -> Outcome:
    """Call the command in this process, as from a shell; an endless one is stopped after so many
    seconds.
    """
    before, argv = (sys.stdout, sys.stderr), sys.argv
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2)
    )
    sys.argv = ["confide", *arguments]
    try:
        sys.stdout, sys.stderr = out, err
        with limit(seconds):
            main(list(arguments))
        code: object = 0
    except SystemExit as stop:
        code = stop.code
    except TooLong as error:
        return Outcome("endless", place(error))
    except BaseException as error:
        return Outcome("traceback", place(error), repr(error)[:300])
    finally:
        (sys.stdout, sys.stderr), sys.argv = before, argv
    outputs = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]
    return _judged(code, *outputs)


def _judged(code: object, out: str, err: str) -> Outcome:
    bare = [
        text for text in (out, err) if any(not c.isprintable() and c not in "\n\t" for c in text)
    ]
    if bare:
        return Outcome("control characters", "", ascii(bare[0])[:300])
    if code == INTERNAL:
        return Outcome("internal error", err.strip()[:300], err[:300])
    if code == 2:
        if not (err.rstrip("\n").rpartition("\n")[2].startswith("error: ")):
            return Outcome("not an error line", "", err[:300])
        if len(err) > LONGEST:
            return Outcome("long error", "", f"{len(err)} characters: {err[:200]}")
        return Outcome("refused", "", err.strip())
    return Outcome("done" if code in (None, 0, 1) else f"exit code {code}", "", err[:300])


def fuzz(folder: Path, *, calls: int, seed: int, mutants: int, seconds: float, watch=None):
    """The outcomes of so many command lines, as a count, and the defects among them."""
    rng = np.random.default_rng(seed)
    files, all_commands = write_files(folder, rng, mutants), commands()
    counts, defects = Counter(), []
    before = Path.cwd()
    os.chdir(folder)
    try:
        for number in range(calls):
            arguments = command_line(rng, files, all_commands)
            encoding = "ascii" if rng.random() < 0.1 else "utf-8"
            if watch:
                watch(number, arguments)
            outcome = call(arguments, seconds, encoding=encoding)
            counts[outcome.kind] += 1
            if outcome.kind not in ("done", "refused"):
                defects.append((outcome, arguments))
    finally:
        os.chdir(before)
    return counts, defects
