"""What a new run is made of: its record in the store, with a signed manifest and a signed first release."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confide.errors import InvalidParameter
from confide.learning.learner import Learner
from confide.service.core.live import Signed, cost_of, signed_release
from confide.service.core.manifest import certificate_of, manifest_of
from confide.service.core.spec import ServiceRunSpec, parse_spec, write_spec
from confide.service.documents import ReleaseRow, SigningKey, Statement, digest
from confide.service.store.interface import RunRow


@dataclass(frozen=True, slots=True)
class _Named:
    """A run that is not in the store yet."""

    name: str
    manifest: Signed


def check_same(spec: ServiceRunSpec, row: RunRow) -> None:
    """`spec` is that of the run in the store. Of a run that cannot be read, nobody can tell; it is not ready."""
    try:
        existing = parse_spec(row.spec)
    except (InvalidParameter, TypeError):
        return
    if spec.batch.rule == "deadline" and spec.batch.start is None:
        spec = replace(spec, batch=replace(spec.batch, start=existing.batch.start))
    if existing != spec:
        raise InvalidParameter(
            f"run {spec.name} exists with other settings: a manifest is never changed; choose another name"
        )


def check_new(spec: ServiceRunSpec, learner: Learner, cap: float, now: float) -> None:
    """A run that could not keep what it says is refused before it is one. `cap` is what the other runs promise a person, in mu^2."""
    if not np.isfinite(learner.guarantee.epsilon):
        raise InvalidParameter("a service needs a promise: epsilon must be finite")
    if spec.batch.deadline(0) <= now:
        raise InvalidParameter(
            "the first batch would be closed already: start plus every must lie in the future"
        )
    if cost_of(learner)(1) > min(spec.cap, cap) * (1 + 1e-9):
        raise InvalidParameter(
            "nobody could report: one report costs more than a person may lose over all runs of this service. Choose a smaller "
            "epsilon, or a larger person_epsilon if no other run of the service has a smaller one"
        )


def new_records(
    spec: ServiceRunSpec, learner: Learner, key: SigningKey, now: float
) -> tuple[RunRow, ReleaseRow]:
    """The record of a run, and its first release, which is about nobody."""
    certificate = _json_bytes(certificate_of(spec, learner).document)
    manifest = manifest_of(spec, learner, certificate, key, now)
    signature = key.sign(Statement("manifest", spec.name, "", 0, digest(manifest)).to_bytes())
    row = RunRow(spec.name, write_spec(spec), manifest, signature, key.id, certificate, "open", 0)
    named = _Named(spec.name, Signed(manifest, digest(manifest), signature, key.id))
    return row, signed_release(named, learner.publish(spec.name), 0, 0, digest(manifest), key)


def _json_bytes(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
