"""Privacy requests: which guarantee somebody asks for, before any noise is chosen.

A request leaves this file as its `identity` (in ledgers and saved states) and as `request_to_json`
(in guarantees and certificates). Both are written from the class variable `kind` and from the
numbers, so the classes can be renamed and the kinds must stay.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from confide.arguments import kind, real, shown
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.privacy import words
from confide.privacy.trust import Relation as Relation
from confide.privacy.trust import Trust as Trust

# The range of epsilon and delta. A matter of taste, except that it must not be much wider: beyond
# it, the square of the noise or of its inverse leaves the range of floating point.
LEAST_EPSILON = 1e-30
LARGEST_EPSILON = 1e30
LEAST_DELTA = 1e-300
# The default of delta. If `delta is _UNSTATED`, the caller gave none.
_UNSTATED = float("nan")


@dataclass(frozen=True, slots=True)
class _Request:
    """What the four requests with a guarantee have in common: their numbers, and the checks."""

    epsilon: float
    # A request without delta is refused, because there is no good default: delta = 0 asks for pure
    # differential privacy, which needs much more noise than delta = 1e-5.
    delta: float = _UNSTATED
    relation: Relation | str = Relation.REPLACE

    trust: ClassVar[Trust]
    # What this kind of request is called in files, in every version and every language.
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
                f"must be stated, got none. Write {self.kind}({shown(self.epsilon)}, delta=1e-5), "
                "with a delta far below one divided by the number of users, or delta=0.0 for pure "
                "differential privacy, which needs more noise",
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
    """What is published reveals (almost) nothing about any one user. The curator holds the data.

    With delta = 0 this is pure differential privacy.
    """

    trust: ClassVar[Trust] = Trust.CENTRAL
    kind: ClassVar[str] = "CentralDP"


@dataclass(frozen=True, slots=True)
class JointDP(_Request):
    """What all other users see, their actions, reveals (almost) nothing about a user.

    The actions of the user may reveal something about the same user.
    """

    trust: ClassVar[Trust] = Trust.JOINT
    kind: ClassVar[str] = "JointDP"


@dataclass(frozen=True, slots=True)
class LocalDP(_Request):
    """Noise is added on the user's device, so no curator has to be trusted.

    It requires the relation `replace`.
    """

    trust: ClassVar[Trust] = Trust.LOCAL
    kind: ClassVar[str] = "LocalDP"

    def __post_init__(self) -> None:
        _Request.__post_init__(self)
        if self.relation is not Relation.REPLACE:
            raise InvalidParameter(
                'relation must be "replace" under LocalDP, '
                "because everybody sees when a device sends nothing"
            )


@dataclass(frozen=True, slots=True)
class DistributedDP(_Request):
    """Each device adds a share of the noise, and only the sum over a batch of users is seen.

    So nobody has to be trusted with raw data. The guarantee assumes an ideal aggregator, which
    shows the sum of each batch and nothing else. confide does not contain one: the caller provides
    it (`confide.privatizers.Aggregate`). A single share carries almost no noise.

    `dropouts` is the largest share of a batch whose noise may be missing from the sum, because
    their devices drop out or collude with the server. A batch with more dropouts is not opened.
    Fewer dropouts give more privacy than requested.

    It requires delta > 0 and the relation `replace`.
    """

    # The default is a matter of taste. More dropouts need more noise in each share.
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
                'relation must be "replace" under DistributedDP, '
                "because everybody sees when a device sends nothing"
            )

    def identity(self) -> Identity:
        common = _Request.identity(self)
        return Identity(common.kind, 1, **common.values, dropouts=float(self.dropouts))

    def __str__(self) -> str:
        return words.request(self)


@dataclass(frozen=True, slots=True)
class NoPrivacy:
    """No privacy: no noise is added, and nobody is protected. For baselines."""

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
    """Return the argument if it is a privacy request, and refuse it otherwise."""
    request: Request = kind(
        name,
        value,
        CentralDP,
        JointDP,
        LocalDP,
        DistributedDP,
        NoPrivacy,
        expected="CentralDP, JointDP, LocalDP, DistributedDP or NoPrivacy",
    )
    return request


def request_to_json(request: Request) -> dict[str, Any]:
    """A request as plain values, for `Guarantee.to_json`."""
    facts: dict[str, Any] = {
        "kind": request.kind,
        "epsilon": float(request.epsilon) if math.isfinite(request.epsilon) else None,
        "delta": float(request.delta),
        "relation": parse_relation(request.relation).value,
    }
    if isinstance(request, DistributedDP):
        facts["dropouts"] = float(request.dropouts)
    return facts


def request_from_json(facts: dict[str, Any]) -> Request:
    """The request that `request_to_json` wrote."""
    if facts["kind"] == NoPrivacy.kind:
        return NoPrivacy()
    classes = {each.kind: each for each in (CentralDP, JointDP, LocalDP, DistributedDP)}
    request_class = classes[facts["kind"]]
    return request_class(**{name: value for name, value in facts.items() if name != "kind"})


def parse_relation(value: "Relation | str") -> Relation:
    """The relation that a text such as "replace" names."""
    try:
        return Relation(value)
    except (TypeError, ValueError):
        choices = " or ".join(f'"{relation.value}"' for relation in Relation)
        raise InvalidParameter.of("relation", f"must be {choices}, got {shown(value)}") from None
