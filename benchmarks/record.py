"""Printing a table, and writing it into benchmarks/results with the commit and the arguments that
made it.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def commit() -> str:
    completed = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    return completed.stdout.strip()


def machine() -> str:
    """Of a benchmark: what its speed depends on."""
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def record(title: str, text: str, *, write: bool, page: str | None = None) -> None:
    """`page`: its name, if a script writes several."""
    print(text)
    if write:
        # Where a file lies on this machine is nobody's business, and says nothing about the
        # numbers.
        arguments = ["PATH" if Path(text).is_absolute() else text for text in sys.argv[1:]]
        command = " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *arguments])
        provenance = f"Made by `{command}` at commit {commit()} on {machine()}."
        (RESULTS / f"{page or Path(sys.argv[0]).stem}.md").write_text(
            f"# {title}\n\n{provenance}\n\n{text}"
        )
