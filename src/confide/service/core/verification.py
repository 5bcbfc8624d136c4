"""Check a whole database: signatures, chains, the arithmetic of certificates, and that everybody was counted once."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confide.audit.verify import Verification, verify
from confide.errors import ConfideError, StateError
from confide.mechanisms.state import unpack
from confide.privacy.certificate import Certificate, check_schema
from confide.service.core.live import made_learner
from confide.service.core.spec import parse_spec
from confide.service.documents import Statement, check_chain, check_signature, digest
from confide.service.store.audit_chain import check_rows
from confide.service.store.interface import RunRow, ServiceStore
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks, RolledBack
from confide.service.store.signing_keys import current_key


@dataclass(frozen=True, slots=True)
class Found:
    """One check: what holds, or what does not."""

    about: str
    holds: bool
    says: str


def verify_store(store: ServiceStore, keys: KeyFolder, marks: Marks) -> Iterator[Found]:
    """All checks of all runs. Nothing that is said names a person."""
    yield _checked("keys", lambda: _key_files(store, keys))
    yield _checked(
        "audit", lambda: f"{check_rows(store.audit_rows())} rows, each follows the one before"
    )
    yield _checked("budgets", lambda: _budgets(store))
    for name in store.runs():
        row = store.run(name)
        assert row is not None
        for about, check in (
            ("manifest", lambda row=row: _manifest(row, store)),
            ("certificate", lambda row=row: _certificate(row)),
            ("releases", lambda row=row: _releases(row, store)),
            ("people", lambda row=row: _people(row, store)),
            ("state", lambda row=row: _state(row, store)),
            ("mark", lambda row=row: _mark(row, store, marks)),
        ):
            yield _checked(f"{name}: {about}", check)


def _checked(about, check) -> Found:  # type: ignore[no-untyped-def]
    try:
        return Found(about, True, check())
    except ConfideError as error:
        return Found(about, False, str(error))
    # somebody has changed what the service wrote: its text may be anything
    except Exception as error:
        return Found(about, False, f"damaged ({type(error).__name__})")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StateError(otherwise)


def _key_files(store: ServiceStore, keys: KeyFolder) -> str:
    """Without these files the service cannot sign, recognise people, or open what it sealed."""
    keys.check(current_key(store, keys).id)
    return f"for signatures, pseudonyms and the vault are in {keys.folder}"


def _keys(store: ServiceStore) -> dict[str, bytes]:
    known = [
        {
            "public": key.public.hex(),
            "endorsed_by": key.endorsed_by,
            "endorsement": key.endorsement.hex(),
        }
        for key in store.signing_keys()
    ]
    first = bytes.fromhex(known[0]["public"])
    return check_chain(known, first)


def _manifest(row: RunRow, store: ServiceStore) -> str:
    keys = _keys(store)
    _must(row.key in keys, "the manifest is signed by a key that is none of the service's")
    check_signature(
        keys[row.key],
        row.signature,
        Statement("manifest", row.name, "", 0, digest(row.manifest)).to_bytes(),
    )
    return f"signed by {row.key}"


def _certificate(row: RunRow) -> str:
    manifest, document = json.loads(row.manifest), json.loads(row.certificate)
    _must(
        digest(row.certificate) == manifest["certificate"],
        "the certificate is not the one that the manifest names",
    )
    check_schema(document)
    found = verify(Certificate(document))
    promised = manifest["promise"]
    check_kept(found, document["guarantee"], manifest)
    return f"epsilon = {found.epsilon:.6g}, promised {promised['epsilon']:g} at delta = {promised['delta']:g}"


def check_kept(found: Verification, stated: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """The guarantee of a verified certificate is the one that the manifest promises to people."""
    promised = manifest["promise"]
    _must(
        found.epsilon <= promised["epsilon"] * (1 + 1e-9),
        f"the noise gives epsilon={found.epsilon:g}, more than was promised",
    )
    _must(
        found.delta <= promised["delta"] * (1 + 1e-9),
        f"the certificate has delta={found.delta:g}, more than was promised",
    )
    for name in ("trust", "relation"):
        _must(
            stated[name] == promised[name],
            f"the certificate has the {name} {stated[name]}, and {promised[name]} was promised",
        )
    _must(
        manifest["simulation"] or stated["source"] == "secure",
        f"the certificate is of {stated['source']} noise, and the manifest does not say that the run is a simulation",
    )


def _releases(row: RunRow, store: ServiceStore) -> str:
    keys, manifest = _keys(store), digest(row.manifest)
    settings, previous, users, count = json.loads(row.manifest)["agent"]["settings"], manifest, 0, 0
    for release in store.releases(row.name):
        _must(release.generation == count, f"release {count} is missing")
        _must(release.previous == previous, f"release {count} does not follow the one before it")
        statement = release.statement(manifest)
        _must(
            statement.digest == release.digest, f"release {count} has another digest than it says"
        )
        _must(
            release.key in keys, f"release {count} is signed by a key that is none of the service's"
        )
        check_signature(keys[release.key], release.signature, statement.to_bytes())
        state, users = unpack(release.body, "release", released=0), users + release.users
        named = (
            state.facts["run"],
            state.facts["settings"],
            state.generation,
            state.facts["users"],
        )
        _must(
            named == (row.name, settings, count, users),
            f"release {count} is of another run, or of another number of users",
        )
        previous, count = release.digest, count + 1
    _must(
        count == row.generation + 1,
        f"there are {count} releases, and the run is at generation {row.generation}",
    )
    return f"{count}, signed and chained; {users} users"


def _people(row: RunRow, store: ServiceStore) -> str:
    """Everybody is in one batch, and each batch has the people that its release counts."""
    spec, counted, opened = (
        parse_spec(row.spec),
        store.participants(row.name),
        store.open_sum(row.name),
    )
    deadline = spec.batch.rule == "deadline"
    for release in store.releases(row.name):
        batch = release.generation - 1
        found = counted.get(batch, 0)
        fits = batch < 0 or (found <= release.users if deadline else found == release.users)
        _must(fits, f"batch {batch} has {found} people, and its release {release.users}")
    found = counted.get(row.generation, 0)
    _must(
        opened.generation == row.generation and opened.users == found,
        f"the open sum has {opened.users} users, not {found}",
    )
    most = store.most_reports(row.name)
    _must(
        most <= spec.reports_per_person,
        f"somebody has reported {most} times, at most {spec.reports_per_person} are allowed",
    )
    said = "" if deadline else f"{sum(counted.values())} reports, "
    return f"{said}at most {spec.reports_per_person} per person"


def _budgets(store: ServiceStore) -> str:
    """People may have spent a run's budget, or more in a run without one, before another run promised less."""
    specs = [parse_spec(row.spec) for row in map(store.run, store.runs()) if row is not None]
    most = max((spec.cap for spec in specs), default=math.inf)
    _must(
        store.largest_account() <= most * (1 + 1e-6),
        "somebody has spent more than any run allows a person",
    )
    return (
        "nobody has spent more than a run allows a person"
        if math.isfinite(most)
        else "a run has no limit for a person"
    )


def _state(row: RunRow, store: ServiceStore) -> str:
    learner = made_learner(parse_spec(row.spec))
    learner.restore(store.state(row.name).data, released=row.generation)
    _must(
        learner.settings == json.loads(row.manifest)["agent"]["settings"],
        "the learner has other settings than the manifest says",
    )
    return f"of generation {row.generation}, can be restored"


def _mark(row: RunRow, store: ServiceStore, marks: Marks) -> str:
    last = store.release(row.name, row.generation)
    _must(last is not None, "the newest release is missing")
    assert last is not None
    _must(
        marks.read(row.name) is not None,
        f"there is none in {marks.folder}: give the folder of the marks as --marks",
    )
    try:
        marks.check(row.name, row.generation, last.digest)
    except RolledBack:
        if row.status != "finished":
            raise
        return "a later release was shown, and the run is finished: it is not served any more"
    return f"no release after {row.generation} was shown"
