"""Make pages of benchmarks/results again, each with the command that it states.

python benchmarks/rerun.py --list          # the pages that a command writes, and the others
python benchmarks/rerun.py tables local    # these
python benchmarks/rerun.py                 # all of them: many hours
"""

import argparse
import re
import shlex
import subprocess
import sys
import time

from record import RESULTS


def commands() -> dict[str, str]:
    """The command of each page that one command writes."""
    commands_by_page = {}
    for page in sorted(RESULTS.glob("*.md")):
        stated = re.search(
            r"^Made by `python (benchmarks/\w+\.py[^`]* --write[^`]*)`",
            page.read_text(),
            re.MULTILINE,
        )
        if stated:
            commands_by_page[page.stem] = stated[1]
    return commands_by_page


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", help="names of pages; all of them if left out")
    parser.add_argument("--list", action="store_true", help="list the pages and their commands")
    options = parser.parse_args()
    commands_by_page = commands()
    if options.list:
        for page in sorted(RESULTS.glob("*.md")):
            print(f"{page.stem:24} {commands_by_page.get(page.stem, 'by hand: the page says how')}")
        return
    for name in options.pages or commands_by_page:
        if name not in commands_by_page:
            raise SystemExit(f"no command writes the page {name}: see --list")
        start = time.monotonic()
        subprocess.run(
            [sys.executable, *shlex.split(commands_by_page[name])],
            cwd=RESULTS.parent.parent,
            check=True,
        )
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
