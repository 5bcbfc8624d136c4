"""What a guarantee assumes besides the numbers of its certificate.

An assumption leaves this file in certificates, as `kind`, `values` and `text`. Code looks at the
kind and the values only. The texts of the kinds below are in `words.py` and may be rewritten
freely. The kinds themselves are part of the format of a certificate and must stay as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confide.identity import Identity
from confide.privacy import words
from confide.privacy.trust import Trust

# The kind of an assumption that is only stated in words. No code looks for it.
STATED = "stated"
# The kind of the assumption that users or devices were simulated.
SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption: its `kind` and `values` for code, and its `text` for people."""

    kind: str
    text: str = field(compare=False)
    values: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> Identity:
        return Identity("assumption", 1, kind=self.kind, values=dict(self.values))

    def to_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"kind": self.kind, "text": self.text}
        if self.values:
            facts["values"] = dict(self.values)
        return facts

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Assumption":
        """Read an assumption from a certificate.

        A standing assumption gets the words of this version, because anybody can write other words
        into a file.
        """
        text = words.ASSUMPTIONS.get(facts["kind"], facts["text"])
        return cls(facts["kind"], text, facts.get("values", {}))

    def __str__(self) -> str:
        return self.text


def standing_assumptions(trust: Trust, source: str) -> list[Assumption]:
    """The assumptions of every guarantee with this trust model and this source of noise."""
    return [Assumption(kind, words.ASSUMPTIONS[kind]) for kind in _kinds(trust, source)]


def _kinds(trust: Trust, source: str) -> list[str]:
    """The kinds of standing assumptions, which are the keys of `words.ASSUMPTIONS`."""
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
