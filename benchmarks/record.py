"""Print a table, and write it into benchmarks/results.

The page states the commit and the arguments that made it.
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
    """Describe the machine, on which the speed of a benchmark depends."""
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def record(title: str, text: str, *, write: bool, page: str | None = None) -> None:
    """Print the text. With `write`, also write the page with the command that made it.

    The page has the name of the script. A script that writes several pages names each with `page`.
    """
    print(text)
    if not write:
        return
    script = Path(sys.argv[0])
    # The numbers do not depend on where a file lies, so its place is left out.
    arguments = ["PATH" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    command = " ".join(["python", f"benchmarks/{script.name}", *arguments])
    provenance = f"Made by `{command}` at commit {commit()} on {machine()}."
    path = RESULTS / f"{page or script.stem}.md"
    path.write_text(f"# {title}\n\n{provenance}\n\n{text}")
