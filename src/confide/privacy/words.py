"""The words for guarantees, requests, trust models and relations.

They are for people alone. No code parses or compares them, so every sentence here can be rewritten
and all results stay the same (`tests/privacy/test_words.py` replaces them by random text). Other
modules write `words.guarantee(...)` and do not import single names, because the test replaces the
texts in this module only.
"""

import math
from typing import TYPE_CHECKING

from confide.privacy.trust import Relation, Trust

if TYPE_CHECKING:
    from confide.privacy.guarantee import Guarantee
    from confide.privacy.request import Request

NO_PRIVACY = "NO PRIVACY"
# What a baseline without privacy is called in tables and legends.
NO_PRIVACY_LABEL = "no privacy"
NAMES = {
    Trust.NONE: "No privacy",
    Trust.CENTRAL: "Central differential privacy",
    Trust.JOINT: "Joint differential privacy",
    Trust.LOCAL: "Local differential privacy",
    Trust.DISTRIBUTED: "Distributed differential privacy",
}
AGAINST = {
    Trust.NONE: "",
    Trust.CENTRAL: (
        "Everybody who reads the releases, all of them together, with any other knowledge."
    ),
    Trust.JOINT: (
        "All other users together, even if they combine everything that they see and do with any "
        "other knowledge."
    ),
    Trust.LOCAL: "Everybody, including the server: data leave a user’s device only with noise.",
    Trust.DISTRIBUTED: (
        "Everybody, including the server, if the aggregator is ideal: then the server sees sums of "
        "batches only, with noise from the users’ devices."
    ),
}
TRUSTED = {
    Trust.NONE: "",
    Trust.CENTRAL: "The curator, who has the raw data and adds the noise.",
    Trust.JOINT: "The curator, who has the raw data and adds the noise.",
    Trust.LOCAL: "Only the user’s own device.",
    Trust.DISTRIBUTED: (
        "The user’s own device, and the aggregator, which is assumed to show the sum of each batch "
        "and nothing else."
    ),
}
SOURCES = {
    "fast": "Fast: a seeded generator.",
    "secure": "Secure: discrete, exactly sampled, from the system’s entropy.",
}
NEIGHBOURS = {
    Relation.REPLACE: "Replace: one user is replaced by any other user.",
    Relation.NULL: "Null: one user contributes zero.",
}
# Whose data stand in the place of one user's, in another data set.
INSTEAD = {Relation.REPLACE: "somebody else’s", Relation.NULL: "nothing"}
# The trust model of an agent, in the table of `explain`.
MODELS = {
    Trust.NONE: "none: data and statistics are not protected",
    Trust.CENTRAL: (
        "central: a curator sees the data; protects each user from everybody who reads the releases"
    ),
    Trust.JOINT: "joint: a curator sees the data; protects each user from all other users together",
    Trust.LOCAL: (
        "local: only the user's device sees the data; protects each user from everybody, including "
        "the server"
    ),
    Trust.DISTRIBUTED: (
        "distributed: only the user's device sees the data, and the server only sums of batches, "
        "with noise from their devices, assuming an ideal aggregator; protects each user from "
        "everybody, including the server"
    ),
}
UNITS = {
    Relation.REPLACE: "one user's whole trajectory, replaced by another",
    Relation.NULL: "one user's whole trajectory, replaced by zero",
}
PROTECTED = "Each user: the whole trajectory, with all states, actions and rewards."
# What a guarantee assumes besides the numbers of its certificate, by kind.
ASSUMPTIONS = {
    "no-noise": "No noise was added: nobody is protected.",
    "one-participation": (
        "Each person is one user; somebody who takes part k times has k times the loss of one "
        "record (mu or epsilon)."
    ),
    "ideal-aggregator": (
        "An ideal aggregator: nobody sees anything of the devices' shares but the sum of each "
        "batch, which is opened once. confide does not contain one; whoever runs the devices "
        "provides it."
    ),
    "honest-devices": (
        "No batch is opened with fewer honest devices than stated. Devices that stay away, and "
        "those that work for the server, are dropouts."
    ),
    "independent-participation": "Whether a device takes part does not depend on its user's data.",
    "trusted-curator": "The curator who holds the raw data, and the saved state, is trusted.",
    "own-actions": (
        "The guarantee concerns what all other users together see. A user's own actions, and gains "
        "that were computed for this user's start, may depend on that user's data, so they must "
        "not be published."
    ),
    "fast-noise": (
        "Simulation: fast noise is computed from a seed, in floating point that is treated as real "
        "numbers. The guarantee holds against those who do not know the seed. The results of a run "
        "state their seed: do not publish them for real data."
    ),
}
_ONE_USER = {
    Relation.REPLACE: "replace one user",
    Relation.NULL: "one user contributes zero",
}
_CHANGE = {
    Relation.REPLACE: "were replaced by somebody else",
    Relation.NULL: "had contributed nothing",
}


def guarantee(given: "Guarantee") -> str:
    """A guarantee in one line.

    For example: JointDP(epsilon=1, delta=1e-05), replace one user, 100000 users, fast noise.
    """
    if given.trust is Trust.NONE:
        return f"{NO_PRIVACY}, {given.users} users"
    person = f", a person who comes {given.times} times" if given.times > 1 else ""
    epsilon, delta = given.stated
    distributed = given.trust is Trust.DISTRIBUTED
    assumption = ", assuming an ideal aggregator" if distributed else ""
    return (
        f"{given.trust.value.capitalize()}DP(epsilon={epsilon:.6g}, delta={delta:g}), "
        f"{_ONE_USER[given.relation]}{person}, {given.users} users, "
        f"{given.source} noise{assumption}"
    )


def request(privacy: "Request") -> str:
    """A request as Python writes it, for example JointDP(epsilon=1, delta=1e-05)."""
    if privacy.trust is Trust.NONE:
        return "NoPrivacy()"
    numbers = f"epsilon={privacy.epsilon:g}, delta={privacy.delta:g}"
    if privacy.trust is Trust.DISTRIBUTED:
        dropouts = privacy.dropouts  # type: ignore[union-attr]
        return f"{privacy.kind}({numbers}, dropouts={dropouts:g})"
    relation = "" if privacy.relation == Relation.REPLACE else f", relation={privacy.relation}"
    return f"{privacy.kind}({numbers}{relation})"


def consequence(given: "Guarantee") -> str:
    """A guarantee as a sentence about one user."""
    if given.trust is Trust.NONE:
        return (
            "NONE: no noise was added, and users are not protected. "
            "For the data holder only: do not publish it."
        )
    epsilon, delta = given.stated
    return (
        f"epsilon = {epsilon:.4g} at delta = {delta:g}: "
        f"if any one of the {given.users:,} users {_CHANGE[given.relation]}, "
        "the probability of any published result would change by at most the factor "
        f"e^epsilon = {format_factor(epsilon)}, plus delta."
    )


def meaning(relation: Relation) -> str:
    """(epsilon, delta) as one sentence about probabilities."""
    return (
        f"If any one user {_CHANGE[relation]}, the probability of any observation would change "
        "by at most the factor e^ε, plus δ."
    )


def not_protected(trust: Trust, *, returns_shown: bool) -> list[str]:
    """What a guarantee with this trust model does not protect.

    `returns_shown` is for a report that shows average returns without noise.
    """
    limits = []
    if trust is Trust.JOINT:
        limits.append(
            "A user’s own actions: somebody who observes one user’s actions may learn about that "
            "user."
        )
    if trust in (Trust.CENTRAL, Trust.JOINT):
        limits.append(
            "The curator’s memory: raw data, exact sums and saved state must stay secret."
        )
    limits += [
        "Facts about the population that would also have been learned without that user.",
        "A person who takes part k times: the loss (μ or ε) is k times as large.",
        "Timing, traffic, and anything else that a service does besides its releases.",
    ]
    if returns_shown:
        limits.append(
            "The average returns in this report: they are computed from users’ data without noise."
        )
    return limits


def label(epsilon: float | None) -> str:
    """The requested epsilon, in a legend. None stands for no privacy."""
    return NO_PRIVACY_LABEL if epsilon is None else f"ε = {epsilon:.4g}"


def long_label(epsilon: float | None, trust: Trust, delta: float) -> str:
    """A label for a legend in which two guarantees have the same epsilon."""
    return NO_PRIVACY_LABEL if epsilon is None else f"{trust.value} {label(epsilon)}, δ = {delta:g}"


def format_factor(epsilon: float) -> str:
    """e^epsilon, the factor by which probabilities may change."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:.3g}"


def format_delta(delta: float) -> str:
    """A delta with a short exponent: 1e-5, not 1e-05."""
    return f"{delta:g}".replace("e-0", "e-")
