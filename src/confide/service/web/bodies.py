"""What is sent to a service and what it answers, as types.

They check the bodies of requests, and the OpenAPI document has their schemas. The names of the
fields are the wire format, and the docstrings of the types are descriptions in the document. The
names of the types are free: the document has names of its own (`SCHEMA_NAMES` in `openapi.py`).
"""

import json
import math
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from confide.service.store.interface import AuditRow
from confide.service.web.access import Role
from confide.service.web.answers import HttpProblem

_Body = TypeVar("_Body", bound=Struct)
# Python reads whole numbers of up to 4,300 digits. Longer ones than this are not converted.
_MAX_DIGITS = 4000

Subject = Annotated[str, Meta(min_length=1, max_length=256)]
Generation = Annotated[int, Meta(ge=0, lt=2**53)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", min_length=64, max_length=64)]
Count = Annotated[int, Meta(ge=0)]


class Trajectory(Struct, frozen=True):
    """An episode of a joint run. What makes no sense in it is counted, and adds zero."""

    states: Any = None
    actions: Any = None
    rewards: Any = None


class ReportBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A trajectory in joint runs, a message in local ones.

    `subject` is a stable name of the person, and is not stored. `generation` is that of the release
    with which the episode was planned. `round` is the digest that its round names, in joint runs.
    `message` is the noisy message in base64.
    """

    subject: Subject
    generation: Generation
    round: Digest | None = None
    trajectory: Trajectory | None = None
    message: str | None = None


class ActBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where somebody is in an episode."""

    subject: str
    step: Annotated[int, Meta(ge=0, lt=2**53)]
    state: Any


class EnrolBody(Struct, frozen=True, forbid_unknown_fields=True):
    """People, and the batch in which they are expected."""

    subjects: list[Subject]
    generation: Annotated[int, Meta(ge=0, lt=2**31)]


class NewKeyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """`run` is the only run that the key may be used for; without it, all runs.

    `expires` is a number of days such as 90d, or a date such as 2027-01-31; without it, the key
    never expires.
    """

    role: Role
    label: str = ""
    run: str | None = None
    expires: str | None = None


class Runs(Struct, frozen=True):
    """The names of the runs that are served."""

    runs: list[str]


class SigningKeyFacts(Struct, frozen=True):
    """A signing key, endorsed by one before it."""

    id: str
    public: str
    endorsed_by: str
    endorsement: str


class SigningKeys(Struct, frozen=True):
    """The signing keys of a service, in the order in which they were made."""

    keys: list[SigningKeyFacts]


class Outcome(Struct, frozen=True):
    """What became of a report, and the release that is current now.

    `outcome` is counted, or same if the report was counted before.
    """

    outcome: str
    generation: Count


class Action(Struct, frozen=True):
    """An action, and the release with which it was planned."""

    action: Any
    generation: Count


class RunStatus(Struct, frozen=True, omit_defaults=True):
    """Numbers for operators. Of a run that cannot be read, there is the cause alone."""

    run: str
    ready: bool
    cause: str | None = None
    status: str | None = None
    generation: Count | None = None
    size: Count | None = None
    users: Count | None = None
    reports: Count | None = None
    answers: dict[str, int] | None = None
    refused: dict[str, int] | None = None


class ChangedRun(Struct, frozen=True):
    """A run and its new status."""

    run: str
    status: str


class NewRun(Struct, frozen=True):
    """The name of a run that was made."""

    run: str


class Enrolled(Struct, frozen=True):
    """How many people are new in the batch."""

    enrolled: Count


class NewKey(Struct, frozen=True):
    """An API key, shown once, or the id of a signing key."""

    key: str


class AuditRows(Struct, frozen=True):
    """What people with roles did."""

    rows: list[AuditRow]


class Alive(Struct, frozen=True):
    """The process answers."""

    alive: bool


class Ready(Struct, frozen=True):
    """Whether reports are taken, and which runs take none."""

    ready: bool
    not_ready: list[str]


def decode(data: bytes, kind: type[_Body]) -> _Body:
    """Return the body of a request as `kind`.

    Required for privacy: what is wrong is named by its place, and no value of a person's report is
    repeated.
    """
    try:
        document = _parse(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise HttpProblem(400, "invalid", "the body must be a JSON object")
    names = kind.__struct_fields__
    if not document.keys() <= set(names):
        raise HttpProblem(
            400, "invalid", f"the body must have no other fields than {', '.join(names)}"
        )
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise HttpProblem(400, "invalid", f"the body must fit its schema. {error}") from None


def _parse(data: bytes) -> Any:
    """Return what a JSON text holds. A whole number with more digits than Python reads is NaN.

    The report with it is then counted like others without meaning. `msgspec` has a parser of its
    own, which refuses the whole body for such a number or for NaN.
    """
    try:
        return json.loads(data)
    except ValueError:
        return json.loads(data, parse_int=_whole_or_nan)


def _whole_or_nan(digits: str) -> float:
    return int(digits) if len(digits) < _MAX_DIGITS else math.nan
