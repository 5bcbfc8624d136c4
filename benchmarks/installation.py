"""Install a wheel into empty environments, and try what a user tries first.

python benchmarks/installation.py dist/confide-0.3.0-py3-none-any.whl [--pythons 3.11,3.12,3.13]
[--extras each] [--write]

The core is installed alone and with each extra. The page also states sizes. `--pythons` are
interpreters: versions (python3.12 must be on the path) or files. The default is the one that runs
this script.
"""

import argparse
import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import record

ROOT = Path(__file__).parent.parent
README = re.sub(r"\\\n *", "", (ROOT / "README.md").read_text())
# The first block of the README installs the wheel, and the second one runs the first command.
INSTALL_BLOCK, START_BLOCK = (
    block.split("```")[0].splitlines() for block in README.split("```sh\n")[1:3]
)
INSTALL = INSTALL_BLOCK[0].split(" #")[0].strip()
START = [line.split(" #")[0].strip() for line in START_BLOCK]
ANALYST = re.findall(r"^\$ (.*)", README.split("## A log")[1].split("## ")[0], re.MULTILINE)
# The port of the demonstration.
FREE = 18930

RAW = "user,step,state,reward\n" + "".join(
    f"p{u},{t},{(u + t) % 2},{t % 2}\n" for u in range(40) for t in range(3)
)
SWEEP = (
    'agents = ["ucrl-vtr", "uniform"]\nproblems = ["lock"]\nepisodes = 100\nseeds = 2\n'
    "[privacy]\nepsilons = [1]\n"
)
COMPOSE = """
import confide
from confide.privacy.loss import compose

print(compose([confide.PureDP(0.1), confide.GaussianDP(0.1)], delta=1e-5))
"""
CONTROL = """
import numpy as np
from confide.problems import LQSystem, to_control

one = np.eye(2)
print(to_control(LQSystem(0.9 * one, one, one, one, horizon=5, noise_radius=0.1)))
"""
MINARI = """
import os

os.environ["MINARI_DATASETS_PATH"] = os.path.abspath("minari")
import confide

try:
    import minari
except ImportError:
    confide.logs.from_minari("some/data-v0", "log.parquet")
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

ends = {"terminations": [False, True], "truncations": [False, False], "infos": {}}
steps = {"observations": [0, 1, 0], "actions": [0, 1], "rewards": [0.5, 1.0]}
episodes = [EpisodeBuffer(id=i, seed=0, **steps, **ends) for i in range(3)]
fields = ("algorithm_name", "author", "author_email", "code_permalink", "description")
about = dict.fromkeys(fields, "made up")
spaces_of_log = {"observation_space": spaces.Discrete(2), "action_space": spaces.Discrete(2)}
minari.create_dataset_from_buffers(
    "some/data-v0", episodes, **spaces_of_log, data_format="arrow", **about
)
confide.logs.from_minari("some/data-v0", "log.parquet")
"""
FILES = {
    "raw.csv": RAW,
    "sweep.toml": SWEEP,
    "compose.py": COMPOSE,
    "control_problem.py": CONTROL,
    "minari_log.py": MINARI,
}
# These extras have nothing to run alone.
ALSO = {"cluster": "cluster,compare"}
# What an extra adds: commands of which the first one fails without it, and names an extra.
TRIED = {
    "core": [
        "confide --version",
        *START,
        "confide verify run/likelihood-vi-joint-eps1-delta1e-05/seed-0/certificate.json",
        "confide doctor",
    ],
    "report": [*START, "test -s run/report.html"],
    "logs": [
        "confide logs import raw.csv --out log.parquet --time step --states 2",
        (
            "confide evaluate log.parquet --states 2 --epsilon 1 --delta 1e-5 --return-bound 3 "
            "--source fast  # a simulated log"
        ),
    ],
    "compare": ["confide compare sweep.toml"],
    "accounting": ["python compose.py"],
    "secure": ["confide run ucrl-vtr lock --epsilon 1 --delta 1e-5 --episodes 500 --source secure"],
    # and `confide service check`, by Environment.serve
    "service": [f"confide serve --demo --port {FREE}"],
    "gym": [
        (
            "confide run tabular-psrl gym:FrozenLake-v1 --horizon 20 --epsilon 1 --delta 1e-5 "
            "--episodes 500"
        )
    ],
    "control": ["python control_problem.py"],
    "icu": ["confide run uniform icu-sepsis --episodes 100"],
    "minari": ["python minari_log.py"],
    "cluster": [
        "confide compare sweep.toml --backend ray --again",
        "confide compare sweep.toml --backend dask --again",
    ],
}
TRIED["all"] = ["confide doctor", *ANALYST, "test -s policy/report.html"]


class Failed(Exception):
    pass


class Environment:
    """A virtual environment, and a folder to work in."""

    def __init__(self, place, python):
        subprocess.run([python, "-m", "venv", place / "venv"], check=True)
        self.place = place
        path = f"{place / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.variables = {**os.environ, "PATH": path, "NUMBA_CACHE_DIR": str(place / "numba")}
        self.variables.pop("PYTHONPATH", None)
        for name, text in FILES.items():
            (place / name).write_text(text)
        # README's commands for analysts start with a simulated table
        shutil.copytree(ROOT / "examples", place / "examples")
        self.empty = self.size()

    def size(self):
        """Megabytes of all packages."""
        files = (
            path
            for path in (self.place / "venv" / "lib").rglob("*")
            if path.is_file() and not path.is_symlink()
        )
        return sum(path.lstat().st_size for path in files) / 1e6

    def packages(self):
        return set(self.run("pip list --disable-pip-version-check --format freeze").split())

    @contextlib.contextmanager
    def install(self, wheel, extra):
        """The megabytes that a wheel with an extra takes. What it added is removed again."""
        before = self.packages()
        extras = "" if extra == "core" else f"[{ALSO.get(extra, extra)}]"
        self.run(f"pip install --quiet --disable-pip-version-check '{wheel}{extras}'")
        yield self.size() - self.empty
        after = self.packages()
        if after != before:
            self.run(
                "pip uninstall --quiet --yes "
                f"{' '.join(package.partition('==')[0] for package in after - before)}"
            )
        # An extra may need another version of a package that was there.
        if before - after:
            self.run(
                "pip install --quiet --disable-pip-version-check --no-deps "
                f"{' '.join(before - after)}"
            )
        assert self.packages() == before

    def start(self, command):
        return subprocess.Popen(
            command,
            shell=True,
            cwd=self.place,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command, *, fails=""):
        """What a command prints. It must succeed; or fail, and say what is missing."""
        if command.startswith("confide serve") and not fails:
            return self.serve(command)
        process = self.start(command)
        output, _ = process.communicate()
        if bool(process.returncode) != bool(fails) or fails not in output:
            raise Failed(f"{command}\nended with {process.returncode}\n{output}")
        return output

    def serve(self, command):
        """A service runs until it is stopped: check it from outside as soon as it answers."""
        service = self.start(command)
        try:
            for line in service.stdout:
                if line.startswith("serving at"):
                    break
            return self.run(f"confide service check http://127.0.0.1:{FREE} demo")
        finally:
            os.killpg(service.pid, signal.SIGTERM)
            service.communicate()

    def import_seconds(self):
        """The shortest of ten imports, less the shortest start of Python."""
        return self.shortest("python -c 'import confide'") - self.shortest("python -c pass")

    def shortest(self, command):
        took = []
        for _ in range(10):
            start = time.perf_counter()
            self.run(command)
            took.append(time.perf_counter() - start)
        return min(took)


def measure_sizes(python, wheel, extras):
    """Return the megabytes of the packages, and the best time of `import confide` in seconds.

    The first row is that of the core. The others are those with each extra.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder), python)
        # the extras below come on top of it
        with environment.install(wheel, "core") as megabytes:
            for command in TRIED["core"]:
                environment.run(command)
            for extra in TRIED.keys() - {"core", "report", "all"}:
                environment.run(TRIED[extra][0], fails="pip install 'confide[")
            yield "core", megabytes, environment.import_seconds()
            for extra in extras:
                shutil.rmtree(environment.place / "run", ignore_errors=True)
                with environment.install(wheel, extra) as megabytes:
                    for command in TRIED[extra]:
                        try:
                            environment.run(command)
                        except Failed as error:
                            print(error)
                            megabytes = math.nan
                    yield extra, megabytes, environment.import_seconds()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path, help="the wheel to install")
    parser.add_argument("--pythons", default=sys.executable)
    parser.add_argument("--extras", default="all")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    extras = list(TRIED)[1:] if options.extras == "each" else options.extras.split(",")
    wheel = options.wheel.resolve()
    results = {}
    failed = False
    for python in options.pythons.split(","):
        interpreter = (
            shutil.which(python)
            or shutil.which(f"python{python}")
            or parser.error(f"no interpreter {python}")
        )
        version = subprocess.run(
            [interpreter, "-V"], capture_output=True, text=True, check=True
        ).stdout.split()[1]
        for extra, megabytes, seconds in measure_sizes(interpreter, wheel, extras):
            results[version, extra] = f"{megabytes:.0f} | {seconds:.2f}"
            failed |= math.isnan(megabytes)
            print(f"{version} | {extra} | {results[version, extra]}", flush=True)
    if failed:
        raise SystemExit(1)
    if options.write:
        record("Installation", page(wheel, results), write=True)


def page(wheel, results):
    """Sizes and times by Python and extra, and what was tried."""
    versions, extras = (list(dict.fromkeys(some)) for some in zip(*results, strict=True))
    lines = [
        f"The wheel ({wheel.stat().st_size / 1e6:.1f} MB) was installed into an empty environment "
        "for each Python, "
        "and each extra was added to it, tried, and removed again. "
        "MB are those of all packages without pip; seconds are what `import confide` takes beyond "
        "the start of Python, the best of ten. "
        "All commands below succeeded. `cluster` was installed with `compare`. "
        "Versions of packages are the newest that pip found.",
        "",
        "| extra | " + " | ".join(f"{version}: MB | import, s" for version in versions) + " |",
        "|---|" + "---|---|" * len(versions),
    ]
    lines += [
        (
            f"| {'none' if extra == 'core' else f'`{extra}`'} | "
            f"{' | '.join(results[version, extra] for version in versions)} |"
        )
        for extra in extras
    ]
    lines += ["", "## What was tried"]
    for extra in extras:
        outcomes = {
            "core": (
                "Without extras. Also the first command of each other extra but `report`, "
                "which must fail and name an extra:"
            ),
            "service": "`service`; `confide service check` then checks it from outside:",
            "all": "`all`, with README's commands for analysts:",
        }
        lines += ["", outcomes.get(extra, f"`{extra}`:"), "", "```sh", *TRIED[extra], "```"]
    scripts = {name: FILES[name] for name in FILES if name.endswith(".py")}
    lines += [
        "",
        (
            f"The scripts {', '.join(f'`{name}`' for name in scripts)} are in "
            "`benchmarks/installation.py`."
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
