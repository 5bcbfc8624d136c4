"""The guarantee for a whole stream of releases; every release carries it."""

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

# Relative: how far a number that a file states may be from the one that this machine computes.
_ROUNDING = 1e-6
SLACK = 1e-9  # relative: what rounding in the accounting may add up to
# which ways of keeping data serve which request; a central guarantee becomes joint by the billboard lemma
_SERVES = {
    NoPrivacy: {Trust.NONE},
    LocalDP: {Trust.LOCAL},
    DistributedDP: {Trust.DISTRIBUTED},
    CentralDP: {Trust.CENTRAL, Trust.LOCAL},
    JointDP: {Trust.CENTRAL, Trust.JOINT, Trust.LOCAL},
}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Everything released for `users` users, read together, loses at most `loss` about any one of them.

    A guarantee whose loss exceeds its request cannot be made: printed constants whose true epsilon exceeds the nominal one
    are refused, with an error that states the true epsilon.
    """

    loss: Loss
    request: Request
    trust: Trust
    users: int
    source: str  # fast | secure: see mechanisms/sources.py
    times: int = 1  # for a person who took part so many times

    def __post_init__(self) -> None:
        check_loss(self.loss)
        check_privacy_request(self.request, "request")
        kind("trust", self.trust, Trust)
        text("source", self.source)
        whole("users", self.users, at_least=1)
        whole("times", self.times, at_least=1)
        if self.trust not in _SERVES[type(self.request)]:
            raise PromiseBroken(
                f"{type(self.request).__name__} was requested, which {self.trust.value} trust does not give"
            )
        own_delta = self.loss.delta if isinstance(self.loss, ApproxDP) else 0.0
        if self.times == 1 and own_delta > self.request.delta:
            raise PromiseBroken(
                f"this noise gives delta={own_delta:g}, more than the requested delta={self.request.delta:g}"
            )
        if self.times == 1 and self.epsilon > self.request.epsilon * (1 + SLACK):
            raise PromiseBroken(
                f"this noise gives epsilon={self.epsilon:.6g} at delta={self.delta:g}, "
                f"more than the requested epsilon={self.request.epsilon:g}"
            )

    @property
    def delta(self) -> float:
        """The requested delta; more only for a person who took part several times under an (epsilon, delta) loss."""
        grows = self.times > 1 and isinstance(self.loss, ApproxDP)
        return (
            max(self.request.delta, self.loss.delta_at(math.inf)) if grows else self.request.delta
        )

    @property
    def epsilon(self) -> float:
        """The epsilon of the noise that is added, at `delta`. It may be smaller than the requested epsilon."""
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
        """Epsilon and delta as people write them: a pure loss has its own epsilon and delta zero, whatever was requested."""
        if isinstance(self.loss, PureDP):
            return self.loss.epsilon, 0.0
        return self.epsilon, self.delta

    def to_json(self) -> dict[str, Any]:
        """The one form of a guarantee in files and certificates.

        `epsilon`, `delta` and `relation` are for readers; they follow from the loss and the request.
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
        """The guarantee that `to_json` wrote. Numbers for readers that do not follow from the loss and the request are refused."""
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            written = facts.get("format") if isinstance(facts, dict) else None
            raise InvalidParameter(
                f"this guarantee has format {shown(written)}, this version of confide reads {FORMAT}"
            )
        try:
            made = cls(
                loss=loss_from_json(facts["loss"]),
                request=request_from_json(facts["request"]),
                trust=Trust(choice("trust", facts["trust"], tuple(each.value for each in Trust))),
                users=facts["users"],
                source=facts["source"],
                times=facts["times"],
            )
            told = {name: facts[name] for name in ("epsilon", "delta", "relation")}
        except (KeyError, TypeError) as error:
            raise InvalidParameter(f"this guarantee is not complete: {error}") from None
        for name, value in told.items():
            if not _same(value, made.to_json()[name]):
                raise InvalidParameter(
                    f"this guarantee states {name}={shown(value)}, which does not follow from its loss and its request"
                )
        return made

    def __str__(self) -> str:
        return words.guarantee(self)


def _same(told: Any, computed: Any) -> bool:
    """Numbers may differ by what rounding in the accounting adds up to on another processor."""
    both = isinstance(told, float) and isinstance(computed, float)
    return bool(told == computed) or (both and math.isclose(told, computed, rel_tol=_ROUNDING))


def no_guarantee(users: int) -> Guarantee:
    """The guarantee of a baseline that adds no noise: none, and it says so."""
    return Guarantee(NO_PRIVACY, NoPrivacy(), Trust.NONE, users, "none")


def billboard(guarantee: Guarantee) -> Guarantee:
    """Joint privacy, derived from the privacy of what is published [Hsu16, Lemma 2.1].

    If everything that is published is private in the central sense, and each user's actions are a function of what is
    published and of that user's own data, then the actions of all OTHER users are private for every user, with the same
    loss. A local or distributed guarantee also holds against the server, and is returned unchanged; so is no guarantee.
    """
    kind("guarantee", guarantee, Guarantee)
    if guarantee.trust is not Trust.CENTRAL:
        return guarantee
    asked = guarantee.request
    return replace(
        guarantee, trust=Trust.JOINT, request=JointDP(asked.epsilon, asked.delta, asked.relation)
    )
