"""Policies that are evaluated, as an analyst writes them: "always ACTION", a CSV file of
probabilities by label, or a saved policy.

Everything here is public: of a log, only its declared labels are used. The columns of the CSV file
(`COLUMNS`) and the formats of saved policies are what users' files have, so they may not change.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import read_text, shown
from confide.errors import InvalidParameter
from confide.logs.labels import Labels
from confide.release.inputs import read_policy

Array = npt.NDArray[np.float64]
ALWAYS = "always "
COLUMNS = ("state", "action", "probability")
# How the format of the policy.json that `confide learn` writes begins.
LEARNED = "confide-policy/"
# Probabilities of a state may sum to one up to this error, because people round them.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A public policy [h, s, a], and what it is in words."""

    probabilities: Array = field(repr=False)
    words: str


@dataclass(frozen=True, slots=True)
class Space:
    """The states and actions of a log.

    `actions` is None where neither labels nor an option say how many there are.
    """

    states: int
    actions: int | None
    labels: Labels

    def names(self, kind: str) -> tuple[str, ...]:
        names: tuple[str, ...] = getattr(self.labels, kind)
        return names

    def number(self, kind: str, text: str, where: str) -> int:
        """The number of a state or an action, from its label or from the number itself."""
        names = self.names(kind)
        text = text.strip()
        if text in names:
            return names.index(text)
        size = self.states if kind == "state" else self.action_count(where)
        if not names and text.isdecimal() and int(text) < size:
            return int(text)
        possible = _first_names(names) if names else f"numbers from 0 to {size - 1:,}"
        raise InvalidParameter(f"{where}: unknown {kind} {shown(text)}; the {kind}s are {possible}")

    def action_count(self, where: str) -> int:
        if self.names("action"):
            return len(self.names("action"))
        if self.actions is None:
            raise InvalidParameter(
                f"{where}: say how many actions there are with --actions, because the log declares "
                "no labels of actions"
            )
        return self.actions


def read_target(given: str | Path, space: Space, *, option: str = "--target") -> Target:
    """The policy that an option names.

    Everything is public; nothing of the log but its declared labels is used.
    """
    text = str(given)
    if text.startswith(ALWAYS):
        action = space.number("action", text.removeprefix(ALWAYS), option)
        table = np.zeros((1, space.states, space.action_count(option)))
        table[:, :, action] = 1.0
        names = space.names("action")
        return Target(table, f"always {names[action] if names else action}")
    path = Path(text)
    if path.suffix.lower() == ".csv":
        return Target(_from_csv(path, space, option), path.name)
    if path.is_dir() or path.suffix.lower() == ".json":
        return Target(_from_learned(path, space, option), path.name)
    if path.suffix.lower() != ".npz":
        raise InvalidParameter(
            f'{option} must be "always ACTION", a .csv file with the columns {", ".join(COLUMNS)}, '
            "or a saved policy (.npz, or "
            f"policy.json of confide learn), got {shown(text)}"
        )
    return Target(_check_sizes(read_policy(path), space, option), path.name)


def _from_csv(path: Path, space: Space, option: str) -> Array:
    """Probabilities [1, s, a] from rows (state, action, probability).

    A pair without a row has probability zero.
    """
    where = f"{option} {path}"
    size = space.action_count(where)
    table = np.zeros((1, space.states, size))
    seen = set()
    for line, row in _rows(path, where):
        place = f"{where}, line {line}"
        state = space.number("state", row["state"], place)
        action = space.number("action", row["action"], place)
        if (state, action) in seen:
            raise InvalidParameter(f"{place}: this state and action have a row already")
        seen.add((state, action))
        table[0, state, action] = _probability(row["probability"], place)
    sums = table[0].sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > _ROUNDING)
    if len(wrong):
        state = int(wrong[0])
        names = space.names("state")
        name = names[state] if names else state
        problem = "it has no row" if sums[state] == 0 else f"they sum to {sums[state]:g}"
        raise InvalidParameter(
            f"{where}: the probabilities of each state must sum to one; for state {name}, {problem}"
        )
    table /= sums[None, :, None]
    return table


def _rows(path: Path, where: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The rows of a CSV file by column, with their line numbers."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(path)), strict=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        if sorted(header) != sorted(COLUMNS):
            raise InvalidParameter(
                f"{where}: the first line must be {','.join(COLUMNS)}, got "
                f"{shown(','.join(header))}"
            )
        reader.fieldnames = header
        for row in reader:
            if None in row or None in row.values():
                raise InvalidParameter(f"{where}, line {reader.line_num}: must have three cells")
            yield reader.line_num, row
    except OSError as error:
        raise InvalidParameter(f"cannot read {where}: {error.strerror}") from None
    except csv.Error:
        raise InvalidParameter(f"{where}: this is not a CSV file in UTF-8") from None


def _probability(text: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InvalidParameter(
            f"{place}: a probability must be a number from 0 to 1, got {shown(text)}"
        )
    return value


def _from_learned(path: Path, space: Space, option: str) -> Array:
    """A policy of `confide learn`: policy.npz, with states and actions in the order of the labels
    in policy.json.
    """
    folder = path if path.is_dir() else path.parent
    where = f"{option} {path}"
    described = folder / "policy.json" if path.is_dir() else path
    try:
        facts = json.loads(read_text(described))
        learned = str(facts["format"]).startswith(LEARNED)
        actions = list(facts["actions"])
        states = list(facts["policy"])
    except (OSError, ValueError, LookupError, TypeError):
        learned = False
    if not learned:
        raise InvalidParameter(f"{where}: this is not a policy that confide learn has written")
    policy = read_policy(folder / "policy.npz")
    if policy.shape[1:] != (len(states), len(actions)):
        raise InvalidParameter(f"{where}: policy.json and policy.npz are of different policies")
    for kind, axis, own in (("state", 1, states), ("action", 2, actions)):
        names = space.names(kind)
        if names:
            policy = np.take(policy, _order(own, names, kind, where), axis=axis)
    return _check_sizes(policy, space, option)


def _order(own: Sequence[Any], names: Sequence[str], kind: str, where: str) -> list[int]:
    """Where each label of the log stands in the policy."""
    missing = [name for name in names if name not in own]
    if missing or len(own) != len(names):
        raise InvalidParameter(
            f"{where}: the policy has the {kind}s {_first_names(own)}, "
            f"and the log has {_first_names(names)}"
        )
    return [own.index(name) for name in names]


def _check_sizes(policy: Array, space: Space, option: str) -> Array:
    if policy.shape[1] != space.states:
        raise InvalidParameter(
            f"the policy of {option} has {policy.shape[1]} states, and the log {space.states}"
        )
    names = space.names("action")
    actions = len(names) if names else space.actions
    if actions is not None and policy.shape[2] != actions:
        raise InvalidParameter(
            f"the policy of {option} has {policy.shape[2]} actions, and the log {actions}"
        )
    return policy


def _first_names(names: Sequence[Any]) -> str:
    few = ", ".join(str(name) for name in names[:8])
    return few if len(names) <= 8 else f"{few} and {len(names) - 8} more"
