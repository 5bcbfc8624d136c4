"""Install a wheel into empty environments, the core alone and with each extra, try what a user tries first, and state sizes.

python benchmarks/installation.py dist/confide-0.2.0-py3-none-any.whl [--write] [--extras core,report,all]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXTRAS = ("core", "report", "logs", "compare", "accounting", "secure", "service", "gym", "all")
# what an extra adds: a command or a script that needs it
TRIED = {
    "core": [
        "confide --version",
        "confide run ucrl-vtr lock --epsilon 1 --delta 1e-5 --episodes 2000 --out run",
        "confide doctor",
    ],
    "report": ["confide run ucrl-vtr lock --epsilon 1 --delta 1e-5 --episodes 500 --out run"],
    "logs": ["confide logs import raw.csv --out log.parquet --time step --states 2"],
    "compare": ["confide compare sweep.toml"],
    "accounting": ["confide doctor"],
    "secure": ["confide doctor"],
    "service": ["confide service init service"],
    "gym": ["confide run tabular-psrl gym:FrozenLake-v1 --horizon 20 --epsilon 1 --episodes 500"],
    "all": ["confide doctor"],
}
RAW = "user,step,state,reward\n" + "".join(f"p{u},{t},{(u + t) % 2},{t % 2}\n" for u in range(40) for t in range(3))
SWEEP = 'agents = ["ucrl-vtr", "uniform"]\nproblems = ["lock"]\nepisodes = 100\nseeds = 1\n[privacy]\nepsilons = [1]\n'


def size(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def run(command, place, binaries):
    path = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "NUMBA_CACHE_DIR": str(place / "numba")}
    path.pop("PYTHONPATH", None)
    done = subprocess.run(command, shell=True, cwd=place, env=path, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def tried(wheel, extra):
    """Megabytes of the packages, and how long `import confide` takes at best, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        binaries = place / "venv" / "bin"
        packages = next((place / "venv" / "lib").glob("python*")) / "site-packages"
        before = size(packages)
        wanted = f"{wheel}" if extra == "core" else f"{wheel}[{extra}]"
        run(f"pip install --quiet --disable-pip-version-check '{wanted}'", place, binaries)
        installed = size(packages) - before
        (place / "raw.csv").write_text(RAW)
        (place / "sweep.toml").write_text(SWEEP)
        for command in TRIED[extra]:
            run(command, place, binaries)
        took = []
        for _ in range(5):
            start = time.perf_counter()
            run("python -c 'import confide'", place, binaries)
            bare = time.perf_counter()
            run("python -c pass", place, binaries)
            took.append(bare - start - (time.perf_counter() - bare))
        return installed, min(took)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--extras", default="core,all")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = ["| extra | packages, MB | `import confide`, s | tried |", "|---|---|---|---|"]
    for extra in given.extras.split(",") if given.extras != "each" else EXTRAS:
        megabytes, seconds = tried(given.wheel.resolve(), extra)
        rows.append(f"| {extra} | {megabytes:.0f} | {seconds:.2f} | `{'`, `'.join(TRIED[extra])}` |")
        print(rows[-1], flush=True)
    if given.write:
        from record import record

        python = ".".join(map(str, sys.version_info[:3]))
        said = f"Python {python}, a new environment for each row; pip itself is not counted. Every command in the last column succeeded."
        record("Sizes of an installation", f"{said}\n\n" + "\n".join(rows) + "\n", write=True)


if __name__ == "__main__":
    main()
