"""The HTTP side of a service, on Starlette. What is answered about a report is said by the core; here are addresses, roles and limits."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from confide.agents.catalogue import AGENTS
from confide.errors import ConfideError, InvalidParameter, StoreError
from confide.problems.catalogue import PROBLEMS
from confide.service.core.admission import Report
from confide.service.core.live import LiveRun
from confide.service.core.service import Answer, Service
from confide.service.core.spec import RunSpec, parse_spec
from confide.service.documents import ReleaseRow, digest
from confide.service.store.interface import ApiKeyRow
from confide.service.web.access import MAY, Keyring, RateLimit, new_api_key, revoke_api_key
from confide.service.web.answers import (
    IMMUTABLE,
    NO_STORE,
    PLAIN,
    Guard,
    Problem,
    json_object,
    not_modified,
    read_body,
    shown_release,
    signed,
    tagged,
)
from confide.service.web.bridge import Bridge
from confide.service.web.openapi import openapi
from confide.service.web.own_threads import OwnThreads, Stopping
from confide.service.web.pages import Pages

Handler = Callable[[Request], Awaitable[Response]]
_DIGEST = re.compile("[0-9a-f]{64}")
_NONCE = range(16, 129)  # characters of an Idempotency-Key


@dataclass(frozen=True, slots=True)
class Limits:
    """Of the HTTP side. Rates are per second, and for each API key, or for each peer without one."""

    reports: float = 5000.0
    reads: float = 1000.0
    header_seconds: float = 20.0  # of a connection that sends no request
    body_seconds: float = 20.0
    # then 503: whoever sends the same bytes again is told what became of them
    answer_seconds: float = 30.0
    least_body: int = 16_384  # bytes that every run takes


class Web:
    """The endpoints. `limits` bound what a client may cost."""

    def __init__(self, service: Service, limits: Limits | None = None) -> None:
        self.service, self.limits = service, limits or Limits()
        self.keyring = Keyring(service.store)
        self._reports = RateLimit(self.limits.reports, 2 * self.limits.reports)
        self._reads = RateLimit(self.limits.reads, 2 * self.limits.reads)
        self._bridge = Bridge()
        self.own_threads = OwnThreads()
        self.refused: dict[str, int] = {}  # by kind, before the core: for operators

    # who asks

    def _key(self, request: Request) -> ApiKeyRow | None:
        sent = request.headers.get("authorization", "")
        return self.keyring.find(sent[7:]) if sent[:7].lower() == "bearer " else None

    def allow(self, request: Request, what: str) -> ApiKeyRow:
        """The API key of a request, if its role may do `what`."""
        key = self._key(request)
        if key is None:
            raise Problem(401, "unauthorised")
        if key.role not in MAY[what]:
            raise Problem(403, "forbidden", f"needed: {' or '.join(MAY[what])}")
        if key.run is not None and key.run != request.path_params.get("run"):
            raise Problem(
                403, "forbidden", "this key is for one run, and not for what this address does"
            )
        return key

    def _limit(self, limit: RateLimit, request: Request, key: ApiKeyRow | None) -> None:
        name = key.id if key else f"peer {request.client.host if request.client else ''}"
        wait = limit.wait(name)
        if wait:
            raise Problem(429, "too-many", retry=wait)

    def limit_reads(self, request: Request) -> None:
        self._limit(self._reads, request, None)

    def _run(self, request: Request) -> LiveRun:
        name = request.path_params["run"]
        run = self.service.runs.get(name)
        if run is None and name in self.service.not_ready:
            raise Problem(503, "unavailable", "this run is not ready", retry=10)
        if run is None:
            raise Problem(404, "unknown")
        return run

    def _tagged(self, request: Request, digest: str, full: Response) -> Response:
        return not_modified(request, f'"{digest}"') or full

    # what everybody may read

    async def manifest(self, request: Request) -> Response:
        self._limit(self._reads, request, None)
        run = self._run(request)
        return self._tagged(
            request, run.manifest.digest, signed(run.manifest, run.name, 0, IMMUTABLE)
        )

    async def certificate(self, request: Request) -> Response:
        self._limit(self._reads, request, None)
        run = self._run(request)
        tag = json.loads(run.manifest.body)["certificate"]
        return tagged(request, run.certificate, tag, "application/json", IMMUTABLE)

    async def keys(self, request: Request) -> Response:
        """Of signatures: each is endorsed by one before it."""
        self._limit(self._reads, request, None)
        self._run(request)
        rows = await run_in_threadpool(self.service.store.signing_keys)
        made = [
            {
                "id": row.id,
                "public": row.public.hex(),
                "endorsed_by": row.endorsed_by,
                "endorsement": row.endorsement.hex(),
            }
            for row in rows
        ]
        return JSONResponse({"keys": made}, headers={"Cache-Control": "no-cache", **PLAIN})

    async def release(self, request: Request) -> Response:
        self._limit(self._reads, request, None)
        run = self._run(request)
        await self._newest(run)
        return self._tagged(request, run.release.digest, shown_release(run.release, "no-cache"))

    async def _newest(self, run: LiveRun) -> None:
        """Another worker may have shown a release that this one does not show yet: who has seen it must not be shown an older one."""
        if self.service.store.workers > 1:
            head = await run_in_threadpool(self.service.store.head, run.name)
            if head.generation > run.generation:
                raise Problem(503, "unavailable", "another worker has a newer release", retry=1)

    async def old_release(self, request: Request) -> Response:
        self._limit(self._reads, request, None)
        run, generation = self._run(request), request.path_params["generation"]
        current = run.release
        # what is in the database, but not shown yet, is not shown here either
        if generation > current.generation:
            await self._newest(run)
            raise Problem(404, "unknown")
        row: ReleaseRow | None = current
        if generation != current.generation:
            row = await run_in_threadpool(self.service.store.release, run.name, generation)
        if row is None:
            raise Problem(404, "unknown")
        return self._tagged(request, row.digest, shown_release(row, IMMUTABLE))

    async def round(self, request: Request) -> Response:
        self._limit(self._reads, request, None)
        run, generation = self._run(request), request.path_params["generation"]
        planned, current = run.round, run.generation
        if generation < current or (
            generation == current and run.status == "finished" and planned is None
        ):
            raise Problem(410, "late", f"the current release is {current}")
        if generation > current:
            await self._newest(run)
            raise Problem(404, "unknown")
        if planned is None:
            raise Problem(503, "unavailable", "the round is being planned", retry=1)
        return self._tagged(
            request, planned.digest, signed(planned, run.name, generation, IMMUTABLE)
        )

    async def index(self, request: Request) -> Response:
        """The runs that are served."""
        self._limit(self._reads, request, None)
        return JSONResponse(
            {"runs": sorted(self.service.runs)}, headers={"Cache-Control": "no-cache", **PLAIN}
        )

    async def api(self, request: Request) -> Response:
        """The API as an OpenAPI document."""
        self._limit(self._reads, request, None)
        body = json.dumps(openapi(), separators=(",", ":")).encode()
        return tagged(request, body, digest(body), "application/json", "no-cache")

    # what devices send

    async def report(self, request: Request) -> Response:
        key = self.allow(request, "report")
        self._limit(self._reports, request, key)
        run = self._run(request)
        nonce = request.headers.get("idempotency-key", "")
        if len(nonce) not in _NONCE or not nonce.isascii():
            raise Problem(
                400, "invalid", "the header Idempotency-Key must be 16 to 128 random characters"
            )
        if not run.planned and run.episode_size == 0:
            raise Problem(
                503, "unavailable", "the first round of this run is being planned", retry=1
            )
        given = await self._body(request, run)
        subject, generation = given.get("subject"), given.get("generation")
        if not isinstance(subject, str) or not 1 <= len(subject) <= 256:
            raise Problem(400, "invalid", "subject must be a text of 1 to 256 characters")
        if (
            not isinstance(generation, int)
            or isinstance(generation, bool)
            or not 0 <= generation < 2**53
        ):
            raise Problem(
                400,
                "invalid",
                "generation must be the number of the release that the episode was planned with",
            )
        content, answered = _content(given, run), _answered_round(given)
        names = run.pseudonyms
        made = Report(
            run.name,
            names.who(subject),
            names.person(subject),
            nonce.encode(),
            generation,
            content,
            answered,
        )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self.service.submit(made, partial(self._bridge.put, loop, future))
        try:
            async with asyncio.timeout(self.limits.answer_seconds):
                return _answered(await future)
        except TimeoutError:
            raise Problem(503, "unavailable", retry=1) from None

    async def act(self, request: Request) -> Response:
        """The action for somebody whose device cannot read rounds; joint runs only, and nothing is stored."""
        key = self.allow(request, "report")
        self._limit(self._reports, request, key)
        run = self._run(request)
        if run.spec.trust != "joint":
            raise Problem(
                400,
                "invalid",
                "under local privacy the state does not leave the device: read the round",
            )
        given = await self._body(request, run)
        subject, step, state = given.get("subject"), given.get("step"), given.get("state")
        if not isinstance(subject, str) or not isinstance(step, int) or isinstance(step, bool):
            raise Problem(400, "invalid", "subject must be a text, and step a whole number")
        if run.served is None:
            raise Problem(503, "unavailable", "the round is being planned", retry=1)
        generation, served = run.served
        try:
            policy: Any = served.drawn(run.pseudonyms.number(subject, generation))
            position = state if isinstance(state, int) else np.asarray(state, dtype=float)
            with np.errstate(all="ignore"):
                chosen = policy.act(step, position, np.random.default_rng())
        except (IndexError, TypeError, ValueError, OverflowError, ConfideError):
            raise Problem(400, "invalid", "there is no such step or state") from None
        if not np.isfinite(chosen).all():
            raise Problem(
                400, "invalid", "the state must be finite, and small enough for a finite action"
            )
        action = chosen.tolist() if isinstance(chosen, np.ndarray) else chosen
        return JSONResponse({"action": action, "generation": generation}, headers=NO_STORE)

    async def _body(self, request: Request, run: LiveRun) -> dict[str, Any]:
        return json_object(
            await self.read(
                request, self.limits.least_body + 40 * run.episode_size + 14 * run.coordinates
            )
        )

    async def read(self, request: Request, limit: int) -> bytes:
        """The body of whoever sends it in time."""
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await read_body(request, limit)
        except TimeoutError:
            raise Problem(408, "too-slow") from None

    # what operators do

    async def status(self, request: Request) -> Response:
        """For operators: under the rule deadline these numbers are PRIVATE."""
        self.allow(request, "operate")
        name = request.path_params["run"]
        cause = self.service.not_ready.get(name)
        if cause is not None and name not in self.service.runs:
            return JSONResponse({"run": name, "ready": False, "cause": cause}, headers=NO_STORE)
        run = self._run(request)
        counted = {
            kind: count for (name, kind), count in self.service.counts.items() if name == run.name
        }
        open_users, reports = await run_in_threadpool(self.service.people, run)
        facts = {"run": name, "status": run.status, "generation": run.generation, "size": run.size}
        facts |= {"users": open_users, "reports": reports}
        ready = {"ready": cause is None} | ({} if cause is None else {"cause": cause})
        return JSONResponse(
            {**facts, "answers": counted, "refused": self.refused, **ready}, headers=NO_STORE
        )

    async def change(self, status: str, request: Request) -> Response:
        """Pause, go on, or finish: also a run that is not ready."""
        actor = self.allow(request, "administer")
        name = request.path_params["run"]
        if name not in self.service.not_ready:
            self._run(request)
        await _done(self.service.set_status, name, status, actor.id)
        return JSONResponse({"run": name, "status": status}, headers=NO_STORE)

    async def enrol(self, request: Request) -> Response:
        actor, run = self.allow(request, "administer"), self._run(request)
        given = json_object(await self.read(request, 2**24))
        subjects, generation = given.get("subjects"), given.get("generation")
        fits = isinstance(subjects, list) and all(
            isinstance(each, str) and 1 <= len(each) <= 256 for each in subjects
        )
        if (
            not fits
            or not isinstance(generation, int)
            or isinstance(generation, bool)
            or not 0 <= generation < 2**31
        ):
            raise Problem(
                400,
                "invalid",
                "subjects must be a list of texts, and generation the number of a batch",
            )
        new = await _done(self.service.enrol, run.name, subjects, generation, actor.id)
        return JSONResponse({"enrolled": new}, 201, headers=NO_STORE)

    async def create(self, request: Request) -> Response:
        """A run, from the TOML of its file. Of the catalogues alone: one's own problem or agent is a file or code on this machine, and an
        API key must neither look for the one nor call the other."""
        actor = self.allow(request, "administer")
        data = await self.read(request, 2**16)
        try:
            spec = parse_spec(data.decode())
        except (UnicodeDecodeError, InvalidParameter) as error:
            raise Problem(400, "invalid", str(error)) from None
        if spec.problem not in PROBLEMS or spec.agent not in AGENTS:
            said = "over HTTP agent and problem must be of the catalogues (confide list); others are served by confide serve RUN.toml"
            raise Problem(400, "invalid", said)
        await _done(self.service.check_size, spec)
        await self._create(spec, actor.id)
        return JSONResponse({"run": spec.name}, 201, headers=NO_STORE)

    async def _create(self, spec: RunSpec, actor: str) -> None:
        """In a thread of its own: a run is made in one transaction, or not at all."""
        again = "the run is still being created: send the same request again"
        try:
            await self.own_threads.call(
                self.service.create, spec, actor, seconds=self.limits.answer_seconds
            )
        except TimeoutError:
            raise Problem(503, "unavailable", again, retry=10) from None
        except Stopping:
            raise Problem(503, "unavailable", "the service is about to stop", retry=10) from None
        except StoreError:
            raise
        except ConfideError as error:
            raise Problem(400, "invalid", str(error)) from None

    async def new_key(self, request: Request) -> Response:
        actor = self.allow(request, "administer")
        given = json_object(await self.read(request, 4096))
        scope = given.get("run"), given.get("expires")
        made = await _done(
            new_api_key,
            self.service.store,
            given.get("role"),
            given.get("label", ""),
            actor.id,
            *scope,
        )
        self.keyring.refresh()
        return JSONResponse({"key": made}, 201, headers=NO_STORE)

    async def revoke(self, request: Request) -> Response:
        actor = self.allow(request, "administer")
        await _done(revoke_api_key, self.service.store, request.path_params["key"], actor.id)
        self.keyring.refresh()
        return Response(status_code=204)

    async def rotate(self, request: Request) -> Response:
        actor = self.allow(request, "administer")
        return JSONResponse(
            {"key": await _done(self.service.rotate, actor.id)}, 201, headers=NO_STORE
        )

    async def audit(self, request: Request) -> Response:
        self.allow(request, "audit")
        rows = await run_in_threadpool(lambda: list(self.service.store.audit_rows()))
        names = ("number", "at", "actor", "action", "detail", "digest")
        return JSONResponse(
            {"rows": [{name: getattr(row, name) for name in names} for row in rows]},
            headers=NO_STORE,
        )

    async def health(self, _: Request) -> Response:
        return JSONResponse({"alive": True}, headers=NO_STORE)

    async def ready(self, _: Request) -> Response:
        """Whether reports are taken, and which runs take none. One run that is not ready does not make the service so."""
        ready = self.service.ready
        facts = {"ready": ready, "not_ready": sorted(self.service.not_ready)}
        return JSONResponse(
            facts, 200 if ready else 503, NO_STORE if ready else {**NO_STORE, "Retry-After": "1"}
        )

    def routes(self) -> list[Route]:
        run = "/v1/runs/{run}"
        public: dict[str, Handler] = {
            f"{run}/manifest": self.manifest,
            f"{run}/certificate": self.certificate,
            f"{run}/keys": self.keys,
            f"{run}/release/{{generation:int}}": self.old_release,
            f"{run}/round/{{generation:int}}": self.round,
            "/v1/runs": self.index,
            "/health": self.health,
            "/ready": self.ready,
            f"{run}/status": self.status,
            "/v1/audit": self.audit,
            "/v1/openapi.json": self.api,
        }
        sent: dict[str, Handler] = {
            f"{run}/act": self.act,
            f"{run}/pause": partial(self.change, "paused"),
            f"{run}/resume": partial(self.change, "open"),
            f"{run}/finish": partial(self.change, "finished"),
            f"{run}/enrolments": self.enrol,
            "/v1/runs": self.create,
            "/v1/keys": self.new_key,
            "/v1/signing-keys": self.rotate,
        }
        named: list[tuple[str, Handler, str]] = [
            (f"{run}/reports", self.report, "POST"),  # what is asked for most is looked for first
            (f"{run}/release", self.release, "GET"),
            *((path, handler, "POST") for path, handler in sent.items()),
            *((path, handler, "GET") for path, handler in public.items()),
            ("/v1/keys/{key}", self.revoke, "DELETE"),
        ]
        return [
            Route(path, self._guarded(handler), methods=[method]) for path, handler, method in named
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def endpoint(request: Request) -> Response:
            try:
                return await handler(request)
            except StoreError:
                return Problem(503, "unavailable", retry=1).response()
            except Problem as problem:
                self.refused[problem.kind] = self.refused.get(problem.kind, 0) + 1
                return problem.response()

        return endpoint


def app(
    service: Service, limits: Limits | None = None, *, origins: tuple[str, ...] = ()
) -> Starlette:
    """The ASGI application of a service: the API and the pages. `origins`: of browsers that may call it."""
    web = Web(service, limits)
    shown = [
        "Confide-Run",
        "Confide-Generation",
        "Confide-Digest",
        "Confide-Previous",
        "Confide-Signature",
        "Confide-Key",
        "ETag",
        "Retry-After",
    ]
    middleware = [Middleware(Guard)]
    if origins:
        allowed: dict[str, Any] = {
            "allow_methods": ["GET", "POST"],
            "allow_headers": ["Authorization", "Content-Type", "Idempotency-Key"],
        }
        middleware.append(
            Middleware(CORSMiddleware, allow_origins=list(origins), expose_headers=shown, **allowed)
        )
    handlers: Mapping[Any, Any] = {404: _unknown, 405: _wrong_method}
    made = Starlette(
        routes=[*web.routes(), *Pages(web).routes()],
        middleware=middleware,
        exception_handlers=handlers,
    )
    made.state.web = web
    return made


async def _unknown(_: Request, __: Exception) -> Response:
    return Problem(404, "unknown").response()


async def _wrong_method(_: Request, __: Exception) -> Response:
    return Problem(405, "invalid", "this address takes another method").response()


async def _done(call: Callable[..., Any], *given: Any) -> Any:
    """In a thread of its own; what confide refuses is a 400 with its text, which is about public parameters."""
    try:
        return await run_in_threadpool(call, *given)
    except StoreError:
        raise
    except ConfideError as error:
        raise Problem(400, "invalid", str(error)) from None


def _content(given: dict[str, Any], run: LiveRun) -> Any:
    """What the core takes. The parts of a trajectory may be anything: what makes no sense contributes zero."""
    if run.spec.trust == "joint":
        trajectory = given.get("trajectory")
        if not isinstance(trajectory, dict):
            raise Problem(
                400, "invalid", "trajectory must be an object with states, actions and rewards"
            )
        return tuple(trajectory.get(name) for name in ("states", "actions", "rewards"))
    message = given.get("message")
    try:
        return base64.b64decode(message if isinstance(message, str) else "!", validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "invalid", "message must be the bytes of a message in base64") from None


def _answered_round(given: dict[str, Any]) -> bytes | None:
    """The digest of the round that a report names. A message of a local run has it inside."""
    named = given.get("round")
    if named is None:
        return None
    if not isinstance(named, str) or not _DIGEST.fullmatch(named):
        raise Problem(
            400, "invalid", "round must be the digest that the round names, 64 hexadecimal digits"
        )
    return bytes.fromhex(named)


@lru_cache(maxsize=64)
def _answered(answer: Answer) -> Response:
    """Made once: an answer can be given any number of times."""
    if answer.status < 300:
        body = f'{{"outcome":"{answer.outcome}","generation":{answer.generation}}}'
        return Response(body, answer.status, NO_STORE, media_type="application/json")
    retry = {"unavailable": 1.0, "paused": 60.0}.get(answer.outcome)
    detail = f"the current release is {answer.generation}" if answer.outcome == "late" else ""
    return Problem(answer.status, answer.outcome, detail, retry=retry).response()
