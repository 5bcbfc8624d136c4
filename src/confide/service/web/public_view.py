"""What everybody may see of a run: a function of its manifest and its releases alone.

Required for privacy: this module, and all that it imports, knows neither the store nor the service.
tests/test_architecture.py checks its imports. Pages are made from what it returns, so nothing else
about people can be on them. Its sentences may be changed, as long as they stay true.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confide.mechanisms.state import unpack
from confide.service.documents import ReleaseRow


@dataclass(frozen=True, slots=True)
class ShownRelease:
    """A line of the release history.

    `users` is how many users this release and all before it have. `noise` is the standard deviation
    of the noise on each number.
    """

    generation: int
    users: int
    noise: float
    distribution: str
    digest: str
    previous: str
    signature: str
    key: str


@dataclass(frozen=True, slots=True)
class PublicView:
    """What a page shows of a run.

    `promise` is the guarantee in one plain sentence, and `against` says who is kept out. `users` is
    how many users the releases so far have. The newest of the `releases` comes first.
    """

    manifest: dict[str, Any]
    promise: str
    against: str
    simulation: bool
    users: int
    users_at_most: int
    releases_at_most: int
    waits_for: str
    releases: tuple[ShownRelease, ...]


def public_view(manifest: bytes, releases: Iterable[ReleaseRow]) -> PublicView:
    """Return what is shown of a run.

    It is a function of the signed manifest and of the signed releases, in the order of their
    generations.
    """
    document = json.loads(manifest)
    shown_releases = tuple(map(_shown_release, releases))[::-1]
    users = shown_releases[0].users if shown_releases else 0
    generation = shown_releases[0].generation if shown_releases else 0
    return PublicView(
        manifest=document,
        promise=_promise(document),
        against=_against(document),
        simulation=bool(document["simulation"]),
        users=users,
        users_at_most=document["users"],
        releases_at_most=document["releases"],
        waits_for=_waits_for(document, generation, users),
        releases=shown_releases,
    )


def _shown_release(row: ReleaseRow) -> ShownRelease:
    facts = unpack(row.body, "release", released=0).facts
    return ShownRelease(
        generation=row.generation,
        users=int(facts["users"]),
        noise=float(facts["std"]),
        distribution=str(facts["distribution"]),
        digest=row.digest,
        previous=row.previous,
        signature=row.signature.hex(),
        key=row.key,
    )


def _promise(manifest: dict[str, Any]) -> str:
    promise = manifest["promise"]
    if promise["trust"] == "local":
        who_learns = "nobody, not even this service, learns"
    else:
        who_learns = "all other users together learn"
    loss = f"epsilon = {promise['epsilon']:g}"
    if promise["delta"]:
        loss += f", delta = {promise['delta']:g}"
    what = "Whatever you do here"
    if manifest["reports_per_person"] > 1:
        what = "Whatever you do in one report"
    return f"{what}, {who_learns} almost nothing about it ({loss})."


def _against(manifest: dict[str, Any]) -> str:
    if manifest["promise"]["trust"] == "local":
        return (
            "Noise is added on your device. "
            "The service sees a noisy message, and that you took part."
        )
    return f"The operator of this service sees what you send. {manifest['batch']['protects']}"


def _waits_for(manifest: dict[str, Any], generation: int, users: int) -> str:
    if generation >= manifest["releases"] or users >= manifest["users"]:
        return "nothing: all releases were made"
    if manifest["batch"]["rule"] == "deadline":
        return f"the deadline of batch {generation}"
    return f"the users of batch {generation}"
