"""How a run is made: its record in the store, with a signed manifest and a signed first release.

What leaves this file is durable and public: the manifest, the certificate and the first release,
which is about nobody. A manifest is never changed afterwards, because people have decided by it.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from confide.errors import InvalidParameter, StateError
from confide.learning.learner import Learner
from confide.service.core.live import Signed, cost_of, make_learner, signed_release
from confide.service.core.manifest import certificate_of, manifest_of
from confide.service.core.spec import ServiceRunSpec, parse_spec, write_spec
from confide.service.documents import ReleaseRow, SigningKey, Statement, digest
from confide.service.store.interface import RunRow, ServiceStore
from confide.service.store.marks import Marks


@dataclass(frozen=True, slots=True)
class _NewRun:
    """A run that is not in the store yet: what `signed_release` needs of it."""

    name: str
    manifest: Signed


def store_new_run(
    store: ServiceStore,
    marks: Marks,
    spec: ServiceRunSpec,
    *,
    key: SigningKey,
    cap: float,
    now: float,
    actor: str,
) -> None:
    """Make a run durable that is not in the store.

    `cap` is what the other runs promise a person at most, in mu^2. `now` is in seconds since 1970.
    """
    if spec.batch.rule == "deadline" and spec.batch.start is None:
        spec = replace(spec, batch=replace(spec.batch, start=float(int(now))))
    if marks.read(spec.name) is not None:
        raise StateError(
            f"run {spec.name} was served before, from another database: "
            "its users must not be asked again. Choose another name"
        )
    learner = make_learner(spec)
    check_new(spec, learner, cap, now)
    row, first_release = new_records(spec, learner, key, now)
    created = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    with store.transaction() as tx:
        tx.create_run(row, first_release, learner.save())
        tx.audit(created, actor, "create", spec.name)


def check_same(spec: ServiceRunSpec, row: RunRow) -> None:
    """Refuse settings that are not those of the run in the store.

    If the settings in the store are damaged, nobody can tell. Such a run is not ready.
    """
    try:
        existing = parse_spec(row.spec)
    except (InvalidParameter, TypeError):
        return
    if spec.batch.rule == "deadline" and spec.batch.start is None:
        spec = replace(spec, batch=replace(spec.batch, start=existing.batch.start))
    if existing != spec:
        raise InvalidParameter(
            f"run {spec.name} exists with other settings: a manifest is never changed. "
            "Choose another name, or give the settings with which the run was made"
        )


def check_new(spec: ServiceRunSpec, learner: Learner, cap: float, now: float) -> None:
    """Refuse a run that could not keep its promise, before it is one.

    `cap` is what the other runs promise a person at most, in mu^2.
    """
    if not np.isfinite(learner.guarantee.epsilon):
        raise InvalidParameter("a service needs a guarantee: epsilon must be finite")
    if spec.batch.deadline(0) <= now:
        raise InvalidParameter(
            "the first batch would be closed already: start plus every must lie in the future"
        )
    # The slack is the one of an account, which adds up floating-point numbers.
    if cost_of(learner)(1) > min(spec.cap, cap) * (1 + 1e-9):
        raise InvalidParameter(
            "nobody could report: one report costs more than a person may lose over all runs of "
            "this service. Choose a smaller epsilon, or a larger person_epsilon if no other run "
            "of the service has a smaller one"
        )


def new_records(
    spec: ServiceRunSpec, learner: Learner, key: SigningKey, now: float
) -> tuple[RunRow, ReleaseRow]:
    """Return the record of a run, and its first release, which is about nobody."""
    certificate = _json_bytes(certificate_of(spec, learner).document)
    manifest = manifest_of(spec, learner, certificate, key, now)
    manifest_digest = digest(manifest)
    statement = Statement("manifest", spec.name, "", 0, manifest_digest)
    signature = key.sign(statement.to_bytes())
    row = RunRow(
        name=spec.name,
        spec=write_spec(spec),
        manifest=manifest,
        signature=signature,
        key=key.id,
        certificate=certificate,
        status="open",
        generation=0,
    )
    new_run = _NewRun(spec.name, Signed(manifest, manifest_digest, signature, key.id))
    body = learner.publish(spec.name)
    release = signed_release(
        new_run, body, users=0, generation=0, previous=manifest_digest, key=key
    )
    return row, release


def _json_bytes(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
