"""What a run promised, in plain words: who is protected, against whom, and what is not."""

import math
import re
from dataclasses import dataclass

from confide.experiments.run import Run
from confide.privacy.request import Relation, Trust

_STATED = re.compile(
    r"(?P<kind>Central|Joint|Local)DP\(epsilon=(?P<epsilon>[^,]+), delta=(?P<delta>[^)]+)\), "
    r"(?P<relation>replace one user|one user contributes zero), (?P<users>\d+) users, (?P<source>\w+) noise"
)
_NONE = re.compile(r"NO PRIVACY, (?P<users>\d+) users")


@dataclass(frozen=True, slots=True)
class Promise:
    """What a report needs to know about a guarantee. `trust` is None where the guarantee could not be understood."""

    trust: Trust | None
    epsilon: float
    delta: float
    relation: Relation
    users: int
    source: str
    stated: str  # the guarantee in its own words
    asked: float | None = None  # the epsilon that was asked for, where a certificate says so

    @property
    def private(self) -> bool:
        return self.trust in (Trust.CENTRAL, Trust.JOINT, Trust.LOCAL)

    @property
    def stricter(self) -> str:
        """In words, where the noise gives less than the epsilon that was asked for: printed constants do."""
        if not self.private or self.asked is None or self.epsilon >= 0.95 * self.asked:
            return ""
        return f"asked for ε = {self.asked:.3g}, really gives ε = {self.epsilon:.3g}"


def promise_of(run: Run) -> Promise:
    """From the certificate, which has all digits; from the guarantee's words where there is none."""
    if run.certificate is not None:
        stated = run.certificate.document["promise"]
        trust, relation = Trust(stated["trust"]), Relation(stated["relation"])
        epsilon, delta = run.certificate.epsilon, run.certificate.delta
        asked = run.certificate.document["request"]["epsilon"]
        return Promise(trust, epsilon, delta, relation, stated["users"], stated["source"], run.guarantee, asked)
    if found := _STATED.fullmatch(run.guarantee):
        relation = Relation.REPLACE if found["relation"].startswith("replace") else Relation.NULL
        trust, users = Trust(found["kind"].lower()), int(found["users"])
        return Promise(trust, float(found["epsilon"]), float(found["delta"]), relation, users, found["source"], run.guarantee)
    none = _NONE.fullmatch(run.guarantee)
    users = int(none["users"]) if none else run.planned_episodes
    return Promise(Trust.NONE if none else None, math.inf, 0.0, Relation.REPLACE, users, "none", run.guarantee)


NAMES = {
    Trust.NONE: "No privacy",
    Trust.CENTRAL: "Central differential privacy",
    Trust.JOINT: "Joint differential privacy",
    Trust.LOCAL: "Local differential privacy",
    None: "Privacy as the agent states it",
}

AGAINST: dict[Trust | None, str] = {
    Trust.CENTRAL: "Everybody who reads what is published, all of it together, whatever else they know.",
    Trust.JOINT: "All other users together, even if they pool everything they see and do, whatever else they know.",
    Trust.LOCAL: "Everybody, the server included: data leave a user’s device only after noise.",
}

TRUSTED: dict[Trust | None, str] = {
    Trust.CENTRAL: "The curator, who holds the raw data and adds the noise.",
    Trust.JOINT: "The curator, who holds the raw data and adds the noise.",
    Trust.LOCAL: "Nobody but the user’s own device.",
}


SOURCES = {"fast": "Fast: a seeded generator.", "secure": "Secure: discrete, exactly sampled, from the system’s entropy."}

PROTECTED = "Every single user: the whole trajectory, with each state, action and reward in it."


def meaning(promise: Promise) -> str:
    """(epsilon, delta) as one sentence about probabilities."""
    change = "were somebody else altogether" if promise.relation is Relation.REPLACE else "had contributed nothing"
    return f"If any one user {change}, the probability of whatever is seen would change by at most the factor e^ε, plus δ."


def relation_words(promise: Promise) -> str:
    return (
        "Replace: one user is swapped for any other."
        if promise.relation is Relation.REPLACE
        else "Null: one user contributes zero."
    )


def not_protected(promise: Promise, *, returns_shown: bool) -> list[str]:
    """The limits of a promise: the ones of its kind, and the ones of this report."""
    said = []
    if promise.trust is Trust.JOINT:
        said.append("A user’s own actions: whoever watches one user act may learn about that user.")
    if promise.trust in (Trust.CENTRAL, Trust.JOINT):
        said.append("The curator’s memory: raw data, exact sums and saved state are secrets.")
    said.append("Facts about the population that would have been learned without that user, too.")
    said.append("Somebody who takes part k times: the loss (μ or ε) is k times as large.")
    said.append("Timing, traffic, and anything a service does beside its releases.")
    if returns_shown:
        said.append(
            "The average returns in this report: they are measured on the users themselves, and no noise was added to them."
        )
    return said


def odds(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:.3g}"


def small(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")


def count(number: float) -> str:
    """100 000, with narrow spaces that do not break."""
    return f"{number:,.0f}".replace(",", "\u202f")
