"""The guarantee for a whole stream of releases. Every release carries it.

A guarantee leaves this file as `to_json`, which stands in every certificate and in run folders. The
names in it and `FORMAT` are a published format (`certificate.schema.json`). How a guarantee is
written for people is decided in `words.py` and can be changed freely.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from confide.arguments import choice, kind, shown, text, whole
from confide.errors import InvalidParameter, PromiseBroken
from confide.privacy import words
from confide.privacy.loss import (
    NO_PRIVACY,
    ApproxDP,
    Loss,
    PureDP,
    check_loss,
    loss_from_json,
    loss_to_json,
)
from confide.privacy.request import (
    CentralDP,
    DistributedDP,
    JointDP,
    LocalDP,
    NoPrivacy,
    Relation,
    Request,
    Trust,
    check_privacy_request,
    request_from_json,
    request_to_json,
)

FORMAT = "confide-guarantee/1"

# How far a number that a file states may be from the one that this machine computes, relative to
# the number. Taste: the arithmetic of another processor is off by much less, a forgery by more.
_ROUNDING_IN_FILES = 1e-6
# The epsilon of a loss may exceed the requested one by this share, because the accounting rounds.
# Measured: the accounting is good to 1e-9 (tests/privacy/test_accounting.py).
SLACK = 1e-9
# Which trust models satisfy which request. A central guarantee becomes joint by the billboard
# lemma.
_SERVES = {
    NoPrivacy: {Trust.NONE},
    LocalDP: {Trust.LOCAL},
    DistributedDP: {Trust.DISTRIBUTED},
    CentralDP: {Trust.CENTRAL, Trust.LOCAL},
    JointDP: {Trust.CENTRAL, Trust.JOINT, Trust.LOCAL},
}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What holds for everything that is released for `users` users, read together.

    Guarantee: a reader of all releases learns at most `loss` about any one user, under the relation
    of the request.

    A guarantee whose loss exceeds its request cannot be made. So printed constants whose true
    epsilon exceeds the nominal one are refused, with an error that states the true epsilon.

    `source` is the kind of noise, "fast" or "secure" (`mechanisms/sources.py`). `times` is more
    than one in the guarantee for a person who took part so many times (`participations`).
    """

    loss: Loss
    request: Request
    trust: Trust
    users: int
    source: str
    times: int = 1

    def __post_init__(self) -> None:
        check_loss(self.loss)
        check_privacy_request(self.request, "request")
        kind("trust", self.trust, Trust)
        text("source", self.source)
        whole("users", self.users, at_least=1)
        whole("times", self.times, at_least=1)
        if self.trust not in _SERVES[type(self.request)]:
            raise PromiseBroken(
                f"{self.request.kind} was requested, which {self.trust.value} trust does not give"
            )
        own_delta = self.loss.delta if isinstance(self.loss, ApproxDP) else 0.0
        if self.times == 1 and own_delta > self.request.delta:
            raise PromiseBroken(
                f"this noise gives delta={own_delta:g}, "
                f"more than the requested delta={self.request.delta:g}"
            )
        if self.times == 1 and self.epsilon > self.request.epsilon * (1 + SLACK):
            raise PromiseBroken(
                f"this noise gives epsilon={self.epsilon:.6g} at delta={self.delta:g}, "
                f"more than the requested epsilon={self.request.epsilon:g}"
            )

    @property
    def delta(self) -> float:
        """The requested delta.

        It is larger only for a person who took part several times under an (epsilon, delta) loss.
        """
        if self.times > 1 and isinstance(self.loss, ApproxDP):
            return max(self.request.delta, self.loss.delta_at(math.inf))
        return self.request.delta

    @property
    def epsilon(self) -> float:
        """The epsilon of the noise that is added, at `delta`.

        It may be smaller than the requested epsilon.
        """
        return self.loss.epsilon_at(self.delta)

    @property
    def relation(self) -> Relation:
        return Relation(self.request.relation)

    def participations(self, k: int) -> "Guarantee":
        """The guarantee for a person who took part k times (a group of k records)."""
        whole("k", k, at_least=1)
        return replace(self, loss=self.loss.group(k), times=self.times * k)

    @property
    def stated(self) -> tuple[float, float]:
        """Epsilon and delta as people write them.

        A pure loss has its own epsilon and delta = 0, whatever was requested.
        """
        if isinstance(self.loss, PureDP):
            return self.loss.epsilon, 0.0
        return self.epsilon, self.delta

    def to_json(self) -> dict[str, Any]:
        """The one form of a guarantee in files and certificates.

        `epsilon`, `delta` and `relation` are for readers. They follow from the loss and the
        request.
        """
        return {
            "format": FORMAT,
            "trust": self.trust.value,
            "relation": self.relation.value,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "users": self.users,
            "times": self.times,
            "source": self.source,
            "loss": loss_to_json(self.loss),
            "request": request_to_json(self.request),
        }

    @classmethod
    def from_json(cls, facts: Any) -> "Guarantee":
        """The guarantee that `to_json` wrote.

        It is refused if its numbers for readers do not follow from its loss and its request.
        """
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            written = facts.get("format") if isinstance(facts, dict) else None
            raise InvalidParameter(
                f"this guarantee has format {shown(written)}, "
                f"this version of confide reads {FORMAT}"
            )
        try:
            guarantee = cls(
                loss=loss_from_json(facts["loss"]),
                request=request_from_json(facts["request"]),
                trust=Trust(choice("trust", facts["trust"], tuple(each.value for each in Trust))),
                users=facts["users"],
                source=facts["source"],
                times=facts["times"],
            )
            for_readers = {name: facts[name] for name in ("epsilon", "delta", "relation")}
        except (KeyError, TypeError) as error:
            raise InvalidParameter(f"this guarantee is not complete: {error}") from None
        computed = guarantee.to_json()
        for name, value in for_readers.items():
            if not _is_same(value, computed[name]):
                raise InvalidParameter(
                    f"this guarantee states {name}={shown(value)}, "
                    "which does not follow from its loss and its request"
                )
        return guarantee

    def __str__(self) -> str:
        return words.guarantee(self)


def _is_same(stated: Any, computed: Any) -> bool:
    """Numbers may differ by what rounding in the accounting adds up to on another processor."""
    if stated == computed:
        return True
    if not (isinstance(stated, float) and isinstance(computed, float)):
        return False
    return math.isclose(stated, computed, rel_tol=_ROUNDING_IN_FILES)


def no_guarantee(users: int) -> Guarantee:
    """The guarantee of a baseline that adds no noise. It says that there is none."""
    return Guarantee(NO_PRIVACY, NoPrivacy(), Trust.NONE, users, "none")


def billboard(guarantee: Guarantee) -> Guarantee:
    """Joint privacy, derived from the privacy of what is published [Hsu16, Lemma 2.1].

    If everything that is published is private in the central sense, and each user's actions are a
    function of what is published and of that user's own data, then the actions of all OTHER users
    are private for every user, with the same loss.

    A local or distributed guarantee also holds against the server, and is returned unchanged. So is
    the guarantee of a baseline, which is none.
    """
    kind("guarantee", guarantee, Guarantee)
    if guarantee.trust is not Trust.CENTRAL:
        return guarantee
    central = guarantee.request
    request = JointDP(central.epsilon, central.delta, central.relation)
    return replace(guarantee, trust=Trust.JOINT, request=request)
