"""How many calls of the public API with hostile arguments end badly.

python benchmarks/fuzz_api.py [--calls 8000] [--objects 2000] [--seed 0]

A call ends badly if its error is not one of confide's, or if it never ends. Half of the calls are
those of `tests/fuzz/calls.py`, in which one or two valid arguments are replaced; the others are
those of `tests/fuzz/methods.py`: every public method of public objects. Objects with users' data
are made in processes of their own (`tests/fuzz/data.py`).
"""

import argparse
import faulthandler
import fcntl
import os
import resource
import sys
import tempfile
from collections import Counter
from pathlib import Path

# benchmarks/control.py would hide the package control
sys.path[0] = str(Path(__file__).parent.parent / "tests" / "fuzz")
from calls import fuzz  # noqa: E402
from data import fuzz_data  # noqa: E402
from methods import fuzz_methods  # noqa: E402


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=8000, help="the number of calls")
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the seed")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="a call that runs longer is endless"
    )
    parser.add_argument(
        "--not-named",
        action="store_true",
        help="list the refusals that do not name the argument, too",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_options()
    # A call that takes 1 for the name of a file closes standard output.
    out = os.fdopen(fcntl.fcntl(1, fcntl.F_DUPFD, 100), "w")
    # A huge allocation fails here, and harms nobody.
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30,) * 2)
    # This file names the call, should the process itself die.
    current = Path(tempfile.gettempdir()) / "fuzz_api.current"

    def watch(number, call_text):
        current.write_text(f"{number} {call_text}\n")
        # Compiled code does not see the alarm.
        faulthandler.dump_traceback_later(6 * arguments.seconds, exit=True, file=out)

    start = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        # A text among the arguments may be the name of a file.
        os.chdir(folder)
        half = arguments.calls // 2
        options = {"seed": arguments.seed, "seconds": arguments.seconds, "watch": watch}
        counts, defects = fuzz(Path(folder), calls=half, **options)
        method_counts, method_defects = fuzz_methods(
            Path(folder), calls=arguments.calls - half, **options
        )
        counts, defects = counts + method_counts, defects + method_defects
        # Processes of their own begin in a folder that exists.
        os.chdir(start)
    faulthandler.cancel_dump_traceback_later()
    totals, data_defects = fuzz_data(objects=arguments.objects, seed=arguments.seed)
    print(
        f"{arguments.calls} calls, seed {arguments.seed}\n\n| outcome | calls |\n|---|---|",
        file=out,
    )
    for kind, count in counts.most_common():
        print(f"| {kind} | {count} ({100 * count / arguments.calls:.2f} %) |", file=out)
    print(
        f"\n{arguments.objects} objects with users' data\n\n| outcome | objects |\n|---|---|",
        file=out,
    )
    for kind, count in totals.most_common():
        print(f"| {kind} | {count} |", file=out)
    for kind, where in data_defects:
        print(f"{kind}: {where!a}", file=out)
    print(file=out)
    shown = [
        one
        for one in defects
        if one[0].kind in ("raw", "endless") or (arguments.not_named and "not named" in one[0].kind)
    ]
    for (kind, where, name), count in Counter(
        (outcome.kind, outcome.where, name) for outcome, name, _ in shown
    ).most_common():
        outcome, _, chosen = next(
            one for one in shown if (one[0].kind, one[0].where, one[1]) == (kind, where, name)
        )
        print(
            f"{count:4} {kind} {name}: {where}\n      {outcome.said[:160]!a}\n      {chosen}",
            file=out,
        )
    out.close()


if __name__ == "__main__":
    main()
