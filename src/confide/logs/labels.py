"""Labels of states and actions: number s stands for the s-th label.

They are in the metadata of a log's files, whose form is `Labels.to_dict`. The labels that occur in
a log are data: that "hiv" is among the states tells that somebody has it. So labels are declared:
the holder knew the list before looking. It is public, and is shown with every result.
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
# The largest number of labels of a column, and of characters of a label. Both are matters of taste.
MOST = 1_000_000
LONGEST = 200


def check_labels(name: str, labels: Any) -> tuple[str, ...]:
    """Different printable texts without spaces around them."""
    texts = tuple(listed(name, labels, str))
    for label in texts:
        if not label or label != label.strip() or not label.isprintable() or len(label) > LONGEST:
            raise InvalidParameter.of(
                name,
                f"must be printable texts of 1 to {LONGEST} characters without spaces around "
                f"them, got {shown(label)}",
            )
    if len(set(texts)) < len(texts):
        twice = next(label for place, label in enumerate(texts) if label in texts[:place])
        raise InvalidParameter.of(name, f"must differ, and {shown(twice)} is there twice")
    if len(texts) > MOST:
        raise InvalidParameter.of(name, f"must be at most {MOST:,}, got {len(texts):,}")
    return texts


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Declared labels with their numbers, and the names of the numbers.

    A number may have several labels, which are a cluster then.
    """

    numbers: Mapping[str, int]
    names: tuple[str, ...]

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each number, if these are clusters."""
        if tuple(self.numbers) == self.names:
            return ()
        clusters: list[list[str]] = [[] for _ in self.names]
        for label, number in self.numbers.items():
            clusters[number].append(label)
        return tuple(map(tuple, clusters))


def vocabulary(name: str, declared: Any) -> Vocabulary:
    """The vocabulary of labels in the order of their numbers, or of a mapping to clusters.

    Clusters are numbered as they occur in the mapping.
    """
    is_clustered = isinstance(declared, Mapping)
    labels = check_labels(name, tuple(declared) if is_clustered else declared)
    if not labels:
        raise InvalidParameter.of(name, "must be labels or how many there are, and there are none")
    if not is_clustered:
        return Vocabulary({label: number for number, label in enumerate(labels)}, labels)
    about = f"clusters of {name}"
    clusters = listed(about, tuple(declared.values()), str)
    names = check_labels(about, tuple(dict.fromkeys(clusters)))
    number_of_cluster = {cluster: number for number, cluster in enumerate(names)}
    return Vocabulary({label: number_of_cluster[declared[label]] for label in labels}, names)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of states and of actions, all of them public. Empty: there are numbers only.

    If states are clusters of labels, `members` are the labels in each of them. They are declared
    and public.
    """

    state: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    members: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        members = tuple(
            check_labels("members of a cluster", cluster)
            for cluster in listed("members", self.members, tuple, list)
        )
        check_labels("members of clusters", [label for cluster in members for label in cluster])
        if members and len(members) != len(self.state):
            raise InvalidParameter.of(
                "members",
                f"must be labels for each of {len(self.state)} states, got {len(members)} lists",
            )
        object.__setattr__(self, "members", members)
        for name in KINDS:
            object.__setattr__(self, name, check_labels(f"labels of {name}s", getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            name: list(getattr(self, name)) for name in KINDS if getattr(self, name)
        }
        if self.members:
            facts["members"] = [list(cluster) for cluster in self.members]
        return facts

    def metadata(self) -> dict[bytes, bytes]:
        """What the schema of a file says about them."""
        facts = self.to_dict()
        return {METADATA: json.dumps(facts, ensure_ascii=False).encode()} if facts else {}


NO_LABELS = Labels()


def labels_in(metadata: Mapping[bytes, bytes] | None, where: str) -> Labels:
    """The labels of a file."""
    try:
        facts = json.loads((metadata or {}).get(METADATA, b"{}"))
        labels = {name: tuple(facts.get(name, ())) for name in KINDS}
        return Labels(**labels, members=facts.get("members", ()))
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise LogError(f"{where}: its labels are damaged; import the log again") from None


def common_labels(labels_of_files: Iterable[tuple[str, Labels]]) -> Labels:
    """The labels of all files of a log.

    Where the same number means different things, nothing can be added up.
    """
    first: tuple[str, Labels] | None = None
    for name, labels in labels_of_files:
        if first is not None and labels != first[1]:
            raise LogError(
                f"{name} and {first[0]} have different labels: "
                "import all files of a log with the same --states-file"
            )
        first = name, labels
    return NO_LABELS if first is None else first[1]


def labels_of(paths: Paths) -> Labels:
    """The labels of a log, from the schemas of its files alone."""
    return common_labels(
        (source.name, labels_in(source.schema().metadata, source.name)) for source in sources(paths)
    )


def read_labels(path: str | Path) -> tuple[str, ...]:
    """A file with one label per line. Empty lines and lines that start with # are left out."""
    lines = _lines(path)
    if not lines:
        raise InvalidParameter(f"{path}: there is no label in it; write one per line")
    return check_labels(f"labels in {path}", lines)


def read_clusters(path: str | Path) -> dict[str, str]:
    """A CSV file without a header: a label and its cluster on each line.

    Empty lines and lines that start with # are left out.
    """
    rows = list(csv.reader(_lines(path), skipinitialspace=True))
    wrong = next((row for row in rows if len(row) != 2), None)
    if wrong is not None or not rows:
        got = "nothing" if wrong is None else shown(",".join(wrong))
        raise InvalidParameter(
            f"{path}: each line must be a label and its cluster, such as septic-3,severe; got {got}"
        )
    labels = check_labels(f"labels in {path}", [label.strip() for label, _ in rows])
    return dict(zip(labels, (cluster.strip() for _, cluster in rows), strict=True))


def _lines(path: str | Path) -> list[str]:
    try:
        lines = [line.strip() for line in read_text(path, 2**26).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(
            f"{path}: {getattr(error, 'strerror', None) or 'not a text in UTF-8'}"
        ) from None
    return [line for line in lines if line and not line.startswith("#")]


def label_or_number(labels: Sequence[str], number: int) -> str:
    """A state or action as it is shown."""
    return labels[number] if 0 <= number < len(labels) else str(number)
