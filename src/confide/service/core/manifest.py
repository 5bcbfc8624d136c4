"""The manifest of a run: everything that is promised to people.

It is decided before the first user, signed, and never changed. It is a format: devices, the check
from outside and clients/typescript read its keys. Its sentences may be changed for new runs; a run
that exists keeps the bytes that were signed.
"""

from datetime import UTC, datetime
from typing import Any

from confide.identity import identify
from confide.learning.learner import Learner
from confide.privacy.certificate import Certificate, certify
from confide.privacy.loss import loss_to_json
from confide.privacy.request import Relation
from confide.service.core.spec import ServiceRunSpec
from confide.service.documents import SigningKey, canonical, digest

FORMAT = "confide-manifest/2"
SIMULATION = (
    "SIMULATION: fast noise is computed from a seed. Nobody's real data belong in this run."
)
# By batch rule: what is protected in joint runs, and what is not.
PROTECTED = {
    "count": (
        "What a person did is protected. That the person took part is not: "
        "a batch closes after a number of reports."
    ),
    "deadline": (
        "What a person did is protected. Whether the person took part is protected against "
        "everybody who does not hold an API key: batches close at public times, whatever the "
        "number of reports, and no counts are shown."
    ),
}
# A release of local runs is the sum of the messages that came. A message that is missing lacks its
# noise, too.
PROTECTED_IN_LOCAL_RUNS = (
    "What a person did is protected, also against the operator. That the person took part is not: "
    "a release is the sum of the messages that came."
)


def what_is_protected(spec: ServiceRunSpec) -> str:
    """Return what the run protects, in plain words."""
    return PROTECTED_IN_LOCAL_RUNS if spec.trust == "local" else PROTECTED[spec.batch.rule]


def certificate_of(spec: ServiceRunSpec, learner: Learner) -> Certificate:
    """Return the certificate of the whole run. It is made before the first user."""
    simulation = spec.noise == "fast"
    assumptions: list[str] = []
    if spec.trust == "joint":
        assumptions.append(what_is_protected(spec))
    if spec.reports_per_person > 1:
        assumptions.append(
            f"The guarantee is for one report. A person may send {spec.reports_per_person}."
        )
    if simulation:
        assumptions.append(SIMULATION)
    subject = f"{'SIMULATION: ' if simulation else ''}run {spec.name} of confide serve"
    return certify(
        learner.guarantee, learner.mechanisms(), subject=subject, assumptions=assumptions
    )


def manifest_of(
    spec: ServiceRunSpec, learner: Learner, certificate: bytes, key: SigningKey, created: float
) -> bytes:
    """Return the manifest as canonical JSON. `created` is in seconds since 1970."""
    guarantee = learner.guarantee
    public = spec.make_problem().public
    promise = {
        "trust": guarantee.trust.value,
        "epsilon": spec.epsilon,
        "delta": spec.delta,
        "relation": guarantee.relation.value,
        "loss": loss_to_json(guarantee.loss),
    }
    return canonical(
        {
            "format": FORMAT,
            "run": spec.name,
            "title": spec.title or f"{spec.agent} on {spec.problem}",
            "created": datetime.fromtimestamp(created, UTC).isoformat(timespec="seconds"),
            "simulation": spec.noise == "fast",
            "noise": spec.noise,
            "local_noise": spec.local_noise,
            "agent": {
                "name": spec.agent,
                "settings": learner.settings,
                "options": dict(spec.options),
            },
            "problem": {**_problem_facts(spec), "public": identify(public), **sizes(public)},
            "promise": promise,
            "users": learner.episodes,
            "releases": learner.schedule.leaves,
            "batch": _batch_facts(spec),
            "reports_per_person": spec.reports_per_person,
            "person": _person_budget(spec),
            "certificate": digest(certificate),
            "key": {"id": key.id, "public": key.public.hex()},
        }
    )


def _batch_facts(spec: ServiceRunSpec) -> dict[str, Any]:
    """Return when batches close, and what that protects."""
    batch: dict[str, Any] = {
        "rule": spec.batch.rule,
        "schedule": spec.batch.schedule,
        "protects": what_is_protected(spec),
    }
    if spec.batch.rule == "deadline":
        batch |= {"start": spec.batch.start, "every": spec.batch.every}
    return batch


def _person_budget(spec: ServiceRunSpec) -> dict[str, Any] | None:
    """Return what a person may lose over all runs, if there is a limit.

    The relation is that of the account, which may differ from that of the run.
    """
    if spec.person_epsilon is None:
        return None
    return {
        "epsilon": spec.person_epsilon,
        "delta": spec.person_delta,
        "relation": Relation.REPLACE.value,
    }


def _problem_facts(spec: ServiceRunSpec) -> dict[str, Any]:
    """Return what makes the problem: whoever reads the manifest can plan, too."""
    return {"name": spec.problem, "seed": spec.problem_seed, "asked_horizon": spec.horizon}


def sizes(public: Any) -> dict[str, Any]:
    """Return what a client must know to play and to report: whole numbers."""
    names = ("horizon", "states", "actions", "inputs", "dimension")
    return {
        name: int(getattr(public, name))
        for name in names
        if isinstance(getattr(public, name, None), int)
    }
