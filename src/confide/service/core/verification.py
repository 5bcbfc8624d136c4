"""Checks of a whole database.

They compare signatures, chains, the arithmetic of certificates, and how often people were counted.
Nothing that a check says names a person, so what they say may be shown to every operator. A check
may be added or made stricter. A check may be removed only if something else refuses what it finds.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confide.audit.verify import Verification, verify
from confide.errors import ConfideError, StateError
from confide.mechanisms.state import unpack
from confide.privacy.certificate import Certificate, check_schema
from confide.service.core.live import make_learner
from confide.service.core.spec import parse_spec
from confide.service.documents import (
    ReleaseRow,
    Statement,
    check_key_chain,
    check_signature,
    digest,
)
from confide.service.store.audit_chain import check_rows
from confide.service.store.interface import RunRow, ServiceStore
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks, RolledBack
from confide.service.store.signing_keys import current_key

# Epsilon and delta of a certificate are computed again, with other roundings. Taste: it is far
# above rounding errors, and far below what matters.
ROUNDING_SLACK = 1e-9
# An account adds up many rounded numbers, each of which may be above the budget by the slack of an
# admission. Also a matter of taste.
ACCOUNT_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: what holds, or what does not."""

    about: str
    holds: bool
    says: str


def verify_store(store: ServiceStore, keys: KeyFolder, marks: Marks) -> Iterator[CheckResult]:
    """Run all checks of all runs. Nothing that they say names a person."""
    yield _run_check("keys", _check_key_files, store, keys)
    yield _run_check("audit", _check_audit, store)
    yield _run_check("budgets", _check_budgets, store)
    for name in store.runs():
        row = store.run(name)
        assert row is not None
        checks: dict[str, Callable[[RunRow], str]] = {
            "manifest": lambda row: _check_manifest(row, store),
            "certificate": _check_certificate,
            "releases": lambda row: _check_releases(row, store),
            "people": lambda row: _check_people(row, store),
            "state": lambda row: _check_state(row, store),
            "mark": lambda row: _check_mark(row, store, marks),
        }
        for about, check in checks.items():
            yield _run_check(f"{name}: {about}", check, row)


def _run_check(about: str, check: Callable[..., str], *given: object) -> CheckResult:
    try:
        return CheckResult(about, True, check(*given))
    except ConfideError as error:
        return CheckResult(about, False, str(error))
    except Exception as error:
        # Somebody has changed what the service wrote. The text of the error may hold anything.
        return CheckResult(about, False, f"damaged ({type(error).__name__})")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StateError(otherwise)


def _check_key_files(store: ServiceStore, keys: KeyFolder) -> str:
    """Without these files the service cannot sign, recognise people, or open what it sealed."""
    keys.check(current_key(store, keys).id)
    return f"for signatures, pseudonyms and the vault are in {keys.folder}"


def _check_audit(store: ServiceStore) -> str:
    return f"{check_rows(store.audit_rows())} rows, each follows the one before"


def _signing_keys(store: ServiceStore) -> dict[str, bytes]:
    """Return the service's public signing keys by id. The first one is trusted."""
    rows = [
        {
            "public": key.public.hex(),
            "endorsed_by": key.endorsed_by,
            "endorsement": key.endorsement.hex(),
        }
        for key in store.signing_keys()
    ]
    return check_key_chain(rows, trusted=bytes.fromhex(rows[0]["public"]))


def _check_manifest(row: RunRow, store: ServiceStore) -> str:
    keys = _signing_keys(store)
    _require(row.key in keys, "the manifest is signed by a key that is none of the service's")
    statement = Statement("manifest", row.name, "", 0, digest(row.manifest))
    check_signature(keys[row.key], row.signature, statement.to_bytes())
    return f"signed by {row.key}"


def _check_certificate(row: RunRow) -> str:
    manifest = json.loads(row.manifest)
    document = json.loads(row.certificate)
    _require(
        digest(row.certificate) == manifest["certificate"],
        "the certificate is not the one that the manifest names",
    )
    check_schema(document)
    verification = verify(Certificate(document))
    check_promise(verification, document["guarantee"], manifest)
    promise = manifest["promise"]
    return (
        f"epsilon = {verification.epsilon:.6g}, promised {promise['epsilon']:g} "
        f"at delta = {promise['delta']:g}"
    )


def check_promise(
    verification: Verification, stated: Mapping[str, Any], manifest: Mapping[str, Any]
) -> None:
    """Refuse a certificate whose guarantee is weaker than what the manifest promises to people.

    `verification` is computed from the certificate, and `stated` is the guarantee that it states.
    """
    promise = manifest["promise"]
    _require(
        verification.epsilon <= promise["epsilon"] * (1 + ROUNDING_SLACK),
        f"the noise gives epsilon={verification.epsilon:g}, "
        f"and epsilon={promise['epsilon']:g} was promised",
    )
    _require(
        verification.delta <= promise["delta"] * (1 + ROUNDING_SLACK),
        f"the certificate has delta={verification.delta:g}, "
        f"and delta={promise['delta']:g} was promised",
    )
    for name in ("trust", "relation"):
        _require(
            stated[name] == promise[name],
            f"the certificate has the {name} {stated[name]}, and {promise[name]} was promised",
        )
    _require(
        manifest["simulation"] or stated["source"] == "secure",
        f"the certificate is of {stated['source']} noise, and the manifest does not say that the "
        "run is a simulation",
    )


def _check_releases(row: RunRow, store: ServiceStore) -> str:
    keys = _signing_keys(store)
    manifest_digest = digest(row.manifest)
    settings = json.loads(row.manifest)["agent"]["settings"]
    previous = manifest_digest
    users = 0
    count = 0
    for release in store.releases(row.name):
        _require(release.generation == count, f"release {count} is missing")
        _require(release.previous == previous, f"release {count} does not follow the one before it")
        users += release.users
        _check_release(release, keys, manifest_digest, settings, users)
        previous = release.digest
        count += 1
    _require(
        count == row.generation + 1,
        f"there are {count} releases, and the run is at generation {row.generation}",
    )
    return f"{count}, signed and chained; {users} users"


def _check_release(
    release: ReleaseRow, keys: dict[str, bytes], manifest_digest: str, settings: str, users: int
) -> None:
    """Check one release. `users` is how many users it and all releases before it have."""
    number = release.generation
    statement = release.statement(manifest_digest)
    _require(
        statement.digest == release.digest, f"release {number} has another digest than it says"
    )
    _require(
        release.key in keys, f"release {number} is signed by a key that is none of the service's"
    )
    check_signature(keys[release.key], release.signature, statement.to_bytes())
    state = unpack(release.body, "release", released=0)
    facts = state.facts
    body_names = (facts["run"], facts["settings"], state.generation, facts["users"])
    _require(
        body_names == (release.run, settings, number, users),
        f"release {number} is of another run, or of another number of users",
    )


def _check_people(row: RunRow, store: ServiceStore) -> str:
    """Everybody is in one batch, and each batch has the people that its release counts."""
    spec = parse_spec(row.spec)
    people_by_batch = store.participants(row.name)
    open_sum = store.open_sum(row.name)
    deadline = spec.batch.rule == "deadline"
    for release in store.releases(row.name):
        batch = release.generation - 1
        people = people_by_batch.get(batch, 0)
        # Under `deadline` a release says how many people were expected. Some may have stayed away.
        fits = batch < 0 or (people <= release.users if deadline else people == release.users)
        _require(fits, f"batch {batch} has {people} people, and its release {release.users}")
    people = people_by_batch.get(row.generation, 0)
    _require(
        open_sum.generation == row.generation and open_sum.users == people,
        f"the open sum has {open_sum.users} users, not {people}",
    )
    most = store.most_reports(row.name)
    _require(
        most <= spec.reports_per_person,
        f"somebody has reported {most} times, at most {spec.reports_per_person} are allowed",
    )
    # Under `deadline` the number of reports is private, so the check does not say it.
    reports = "" if deadline else f"{sum(people_by_batch.values())} reports, "
    return f"{reports}at most {spec.reports_per_person} per person"


def _check_budgets(store: ServiceStore) -> str:
    """Nobody has spent more than some run allows.

    People may have spent a run's budget, or more in a run without one, before another run promised
    less.
    """
    specs = [parse_spec(row.spec) for row in map(store.run, store.runs()) if row is not None]
    largest_cap = max((spec.cap for spec in specs), default=math.inf)
    _require(
        store.largest_account() <= largest_cap * (1 + ACCOUNT_SLACK),
        "somebody has spent more than any run allows a person",
    )
    if math.isfinite(largest_cap):
        return "nobody has spent more than a run allows a person"
    return "a run has no limit for a person"


def _check_state(row: RunRow, store: ServiceStore) -> str:
    learner = make_learner(parse_spec(row.spec))
    learner.restore(store.state(row.name).data, released=row.generation)
    _require(
        learner.settings == json.loads(row.manifest)["agent"]["settings"],
        "the learner has other settings than the manifest says",
    )
    return f"of generation {row.generation}, can be restored"


def _check_mark(row: RunRow, store: ServiceStore, marks: Marks) -> str:
    newest = store.release(row.name, row.generation)
    _require(newest is not None, "the newest release is missing")
    assert newest is not None
    _require(
        marks.read(row.name) is not None,
        f"there is none in {marks.folder}: give the folder of the marks as --marks",
    )
    try:
        marks.check(row.name, row.generation, newest.digest)
    except RolledBack:
        if row.status != "finished":
            raise
        return "a later release was shown, and the run is finished: it is not served any more"
    return f"no release after {row.generation} was shown"
