"""Copy all files of a service after each report, and compute from the copies what each person did.

PYTHONPATH=OTHER/src python benchmarks/stored_files_attack.py --json before.json
python benchmarks/stored_files_attack.py --before before.json --write

The attack is in tests/service/stored_files.py. Numbers of another version (--before) stand beside
the new ones.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "service"))

from record import record
from stored_files import Recovered, attacked

BATCH = 25
PATTERN_PEOPLE = 40
ABOUT = """A joint run of `tabular-psrl` on `riverswim` with secure noise. {people} users report
one after the other, each in a transaction of its own. After each report the attacker copies all
files: the database, its write-ahead log, its index and the marks; on PostgreSQL the data
directory with `pg_wal`. The attacker does not have the folder of the keys.

The attack reads the stored sum and the stored state in each copy, in every way in which the bytes
could hold the numbers of a contribution. It subtracts (and XORs) the sums of two copies, and
takes the last person of a batch from the counter's memory in the state. On PostgreSQL it starts a
server on each copy, which recovers from the log as after a crash. A person is recovered if one of
these guesses equals the person's counted transitions exactly."""


def numbers_of(recovered: Recovered) -> dict[str, int]:
    names = ("people", "by_copies", "by_log", "exact_sums_in_files", "states_in_files")
    return {name: getattr(recovered, name) for name in names}


def equal_patterns(database: str, people: int) -> int:
    """Return after how many reports two runs have written the same.

    The runs have the same users and times, but other reports.
    """
    # Version 0.2, which is attacked too, has no such module.
    from confide.service.store.keys import KeyFolder

    with tempfile.TemporaryDirectory() as place:
        keys = KeyFolder(Path(place) / "keys")
        keys.init()
        one, other = (
            attacked(database, people=people, batch=10, seed=seed, keys=keys.folder)
            for seed in (0, 1)
        )
    return sum(first == second for first, second in zip(one.patterns, other.patterns, strict=True))


def table(numbers: dict[str, dict[str, int]], before: dict[str, dict[str, int]]) -> str:
    rows = [
        ("people", "people"),
        ("recovered from a copy after each report", "by_copies"),
        (f"recovered from one copy of the log (the most of {BATCH})", "by_log"),
        ("copies with an exact sum or contribution in clear text", "exact_sums_in_files"),
        ("copies with an agent's state in clear text", "states_in_files"),
    ]
    head = [
        f"{database}, {version}"
        for database in numbers
        for version in (["before"] if before else []) + ["now"]
    ]
    lines = [f"| | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for title, name in rows:
        values = [
            values[database][name]
            for database in numbers
            for values in ([before] if before else []) + [numbers]
        ]
        lines.append(f"| {title} | {' | '.join(f'{value}' for value in values)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=200, help="the number of users")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"])
    parser.add_argument(
        "--json", type=Path, help="write the numbers to this file, and do not compare patterns"
    )
    parser.add_argument("--before", type=Path, help="numbers of another version, from --json")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    numbers = {}
    for database in options.databases:
        numbers[database] = numbers_of(
            attacked(database, people=options.people, batch=BATCH, seed=0)
        )
        print(database, numbers[database], flush=True)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
        return
    before = json.loads(options.before.read_text()) if options.before else {}
    text = ABOUT.format(people=options.people) + "\n\n" + table(numbers, before) + "\n\n"
    text += "On PostgreSQL the log is read by recovery, so the second row does not apply to it.\n\n"
    for database in options.databases:
        same = equal_patterns(database, PATTERN_PEOPLE)
        text += (
            f"Two runs on {database} with the same users at the same times, "
            f"who report different things: after {same} of "
            f"{PATTERN_PEOPLE} reports the pattern of writes is the same (pages or log records "
            "with their lengths, sizes of "
            "files or tables, lengths of all values).\n\n"
        )
    record("Attack on stored files", text.rstrip("\n") + "\n", write=options.write)


if __name__ == "__main__":
    main()
