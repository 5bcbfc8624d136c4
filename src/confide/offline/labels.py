"""Names of states and actions, as an imported log carries them. Public."""

import json
from dataclasses import dataclass
from typing import Any

from confide.arguments import listed
from confide.errors import InvalidParameter

KEY = b"confide.labels"  # in the metadata of a file's schema: {"state": [...], "action": [...]}


@dataclass(frozen=True, slots=True)
class Labels:
    """What states and actions are called, by number; empty: they are called by their numbers."""

    states: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("states", "actions"):
            object.__setattr__(self, name, tuple(listed(name, getattr(self, name), str)))

    def state(self, number: int) -> str:
        return self.states[number] if number < len(self.states) else str(number)

    def action(self, number: int) -> str:
        return self.actions[number] if number < len(self.actions) else str(number)

    def check(self, states: int, actions: int) -> None:
        """Refuse a table that is smaller than what has names: those who are in the other states would contribute zero."""
        for what, named, given in (("states", self.states, states), ("actions", self.actions, actions)):
            if len(named) > given:
                raise InvalidParameter(f"the log has names for {len(named)} {what}, got {what}={given}: use {what}={len(named)}")


def labels_of(logs: Any) -> Labels:
    """The labels in the schema of a log's first file; none, if there are none or they make no sense."""
    part = next(iter(getattr(logs, "parts", ())), None)
    held = (part.source.schema().metadata or {}).get(KEY) if part is not None else None
    try:
        found = json.loads(held) if held else {}
        return Labels(found.get("state") or (), found.get("action") or ())
    except (ValueError, AttributeError, InvalidParameter):
        return Labels()
