"""What everybody may see of a run: a function of its manifest and its releases alone.

This module, and all that it imports, knows neither the store nor the service; tests/test_architecture.py holds it to that. Pages are made
from what it returns, so that nothing else about people can be on them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confide.mechanisms.state import unpack
from confide.service.documents import ReleaseRow


@dataclass(frozen=True, slots=True)
class ShownRelease:
    """A line of the release history."""

    generation: int
    users: int  # in all releases up to this one
    noise: float  # the standard deviation on each number
    distribution: str
    digest: str
    previous: str
    signature: str
    key: str


@dataclass(frozen=True, slots=True)
class PublicView:
    manifest: dict[str, Any]
    promise: str  # in one plain sentence
    against: str  # who is kept out
    simulation: bool
    users: int  # so far
    users_at_most: int
    releases_at_most: int
    waits_for: str
    releases: tuple[ShownRelease, ...]  # the newest one first


def public_view(manifest: bytes, releases: Iterable[ReleaseRow]) -> PublicView:
    """Of the signed manifest and the signed releases, in the order of their generations."""
    told = json.loads(manifest)
    shown = tuple(map(_shown, releases))[::-1]
    users = shown[0].users if shown else 0
    return PublicView(
        manifest=told,
        promise=_promise(told),
        against=_against(told),
        simulation=bool(told["simulation"]),
        users=users,
        users_at_most=told["users"],
        releases_at_most=told["releases"],
        waits_for=_waits_for(told, shown[0].generation if shown else 0, users),
        releases=shown,
    )


def _shown(row: ReleaseRow) -> ShownRelease:
    facts = unpack(row.body, "release", released=0).facts
    return ShownRelease(
        row.generation,
        int(facts["users"]),
        float(facts["std"]),
        str(facts["distribution"]),
        row.digest,
        row.previous,
        row.signature.hex(),
        row.key,
    )


def _promise(manifest: dict[str, Any]) -> str:
    promise = manifest["promise"]
    who = (
        "nobody, not even this service,"
        if promise["trust"] == "local"
        else "all other users together"
    )
    verb = "learns" if promise["trust"] == "local" else "learn"
    loss = f"epsilon = {promise['epsilon']:g}" + (
        f", delta = {promise['delta']:g}" if promise["delta"] else ""
    )
    what = (
        "Whatever you do here"
        if manifest["reports_per_person"] == 1
        else "Whatever you do in one report"
    )
    return f"{what}, {who} {verb} almost nothing about it ({loss})."


def _against(manifest: dict[str, Any]) -> str:
    if manifest["promise"]["trust"] == "local":
        return "Noise is added on your device. The service sees a noisy message, and that you took part."
    return f"The operator of this service sees what you send. {manifest['batch']['protects']}"


def _waits_for(manifest: dict[str, Any], generation: int, users: int) -> str:
    if generation >= manifest["releases"] or users >= manifest["users"]:
        return "nothing: all releases were made"
    if manifest["batch"]["rule"] == "deadline":
        return f"the deadline of batch {generation}"
    return f"the users of batch {generation}"
