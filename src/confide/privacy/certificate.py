"""Certificates: a document that states a guarantee and the numbers it can be recomputed from.

The stated epsilon is that of the noise that is added, never the nominal one of a printed constant.
A certificate contains public values only.

What leaves this file is a JSON document. `certificate.schema.json` describes it, `FORMAT` names it,
and `confide.audit.verify` recomputes it, so keys and kinds may not change without a new format.
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
    """One mechanism of a certificate: its query, its sensitivity and its noise.

    `name` is a counter's factorisation, "rounds", "local", "distributed" or "smooth".
    """

    name: str
    distribution: str
    norm: int | str | None
    # The sensitivity of one user's contribution, in `norm`.
    sensitivity: float | None
    scale: float | None
    parameters: Json = field(default_factory=dict)
    # The step of the lattice of discrete noise.
    lattice: float | None = None
    # The set that a contribution is clipped to. The sensitivity can be computed again from it.
    bound: Json | None = None
    query: str = ""
    # True if users or devices were simulated together, so nobody's data or noise were drawn alone.
    simulated: bool = False

    def to_json(self) -> Json:
        """The entry of a certificate. Its keys are part of the format."""
        facts: Json = {
            "name": self.name,
            "distribution": self.distribution,
            "norm": self.norm,
            "sensitivity": self.sensitivity,
            "scale": self.scale,
            "parameters": self.parameters,
            "lattice": self.lattice,
            "bound": self.bound,
            "query": self.query,
        }
        if self.simulated:
            facts["simulated"] = True
        return facts


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
        """The guarantee as it is stated. `confide.audit.verify` recomputes it."""
        return Guarantee.from_json(self.document["guarantee"])

    @property
    def assumptions(self) -> list[Assumption]:
        return [Assumption.from_json(facts) for facts in self.document["assumptions"]]

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file, whole or not at all."""
        text = json.dumps(self.document, indent=2, allow_nan=False) + "\n"
        replace(Path(path), text.encode())

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a certificate from a file and check that it follows the schema.

        Its arithmetic is not checked. `confide.audit.verify` does that.
        """
        try:
            document = json.loads(
                read_text(path),
                parse_constant=_refuse_number,
                parse_float=_parse_float,
                parse_int=_parse_int,
                object_pairs_hook=_parse_object,
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
    """Make the certificate of a guarantee.

    `assumptions` come on top of the ones that every guarantee of its kind has. `on_trust` is what
    nobody can recompute from the numbers, such as code that is not part of confide, and `checked`
    is what was tested of it.
    """
    import confide

    kind("guarantee", guarantee, Guarantee)
    text("subject", subject)
    mechanisms = listed("mechanisms", mechanisms, Mechanism)
    own_assumptions = [
        Assumption(STATED, assumption) if isinstance(assumption, str) else assumption
        for assumption in listed("assumptions", assumptions, Assumption, str)
    ]
    if guarantee.times > 1:
        raise InvalidParameter(
            "a certificate states the guarantee for one participation: "
            "certify the guarantee with times=1"
        )
    all_assumptions = [
        *standing_assumptions(guarantee.trust, guarantee.source),
        *own_assumptions,
        *_simulations(mechanisms, own_assumptions),
    ]
    document: Json = {
        "format": FORMAT,
        "confide_version": confide.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "subject": subject,
        "guarantee": guarantee.to_json(),
        "mechanisms": [mechanism.to_json() for mechanism in mechanisms],
        "assumptions": [assumption.to_json() for assumption in all_assumptions],
    }
    if checked:
        document["checked"] = list(checked)
    if on_trust:
        document["on_trust"] = list(on_trust)
    check_schema(document)
    return Certificate(document)


def _simulations(
    mechanisms: Sequence[Mechanism], own_assumptions: Sequence[Assumption]
) -> list[Assumption]:
    """An assumption for each mechanism whose users were simulated, unless there is one already.

    So no certificate hides that there were no users.
    """
    if any(assumption.kind == SIMULATED for assumption in own_assumptions):
        return []
    return [
        Assumption(SIMULATED, f"Simulated: {mechanism.query}")
        for mechanism in mechanisms
        if mechanism.simulated
    ]


def check_schema(document: Any) -> None:
    """Refuse a document that does not follow the published schema, and name the place."""
    written = document.get("format", FORMAT) if isinstance(document, dict) else FORMAT
    if written != FORMAT:
        raise CertificateError(
            "not a confide certificate that this version can read: "
            f"its format is {shown(written)}, not {FORMAT!r}"
        )
    errors = sorted(
        _validator().iter_errors(document), key=lambda error: list(map(str, error.path))
    )
    if errors:
        first = errors[0]
        place = "/".join(map(str, first.path)) or "the document"
        raise CertificateError(f"not a confide certificate: {place}: {first.message[:200]}")


@cache
def _validator() -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(schema())


def schema() -> Json:
    """The published JSON Schema of certificates."""
    path = Path(__file__).with_name("certificate.schema.json")
    published: Json = json.loads(path.read_text(encoding="utf-8"))
    return published


def describe(bound: Identified) -> Json | None:
    """A bound by its kind and its parameters, or None if they are not all plain numbers."""
    identity = identity_of(bound)
    parameters = identity.values
    if not all(isinstance(value, bool | int | float) for value in parameters.values()):
        return None
    return {"name": identity.kind, **parameters}


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is not allowed")


def _parse_float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse_number(text)


def _parse_int(text: str) -> int:
    # Whole numbers of more digits do not fit into 64 bits, and take long to read.
    return int(text) if len(text) < 20 else int(_refuse_number(f"{text[:20]}..."))


def _parse_object(pairs: list[tuple[str, Any]]) -> Json:
    facts = dict(pairs)
    if len(facts) < len(pairs):
        raise ValueError("a key appears twice")
    return facts
