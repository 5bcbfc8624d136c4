"""Labels of states and actions: number s stands for the s-th label. They are in the metadata of a log's files.

The labels that occur in a log are data: that "hiv" is among the states tells that somebody has it. So labels are declared: the holder knew
the list before looking. It is public, and is shown with every result.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.arguments import listed, read_text, shown
from confide.errors import InvalidParameter, LogError
from confide.logs.files import Paths, sources

METADATA = b"confide.labels"
KINDS = ("state", "action")
MOST = 1_000_000  # labels of a column
LONGEST = 200  # characters of a label


def checked(name: str, labels: Any) -> tuple[str, ...]:
    """Different printable texts without spaces around them."""
    found = tuple(listed(name, labels, str))
    for label in found:
        if not label or label != label.strip() or not label.isprintable() or len(label) > LONGEST:
            raise InvalidParameter.of(
                name,
                f"must be printable texts of 1 to {LONGEST} characters without spaces around them, got {shown(label)}",
            )
    if len(set(found)) < len(found):
        twice = next(label for place, label in enumerate(found) if label in found[:place])
        raise InvalidParameter.of(name, f"must differ, and {shown(twice)} is there twice")
    if len(found) > MOST:
        raise InvalidParameter.of(name, f"must be at most {MOST:,}, got {len(found):,}")
    return found


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Declared labels with their numbers, and the names of the numbers. A number may have several labels: a cluster."""

    numbers: Mapping[str, int]
    names: tuple[str, ...]

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each number, if these are clusters."""
        if tuple(self.numbers) == self.names:
            return ()
        found: list[list[str]] = [[] for _ in self.names]
        for label, number in self.numbers.items():
            found[number].append(label)
        return tuple(map(tuple, found))


def vocabulary(name: str, declared: Any) -> Vocabulary:
    """Of labels in the order of their numbers, or of a mapping from labels to clusters, which are numbered as they occur."""
    labels = checked(name, tuple(declared) if isinstance(declared, Mapping) else declared)
    if not labels:
        raise InvalidParameter.of(name, "must be labels or how many there are, and there are none")
    if not isinstance(declared, Mapping):
        return Vocabulary({label: number for number, label in enumerate(labels)}, labels)
    names = checked(
        f"clusters of {name}",
        tuple(dict.fromkeys(listed(f"clusters of {name}", tuple(declared.values()), str))),
    )
    number = {cluster: place for place, cluster in enumerate(names)}
    return Vocabulary({label: number[declared[label]] for label in labels}, names)


@dataclass(frozen=True, slots=True)
class Labels:
    """Of states and of actions, all of them public; empty where they are numbers.

    `members`: if states are clusters of labels, the labels in each of them, which are declared and public.
    """

    state: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    members: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        members = tuple(
            checked("members of a cluster", each)
            for each in listed("members", self.members, tuple, list)
        )
        checked("members of clusters", [label for each in members for label in each])
        if members and len(members) != len(self.state):
            raise InvalidParameter.of(
                "members",
                f"must be labels for each of {len(self.state)} states, got {len(members)} lists",
            )
        object.__setattr__(self, "members", members)
        for name in KINDS:
            object.__setattr__(self, name, checked(f"labels of {name}s", getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: list(getattr(self, name)) for name in KINDS if getattr(self, name)
        }
        return (
            {**found, "members": [list(each) for each in self.members]} if self.members else found
        )

    def metadata(self) -> dict[bytes, bytes]:
        """For the schema of a file."""
        facts = self.to_dict()
        return {METADATA: json.dumps(facts, ensure_ascii=False).encode()} if facts else {}


NO_LABELS = Labels()


def labels_in(metadata: Mapping[bytes, bytes] | None, where: str) -> Labels:
    """The labels of a file."""
    try:
        facts = json.loads((metadata or {}).get(METADATA, b"{}"))
        return Labels(
            **{name: tuple(facts.get(name, ())) for name in KINDS}, members=facts.get("members", ())
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise LogError(f"{where}: its labels are damaged; import the log again") from None


def one_of(found: Iterable[tuple[str, Labels]]) -> Labels:
    """The labels of all files of a log: where the same number means different things, nothing can be added up."""
    first: tuple[str, Labels] | None = None
    for name, labels in found:
        if first is not None and labels != first[1]:
            raise LogError(
                f"{name} and {first[0]} have different labels: import all files of a log with the same --states-file"
            )
        first = name, labels
    return NO_LABELS if first is None else first[1]


def labels_of(paths: Paths) -> Labels:
    """The labels of a log, from the schemas of its files alone."""
    return one_of(
        (source.name, labels_in(source.schema().metadata, source.name)) for source in sources(paths)
    )


def read_labels(path: str | Path) -> tuple[str, ...]:
    """A file with one label per line; empty lines and lines that start with # are left out."""
    found = _lines(path)
    if not found:
        raise InvalidParameter(f"{path}: there is no label in it; write one per line")
    return checked(f"labels in {path}", found)


def read_clusters(path: str | Path) -> dict[str, str]:
    """A CSV file without a header: a label and its cluster on each line; empty lines and lines that start with # are left out."""
    rows = list(csv.reader(_lines(path), skipinitialspace=True))
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None or not rows:
        got = "nothing" if wrong is None else shown(",".join(wrong))
        raise InvalidParameter(
            f"{path}: each line must be a label and its cluster, such as septic-3,severe; got {got}"
        )
    labels = checked(f"labels in {path}", [label.strip() for label, _ in rows])
    return dict(zip(labels, (cluster.strip() for _, cluster in rows), strict=True))


def _lines(path: str | Path) -> list[str]:
    try:
        lines = [line.strip() for line in read_text(path, 2**26).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(
            f"{path}: {getattr(error, 'strerror', None) or 'not a text in UTF-8'}"
        ) from None
    return [line for line in lines if line and not line.startswith("#")]


def named(labels: Sequence[str], number: int) -> str:
    """A state or action as it is shown."""
    return labels[number] if 0 <= number < len(labels) else str(number)
