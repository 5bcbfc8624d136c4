"""Privacy requests."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from confide.arguments import kind, real, shown
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.privacy import words
from confide.privacy.trust import Relation as Relation
from confide.privacy.trust import Trust as Trust

# epsilon: beyond, noise or its inverse, squared, leaves the range of floating point
LEAST_EPSILON, LARGEST_EPSILON = 1e-30, 1e30
LEAST_DELTA = 1e-300
_UNSTATED = float("nan")  # this very object: the caller gave no delta


@dataclass(frozen=True, slots=True)
class _Request:
    epsilon: float
    # There is no good default: delta = 0 asks for pure differential privacy, which needs much more noise than delta = 1e-5.
    delta: float = _UNSTATED
    relation: Relation | str = Relation.REPLACE

    trust: ClassVar[Trust]
    # The name of the class in files, and in every language.
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not LEAST_EPSILON <= real("epsilon", self.epsilon, above=0) <= LARGEST_EPSILON:
            raise InvalidParameter.of(
                "epsilon",
                f"must be at least {LEAST_EPSILON:g} and at most 1e30",
                got=shown(self.epsilon),
            )
        if self.delta is _UNSTATED:
            raise InvalidParameter.of(
                "delta",
                f"must be stated, got none. Write {self.kind}({shown(self.epsilon)}, delta=1e-5), with a delta far "
                "below one divided by the number of users, or delta=0.0 for pure differential privacy, which needs more noise",
            )
        if 0 < real("delta", self.delta, at_least=0, below=1) < LEAST_DELTA:
            raise InvalidParameter.of(
                "delta", f"must be 0, or at least {LEAST_DELTA:g}", got=shown(self.delta)
            )
        object.__setattr__(self, "relation", parse_relation(self.relation))

    def identity(self) -> Identity:
        relation = parse_relation(self.relation).value
        return Identity(
            self.kind, 1, epsilon=float(self.epsilon), delta=float(self.delta), relation=relation
        )

    def __str__(self) -> str:
        return words.request(self)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class CentralDP(_Request):
    """What is published reveals (almost) nothing about any one user; the curator holds the data. delta = 0 asks for pure DP."""

    trust: ClassVar[Trust] = Trust.CENTRAL
    kind: ClassVar[str] = "CentralDP"


@dataclass(frozen=True, slots=True)
class JointDP(_Request):
    """What all other users see (their actions) reveals (almost) nothing about a user; the user's own actions may."""

    trust: ClassVar[Trust] = Trust.JOINT
    kind: ClassVar[str] = "JointDP"


@dataclass(frozen=True, slots=True)
class LocalDP(_Request):
    """Noise is added on the user's device, so no curator has to be trusted. Requires the relation `replace`."""

    trust: ClassVar[Trust] = Trust.LOCAL
    kind: ClassVar[str] = "LocalDP"

    def __post_init__(self) -> None:
        _Request.__post_init__(self)
        if self.relation is not Relation.REPLACE:
            raise InvalidParameter(
                'relation must be "replace" under LocalDP: a device that sends nothing is seen to send nothing'
            )


@dataclass(frozen=True, slots=True)
class DistributedDP(_Request):
    """Each device adds a share of the noise, and only the sum over a batch of users is seen: there is no curator to trust with raw data.

    The guarantee assumes an ideal aggregator, which shows the sum of each batch and nothing else. confide does not contain one: the caller
    provides it (`confide.privatizers.Aggregate`). A single share carries almost no noise.

    `dropouts` is the largest share of a batch whose noise may be missing from the sum, because their devices drop out or collude with
    the server. A batch with more drop-outs is not opened; fewer give more privacy than requested. Requires delta > 0 and the relation
    `replace`.
    """

    dropouts: float = 0.1
    trust: ClassVar[Trust] = Trust.DISTRIBUTED
    kind: ClassVar[str] = "DistributedDP"

    def __post_init__(self) -> None:
        _Request.__post_init__(self)
        real("dropouts", self.dropouts, at_least=0, below=1)
        if self.delta == 0:
            raise InvalidParameter.of(
                "delta",
                "must be positive under DistributedDP",
                got="0",
                advice=": the noise of a sum is Gaussian",
            )
        if self.relation is not Relation.REPLACE:
            raise InvalidParameter(
                'relation must be "replace" under DistributedDP: a device that sends nothing is seen to send nothing'
            )

    def identity(self) -> Identity:
        asked = _Request.identity(self)
        return Identity(asked.kind, 1, **asked.values, dropouts=float(self.dropouts))

    def __str__(self) -> str:
        return words.request(self)


@dataclass(frozen=True, slots=True)
class NoPrivacy:
    """No guarantee: the non-private baseline."""

    epsilon: ClassVar[float] = math.inf
    delta: ClassVar[float] = 0.0
    relation: ClassVar[Relation] = Relation.REPLACE
    trust: ClassVar[Trust] = Trust.NONE
    kind: ClassVar[str] = "NoPrivacy"

    def identity(self) -> Identity:
        return Identity(self.kind, 1)

    def __str__(self) -> str:
        return words.request(self)


Request = CentralDP | JointDP | LocalDP | DistributedDP | NoPrivacy


def check_privacy_request(value: object, name: str = "privacy") -> Request:
    """The argument, if it is a privacy request."""
    kinds = (CentralDP, JointDP, LocalDP, DistributedDP, NoPrivacy)
    found: Request = kind(
        name, value, *kinds, expected="CentralDP, JointDP, LocalDP, DistributedDP or NoPrivacy"
    )
    return found


def request_to_json(request: Request) -> dict[str, Any]:
    """A request as plain values, for `Guarantee.to_json`."""
    facts = {
        "kind": request.kind,
        "epsilon": float(request.epsilon) if math.isfinite(request.epsilon) else None,
        "delta": float(request.delta),
        "relation": parse_relation(request.relation).value,
    }
    return facts | (
        {"dropouts": float(request.dropouts)} if isinstance(request, DistributedDP) else {}
    )


def request_from_json(facts: dict[str, Any]) -> Request:
    kinds = (CentralDP, JointDP, LocalDP, DistributedDP)
    if facts["kind"] == NoPrivacy.kind:
        return NoPrivacy()
    make = {each.kind: each for each in kinds}[facts["kind"]]
    return make(**{name: value for name, value in facts.items() if name != "kind"})


def parse_relation(value: "Relation | str") -> Relation:
    try:
        return Relation(value)
    except (TypeError, ValueError):
        choices = " or ".join(f'"{r.value}"' for r in Relation)
        raise InvalidParameter.of("relation", f"must be {choices}, got {shown(value)}") from None
