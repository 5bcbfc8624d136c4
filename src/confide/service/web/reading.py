"""What everybody may read of a service: documents of runs, and whether reports are taken."""

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
    shown_release,
    signed,
    tagged,
)
from confide.service.web.bodies import Alive, Ready, Runs, SigningKeyFacts, SigningKeys
from confide.service.web.gate import Gate
from confide.service.web.openapi import openapi

_NO_CACHE = {"Cache-Control": "no-cache", **PLAIN}


class Reading:
    """Answers are functions of manifests and releases. What is in the database, but not shown yet, is not shown here either."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self._service = gate, gate.service

    async def manifest(self, request: Request) -> Response:
        run = self._gate.run(request)
        return _tagged(request, run.manifest.digest, signed(run.manifest, run.name, 0, IMMUTABLE))

    async def certificate(self, request: Request) -> Response:
        run = self._gate.run(request)
        tag = json.loads(run.manifest.body)["certificate"]
        return tagged(request, run.certificate, tag, "application/json", IMMUTABLE)

    async def keys(self, request: Request) -> Response:
        """Of signatures: each is endorsed by one before it."""
        self._gate.run(request)
        rows = await run_in_threadpool(self._service.store.signing_keys)
        keys = [
            SigningKeyFacts(row.id, row.public.hex(), row.endorsed_by, row.endorsement.hex())
            for row in rows
        ]
        return answer(SigningKeys(keys), headers=_NO_CACHE)

    async def release(self, request: Request) -> Response:
        run = self._gate.run(request)
        await self._newest(run)
        return _tagged(request, run.release.digest, shown_release(run.release, "no-cache"))

    async def _newest(self, run: LiveRun) -> None:
        """Another worker may have shown a release that this one does not show yet: who has seen it must not be shown an older one."""
        if self._service.store.workers > 1:
            head = await run_in_threadpool(self._service.store.head, run.name)
            if head.generation > run.generation:
                raise HttpProblem(503, "unavailable", "another worker has a newer release", retry=1)

    async def old_release(self, request: Request) -> Response:
        run, generation = self._gate.run(request), request.path_params["generation"]
        current = run.release
        # what is in the database, but not shown yet, is not shown here either
        if generation > current.generation:
            await self._newest(run)
            raise HttpProblem(404, "unknown")
        row: ReleaseRow | None = current
        if generation != current.generation:
            row = await run_in_threadpool(self._service.store.release, run.name, generation)
        if row is None:
            raise HttpProblem(404, "unknown")
        return _tagged(request, row.digest, shown_release(row, IMMUTABLE))

    async def round(self, request: Request) -> Response:
        run, generation = self._gate.run(request), request.path_params["generation"]
        planned, current = run.round, run.generation
        if generation < current or (
            generation == current and run.status == "finished" and planned is None
        ):
            raise HttpProblem(410, "late", f"the current release is {current}")
        if generation > current:
            await self._newest(run)
            raise HttpProblem(404, "unknown")
        if planned is None:
            raise HttpProblem(503, "unavailable", "the round is being planned", retry=1)
        return _tagged(request, planned.digest, signed(planned, run.name, generation, IMMUTABLE))

    async def index(self, _: Request) -> Response:
        """The runs that are served."""
        return answer(Runs(sorted(self._service.runs)), headers=_NO_CACHE)

    async def api(self, request: Request) -> Response:
        """The API as an OpenAPI document."""
        body = msgspec.json.encode(openapi())
        return tagged(request, body, digest(body), "application/json", "no-cache")

    async def health(self, _: Request) -> Response:
        return answer(Alive(True))

    async def ready(self, _: Request) -> Response:
        """Whether reports are taken, and which runs take none. One run that is not ready does not make the service so."""
        ready = self._service.ready
        facts = Ready(ready, sorted(self._service.not_ready))
        if ready:
            return answer(facts)
        return answer(facts, 503, {**NO_STORE, "Retry-After": "1"})


def _tagged(request: Request, digest: str, full: Response) -> Response:
    return not_modified(request, f'"{digest}"') or full
