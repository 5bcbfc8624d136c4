"""What everybody may read of a service: documents of runs, and whether reports are taken.

Required for privacy: answers are functions of manifests and releases, and a release that is in the
database but not shown yet is not shown here either.
"""

import json

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from confide.service.core.live import LiveRun
from confide.service.documents import ReleaseRow, digest
from confide.service.web.answers import (
    IMMUTABLE,
    NO_STORE,
    PLAIN,
    HttpProblem,
    answer,
    not_modified,
    release_answer,
    signed_json,
    tagged,
)
from confide.service.web.bodies import Alive, Ready, Runs, SigningKeyFacts, SigningKeys
from confide.service.web.gate import Gate
from confide.service.web.openapi import openapi

_NO_CACHE = {"Cache-Control": "no-cache", **PLAIN}


class Reading:
    """The endpoints for everybody."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._service = gate.service

    async def manifest(self, request: Request) -> Response:
        run = self._gate.run(request)
        full = signed_json(run.manifest, run.name, 0, IMMUTABLE)
        return _unless_known(request, run.manifest.digest, full)

    async def certificate(self, request: Request) -> Response:
        run = self._gate.run(request)
        tag = json.loads(run.manifest.body)["certificate"]
        return tagged(request, run.certificate, tag, "application/json", IMMUTABLE)

    async def keys(self, request: Request) -> Response:
        """Answer the public signing keys. Each is endorsed by one before it."""
        self._gate.run(request)
        rows = await run_in_threadpool(self._service.store.signing_keys)
        keys = [
            SigningKeyFacts(row.id, row.public.hex(), row.endorsed_by, row.endorsement.hex())
            for row in rows
        ]
        return answer(SigningKeys(keys), headers=_NO_CACHE)

    async def release(self, request: Request) -> Response:
        run = self._gate.run(request)
        await self._check_newest(run)
        full = release_answer(run.release, "no-cache")
        return _unless_known(request, run.release.digest, full)

    async def _check_newest(self, run: LiveRun) -> None:
        """Refuse to answer if another worker may have shown a release that this one does not show.

        Whoever has seen it must not be shown an older one.
        """
        if self._service.store.workers > 1:
            head = await run_in_threadpool(self._service.store.head, run.name)
            if head.generation > run.generation:
                raise HttpProblem(503, "unavailable", "another worker has a newer release", retry=1)

    async def old_release(self, request: Request) -> Response:
        run = self._gate.run(request)
        generation = request.path_params["generation"]
        current = run.release
        # A release that is in the database, but not shown yet, is not shown here either.
        if generation > current.generation:
            await self._check_newest(run)
            raise HttpProblem(404, "unknown")
        row: ReleaseRow | None = current
        if generation != current.generation:
            row = await run_in_threadpool(self._service.store.release, run.name, generation)
        if row is None:
            raise HttpProblem(404, "unknown")
        return _unless_known(request, row.digest, release_answer(row, IMMUTABLE))

    async def round(self, request: Request) -> Response:
        run = self._gate.run(request)
        generation = request.path_params["generation"]
        # The round is read before the generation, because the writer may follow a release between.
        planned = run.round
        current = run.generation
        has_no_round = generation == current and run.status == "finished" and planned is None
        if generation < current or has_no_round:
            raise HttpProblem(410, "late", f"the current release is {current}")
        if generation > current:
            await self._check_newest(run)
            raise HttpProblem(404, "unknown")
        if planned is None:
            raise HttpProblem(503, "unavailable", "the round is being planned", retry=1)
        full = signed_json(planned, run.name, generation, IMMUTABLE)
        return _unless_known(request, planned.digest, full)

    async def index(self, _: Request) -> Response:
        """Answer the names of the runs that are served."""
        return answer(Runs(sorted(self._service.runs)), headers=_NO_CACHE)

    async def api(self, request: Request) -> Response:
        """Answer the API as an OpenAPI document."""
        body = msgspec.json.encode(openapi())
        return tagged(request, body, digest(body), "application/json", "no-cache")

    async def health(self, _: Request) -> Response:
        return answer(Alive(True))

    async def ready(self, _: Request) -> Response:
        """Answer whether reports are taken, and which runs take none.

        One run that is not ready does not make the service so.
        """
        ready = self._service.ready
        facts = Ready(ready, sorted(self._service.not_ready))
        if ready:
            return answer(facts)
        return answer(facts, 503, {**NO_STORE, "Retry-After": "1"})


def _unless_known(request: Request, digest: str, full: Response) -> Response:
    """Return the full answer, or 304 if the client has the document with this digest already."""
    return not_modified(request, f'"{digest}"') or full
