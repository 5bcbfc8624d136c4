"""What devices send: reports, and questions for an action."""

import asyncio
import base64
import binascii
from functools import lru_cache, partial
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from confide.errors import ConfideError
from confide.service.core.admission import Report
from confide.service.core.live import LiveRun
from confide.service.core.service import Answer
from confide.service.web.answers import HttpProblem, answer
from confide.service.web.bodies import ActBody, Action, Outcome, ReportBody, decode
from confide.service.web.bridge import Bridge
from confide.service.web.gate import Gate

_NONCE = range(16, 129)  # characters of an Idempotency-Key


class Reporting:
    """What becomes of a report is decided by the core."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self._service = gate, gate.service
        self._bridge = Bridge()

    async def report(self, request: Request) -> Response:
        run = self._gate.run(request)
        nonce = request.headers.get("idempotency-key", "")
        if len(nonce) not in _NONCE or not nonce.isascii():
            raise HttpProblem(
                400, "invalid", "the header Idempotency-Key must be 16 to 128 random characters"
            )
        if not run.planned and run.episode_size == 0:
            raise HttpProblem(
                503, "unavailable", "the first round of this run is being planned", retry=1
            )
        body = decode(await self._read(request, run), ReportBody)
        content = _content(body, run)
        names = run.pseudonyms
        made = Report(
            run.name,
            names.who(body.subject),
            names.person(body.subject),
            nonce.encode(),
            body.generation,
            content,
            None if body.round is None else bytes.fromhex(body.round),
        )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._service.submit(made, partial(self._bridge.put, loop, future))
        try:
            async with asyncio.timeout(self._gate.limits.answer_seconds):
                return _answered(await future)
        except TimeoutError:
            raise HttpProblem(503, "unavailable", retry=1) from None

    async def act(self, request: Request) -> Response:
        """The action for somebody whose device cannot read rounds; joint runs only, and nothing is stored."""
        run = self._gate.run(request)
        if run.spec.trust != "joint":
            raise HttpProblem(
                400,
                "invalid",
                "under local privacy the state does not leave the device: read the round",
            )
        body = decode(await self._read(request, run), ActBody)
        if run.served is None:
            raise HttpProblem(503, "unavailable", "the round is being planned", retry=1)
        generation, served = run.served
        try:
            policy: Any = served.draw_policy(run.pseudonyms.number(body.subject, generation))
            position = (
                body.state if isinstance(body.state, int) else np.asarray(body.state, dtype=float)
            )
            with np.errstate(all="ignore"):
                chosen = policy.act(body.step, position, np.random.default_rng())
        except (IndexError, TypeError, ValueError, OverflowError, ConfideError):
            raise HttpProblem(400, "invalid", "there is no such step or state") from None
        if not np.isfinite(chosen).all():
            raise HttpProblem(
                400, "invalid", "the state must be finite, and small enough for a finite action"
            )
        action = chosen.tolist() if isinstance(chosen, np.ndarray) else chosen
        return answer(Action(action, generation))

    async def _read(self, request: Request, run: LiveRun) -> bytes:
        """The body, if it is not larger than that of an episode of this run may be."""
        size = self._gate.limits.least_body + 40 * run.episode_size + 14 * run.coordinates
        return await self._gate.read(request, size)


def _content(body: ReportBody, run: LiveRun) -> Any:
    """What the core takes. The parts of a trajectory may be anything: what makes no sense contributes zero."""
    if run.spec.trust == "joint":
        if body.trajectory is None:
            raise HttpProblem(
                400, "invalid", "trajectory must be an object with states, actions and rewards"
            )
        return body.trajectory.states, body.trajectory.actions, body.trajectory.rewards
    try:
        return base64.b64decode(body.message if body.message is not None else "!", validate=True)
    except (binascii.Error, ValueError):
        raise HttpProblem(
            400, "invalid", "message must be the bytes of a message in base64"
        ) from None


@lru_cache(maxsize=64)
def _answered(made: Answer) -> Response:
    """Made once: an answer can be given any number of times."""
    if made.status < 300:
        return answer(Outcome(made.outcome, made.generation), made.status)
    retry = {"unavailable": 1.0, "paused": 60.0}.get(made.outcome)
    detail = f"the current release is {made.generation}" if made.outcome == "late" else ""
    return HttpProblem(made.status, made.outcome, detail, retry=retry).response()
