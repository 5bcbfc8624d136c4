"""Certificates: a document that states a guarantee and the numbers from which it can be recomputed.

The stated epsilon is that of the noise that is added, never the nominal one of a printed constant. It contains public values only.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from confide._durable import replace
from confide.arguments import kind, listed, read_text, shown, text
from confide.errors import CertificateError, InvalidParameter
from confide.identity import Identified, identity_of
from confide.privacy.assumption import SIMULATED, STATED, Assumption, standing_assumptions
from confide.privacy.guarantee import Guarantee

FORMAT = "confide-certificate/3"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One mechanism of a certificate: its query, its sensitivity and its noise."""

    name: str  # a counter's factorisation, "rounds", "local", "distributed" or "smooth"
    distribution: str
    norm: int | str | None
    sensitivity: float | None  # of one user's contribution
    scale: float | None
    parameters: Json = field(default_factory=dict)
    lattice: float | None = None
    # what a contribution is clipped to: its sensitivity can be computed again
    bound: Json | None = None
    query: str = ""
    # Whether there were no users, or no devices, whose data or noise were drawn one by one.
    simulated: bool = False

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "distribution": self.distribution,
            "norm": self.norm,
            "sensitivity": self.sensitivity,
            "scale": self.scale,
            "parameters": self.parameters,
            "lattice": self.lattice,
            "bound": self.bound,
            "query": self.query,
            **({"simulated": True} if self.simulated else {}),
        }


@dataclass(frozen=True, slots=True)
class Certificate:
    """A guarantee with the mechanisms that it follows from."""

    document: Json

    @property
    def epsilon(self) -> float:
        stated = self.document["guarantee"]["epsilon"]
        return math.inf if stated is None else float(stated)

    @property
    def delta(self) -> float:
        return float(self.document["guarantee"]["delta"])

    @property
    def guarantee(self) -> Guarantee:
        """As it is stated; `confide.audit.verify` recomputes it."""
        return Guarantee.from_json(self.document["guarantee"])

    @property
    def assumptions(self) -> list[Assumption]:
        return [Assumption.from_json(facts) for facts in self.document["assumptions"]]

    def save(self, path: str | Path) -> None:
        replace(Path(path), (json.dumps(self.document, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """The certificate in a file, valid under the schema; `confide.audit.verify` checks its arithmetic."""
        try:
            document = json.loads(
                read_text(path),
                parse_constant=_refuse,
                parse_float=_finite_float,
                parse_int=_tame_int,
                object_pairs_hook=_unique,
            )
        except OSError as error:
            raise CertificateError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"{path} is not the JSON of a certificate: {error}") from None
        check_schema(document)
        return cls(document)


def certify(
    guarantee: Guarantee,
    mechanisms: Sequence[Mechanism],
    *,
    subject: str = "",
    assumptions: Sequence[Assumption | str] = (),
    checked: Sequence[str] = (),
    on_trust: Sequence[str] = (),
) -> Certificate:
    """The certificate of a guarantee; `assumptions` come on top of the ones that every guarantee of its kind has.

    `on_trust` is what nobody can recompute from the numbers: code that is not part of confide; `checked` is what was tested of it.
    """
    import confide

    kind("guarantee", guarantee, Guarantee)
    text("subject", subject)
    mechanisms = listed("mechanisms", mechanisms, Mechanism)
    assumed = [
        Assumption(STATED, each) if isinstance(each, str) else each
        for each in listed("assumptions", assumptions, Assumption, str)
    ]
    if guarantee.times > 1:
        raise InvalidParameter(
            "a certificate states the guarantee for one participation: certify the guarantee with times=1"
        )
    stated = [*standing_assumptions(guarantee.trust, guarantee.source), *assumed]
    document: Json = {
        "format": FORMAT,
        "confide_version": confide.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "subject": subject,
        "guarantee": guarantee.to_json(),
        "mechanisms": [mechanism.to_json() for mechanism in mechanisms],
        "assumptions": [
            assumption.to_json() for assumption in (*stated, *_simulations(mechanisms, assumed))
        ],
    }
    document |= {
        name: list(said) for name, said in (("checked", checked), ("on_trust", on_trust)) if said
    }
    check_schema(document)
    return Certificate(document)


def _simulations(mechanisms: Sequence[Mechanism], said: Sequence[Assumption]) -> list[Assumption]:
    """What a mechanism says of simulated users, unless it was said already: no certificate hides that there were none."""
    if any(assumption.kind == SIMULATED for assumption in said):
        return []
    return [
        Assumption(SIMULATED, f"Simulated: {mechanism.query}")
        for mechanism in mechanisms
        if mechanism.simulated
    ]


def check_schema(document: Any) -> None:
    """Raise where a document does not follow the published schema, naming the place."""
    written = document.get("format", FORMAT) if isinstance(document, dict) else FORMAT
    if written != FORMAT:
        raise CertificateError(
            f"not a confide certificate that this version can read: its format is {shown(written)}, not {FORMAT!r}"
        )
    errors = sorted(
        _validator().iter_errors(document), key=lambda error: list(map(str, error.path))
    )
    if errors:
        place = "/".join(map(str, errors[0].path)) or "the document"
        raise CertificateError(f"not a confide certificate: {place}: {errors[0].message[:200]}")


@cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(schema())


def schema() -> Json:
    """The published JSON Schema of certificates."""
    loaded: Json = json.loads(
        Path(__file__).with_name("certificate.schema.json").read_text(encoding="utf-8")
    )
    return loaded


def describe(bound: Identified) -> Json | None:
    """A bound by its kind and its parameters, if they are plain numbers."""
    identity = identity_of(bound)
    plain = all(isinstance(value, bool | int | float) for value in identity.values.values())
    return {"name": identity.kind, **identity.values} if plain else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not allowed")


def _finite_float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _tame_int(text: str) -> int:
    return int(text) if len(text) < 20 else int(_refuse(f"{text[:20]}..."))


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key appears twice")
    return made
