"""How many hostile command lines end badly.

python benchmarks/fuzz_cli.py [--calls 3000] [--seed 0]

A command line ends badly if it ends in a traceback, never ends, or prints what a terminal must not
get.
"""

import argparse
import faulthandler
import resource
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path

# benchmarks/control.py would hide the package control
sys.path[0] = str(Path(__file__).parent.parent / "tests" / "fuzz")
from command_lines import fuzz  # noqa: E402
from hostile import short  # noqa: E402


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3000, help="the number of calls")
    parser.add_argument("--seed", type=int, default=0, help="the seed")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="a command that runs longer is endless"
    )
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    # A huge allocation fails here, and harms nobody.
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30,) * 2)
    # This file has the command line, should the process itself die.
    current = Path(tempfile.gettempdir()) / "fuzz_cli.current"

    def watch(number, arguments):
        current.write_text(f"{number} {arguments!a}\n")
        # Compiled code does not see the alarm.
        faulthandler.dump_traceback_later(6 * options.seconds, exit=True)

    with tempfile.TemporaryDirectory() as folder:
        counts, defects = fuzz(
            Path(folder),
            calls=options.calls,
            seed=options.seed,
            mutants=60,
            seconds=options.seconds,
            watch=watch,
        )
    faulthandler.cancel_dump_traceback_later()
    print(f"{options.calls} command lines, seed {options.seed}\n")
    print("| outcome | calls |\n|---|---|")
    for kind, count in counts.most_common():
        print(f"| {kind} | {count} |")
    print()
    places = Counter((outcome.kind, outcome.where) for outcome, _ in defects)
    for (kind, where), count in places.most_common():
        outcome, arguments = next(
            defect for defect in defects if (defect[0].kind, defect[0].where) == (kind, where)
        )
        line = shlex.join([short(part).strip("'") for part in arguments])
        print(
            f"{count:5} {kind}: {where}\n      "
            f"{short(outcome.said) if kind != 'traceback' else outcome.said}\n      confide {line}"
        )


if __name__ == "__main__":
    main()
