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
from confide.arguments import kind, listed, read_text, text
from confide.errors import CertificateError, InvalidParameter
from confide.identity import Identified, identity_of
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import ApproxDP, GaussianDP, Loss, PureDP
from confide.privacy.request import Trust

FORMAT = "confide-certificate/2"

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
        }


@dataclass(frozen=True, slots=True)
class Certificate:
    """A guarantee with the mechanisms that it follows from."""

    document: Json

    @property
    def epsilon(self) -> float:
        stated = self.document["promise"]["epsilon"]
        return math.inf if stated is None else float(stated)

    @property
    def delta(self) -> float:
        return float(self.document["promise"]["delta"])

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
    assumptions: Sequence[str] = (),
    checked: Sequence[str] = (),
    on_trust: Sequence[str] = (),
) -> Certificate:
    """The certificate of a guarantee; `assumptions` come on top of the ones that every guarantee of its kind has.

    `on_trust` is what nobody can recompute from the numbers: code that is not part of confide; `checked` is what was tested of it.
    """
    import confide

    kind("guarantee", guarantee, Guarantee)
    text("subject", subject)
    mechanisms, assumptions = (
        listed("mechanisms", mechanisms, Mechanism),
        listed("assumptions", assumptions, str),
    )
    if guarantee.times > 1:
        raise InvalidParameter(
            "a certificate states the guarantee for one participation: certify the guarantee with times=1"
        )
    request = guarantee.request
    document: Json = {
        "format": FORMAT,
        "confide_version": confide.__version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "subject": subject,
        "promise": {
            "epsilon": _finite(guarantee.epsilon),
            "delta": guarantee.delta,
            "relation": guarantee.relation.value,
            "trust": guarantee.trust.value,
            "users": guarantee.users,
            "source": guarantee.source,
            "loss": loss_to_json(guarantee.loss),
        },
        "request": {
            "kind": request.kind,
            "epsilon": _finite(request.epsilon),
            "delta": request.delta,
            "relation": str(request.relation),
        },
        "mechanisms": [mechanism.to_json() for mechanism in mechanisms],
        "assumptions": [
            *standing_assumptions(guarantee.trust, guarantee.source),
            *assumptions,
            *_simulations(mechanisms, assumptions),
        ],
    }
    document |= {
        name: list(said) for name, said in (("checked", checked), ("on_trust", on_trust)) if said
    }
    check_schema(document)
    return Certificate(document)


def _simulations(mechanisms: Sequence[Mechanism], said: Sequence[str]) -> list[str]:
    """What a mechanism says of simulated users, unless it was said already: no certificate hides that there were none."""
    if any(text.startswith("Simulated") for text in said):
        return []
    return [
        f"Simulated: {mechanism.query}"
        for mechanism in mechanisms
        if "simulated" in mechanism.query
    ]


def standing_assumptions(trust: Trust, source: str) -> list[str]:
    """The assumptions of every guarantee of this kind, in words."""
    if trust is Trust.NONE:
        return ["No noise was added: nobody is protected."]
    said = [
        "Each person is one user; somebody who takes part k times has k times the loss of one record (mu or epsilon)."
    ]
    if trust is Trust.DISTRIBUTED:
        said += _DISTRIBUTED
    elif trust is not Trust.LOCAL:
        said.append("The curator who holds the raw data, and the saved state, is trusted.")
    if trust is Trust.JOINT:
        said.append(_JOINT)
    if source == "fast":
        said.append(_FAST)
    return said


_JOINT = "The guarantee concerns what all other users together see; a user's own actions may depend on that user's data."
_DISTRIBUTED = [
    "An ideal aggregator: nobody sees anything of the devices' shares but the sum of each batch, which is opened once. confide does not "
    "contain one; whoever runs the devices provides it.",
    "No batch is opened with fewer honest devices than stated. Devices that stay away, and those that work for the server, are dropouts.",
    "Whether a device takes part does not depend on its user's data.",
]
_FAST = (
    "Simulation: fast noise is computed from a seed, in floating point that is treated as real numbers. The guarantee holds against those "
    "who do not know the seed. The results of a run state their seed: do not publish them for real data."
)
FORMER = {  # how earlier versions said the same: their certificates still verify
    _JOINT: "The promise is about what all other users together see; a user's own actions may depend on that user's data.",
    _FAST: "Fast noise: the seed is secret, used for nothing else, and floating point is treated as real numbers. Meant for simulation.",
}


def check_schema(document: Any) -> None:
    """Raise where a document does not follow the published schema, naming the place."""
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


def loss_to_json(loss: Loss) -> Json:
    match loss:
        case GaussianDP(mu):
            return {"kind": "gaussian", "mu": mu}
        case PureDP(epsilon):
            return {"kind": "pure", "epsilon": _finite(epsilon)}
        case ApproxDP(epsilon, delta):
            return {"kind": "approximate", "epsilon": epsilon, "delta": delta}


def loss_from_json(value: Json) -> Loss:
    match value["kind"]:
        case "gaussian":
            return GaussianDP(value["mu"])
        case "pure":
            return PureDP(math.inf if value["epsilon"] is None else value["epsilon"])
        case _:
            return ApproxDP(value["epsilon"], value["delta"])


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
