"""What a guarantee assumes besides the numbers of its certificate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confide.identity import Identity
from confide.privacy import words
from confide.privacy.trust import Trust

# Of an assumption that nothing looks for.
STATED = "stated"
SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption. Code looks at `kind` and `values`; `text` says the same to people, and decides nothing."""

    kind: str
    text: str = field(compare=False)
    values: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> Identity:
        return Identity("assumption", 1, kind=self.kind, values=dict(self.values))

    def to_json(self) -> dict[str, Any]:
        values = {"values": dict(self.values)} if self.values else {}
        return {"kind": self.kind, "text": self.text, **values}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Assumption":
        """A standing assumption gets the words of this version, because anybody can write others into a file."""
        text = words.ASSUMPTIONS.get(facts["kind"], facts["text"])
        return cls(facts["kind"], text, facts.get("values", {}))

    def __str__(self) -> str:
        return self.text


def standing_assumptions(trust: Trust, source: str) -> list[Assumption]:
    """The assumptions of every guarantee with this trust model and this noise."""
    return [Assumption(kind, words.ASSUMPTIONS[kind]) for kind in _kinds(trust, source)]


def _kinds(trust: Trust, source: str) -> list[str]:
    if trust is Trust.NONE:
        return ["no-noise"]
    kinds = ["one-participation"]
    if trust is Trust.DISTRIBUTED:
        kinds += ["ideal-aggregator", "honest-devices", "independent-participation"]
    elif trust is not Trust.LOCAL:
        kinds.append("trusted-curator")
    if trust is Trust.JOINT:
        kinds.append("own-actions")
    if source == "fast":
        kinds.append("fast-noise")
    return kinds
