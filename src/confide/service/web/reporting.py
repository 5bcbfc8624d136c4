"""What devices send: reports, and questions for an action.

The core decides what becomes of a report. Required for privacy: a person's name is replaced by
pseudonyms here and goes no further, and an answer never depends on what a trajectory holds.
"""

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
from confide.service.core.report_queue import Answer
from confide.service.web.answers import HttpProblem, answer
from confide.service.web.bodies import ActBody, Action, Outcome, ReportBody, decode
from confide.service.web.bridge import Bridge
from confide.service.web.gate import Gate

# An Idempotency-Key has so many characters. 16 random ones do not come twice by chance. The limits
# are part of the API.
_NONCE_CHARACTERS = range(16, 129)
# A number of a report takes at most so many bytes in JSON, and a number of a message in base64. The
# limit of a body follows from them. A matter of taste: a report that is longer is refused.
_BYTES_PER_EPISODE_NUMBER = 40
_BYTES_PER_MESSAGE_NUMBER = 14
# When devices may send a refused report again, in seconds. A matter of taste.
_RETRY_SECONDS = {"unavailable": 1.0, "paused": 60.0}


class Reporting:
    """The endpoints of devices."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._service = gate.service
        self._bridge = Bridge()

    async def report(self, request: Request) -> Response:
        run = self._gate.run(request)
        nonce = request.headers.get("idempotency-key", "")
        if len(nonce) not in _NONCE_CHARACTERS or not nonce.isascii():
            raise HttpProblem(
                400, "invalid", "the header Idempotency-Key must be 16 to 128 random characters"
            )
        if not run.planned and run.episode_size == 0:
            raise HttpProblem(
                503, "unavailable", "the first round of this run is being planned", retry=1
            )
        body = decode(await self._read(request, run), ReportBody)
        report = Report(
            run=run.name,
            who=run.pseudonyms.who(body.subject),
            person=run.pseudonyms.person(body.subject),
            nonce=nonce.encode(),
            generation=body.generation,
            content=_content(body, run),
            answered=None if body.round is None else bytes.fromhex(body.round),
        )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._service.submit(report, partial(self._bridge.put, loop, future))
        try:
            async with asyncio.timeout(self._gate.limits.answer_seconds):
                return _to_response(await future)
        except TimeoutError:
            raise HttpProblem(503, "unavailable", retry=1) from None

    async def act(self, request: Request) -> Response:
        """Answer the action for somebody whose device cannot read rounds.

        This is for joint runs only, and nothing is stored.
        """
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
        generation, served_round = run.served
        try:
            policy: Any = served_round.draw_policy(run.pseudonyms.number(body.subject, generation))
            state = body.state
            if not isinstance(state, int):
                state = np.asarray(state, dtype=float)
            with np.errstate(all="ignore"):
                action = policy.act(body.step, state, np.random.default_rng())
        except (IndexError, TypeError, ValueError, OverflowError, ConfideError):
            raise HttpProblem(400, "invalid", "there is no such step or state") from None
        if not np.isfinite(action).all():
            raise HttpProblem(
                400, "invalid", "the state must be finite, and small enough for a finite action"
            )
        plain_action = action.tolist() if isinstance(action, np.ndarray) else action
        return answer(Action(plain_action, generation))

    async def _read(self, request: Request, run: LiveRun) -> bytes:
        """Return the body, if it is not larger than that of an episode of this run may be."""
        most_bytes = (
            self._gate.limits.least_body
            + _BYTES_PER_EPISODE_NUMBER * run.episode_size
            + _BYTES_PER_MESSAGE_NUMBER * run.coordinates
        )
        return await self._gate.read(request, most_bytes)


def _content(body: ReportBody, run: LiveRun) -> Any:
    """Return what the core takes of a report.

    The parts of a trajectory may be anything. What makes no sense contributes zero, and is counted.
    """
    if run.spec.trust == "joint":
        if body.trajectory is None:
            raise HttpProblem(
                400, "invalid", "trajectory must be an object with states, actions and rewards"
            )
        return body.trajectory.states, body.trajectory.actions, body.trajectory.rewards
    no_message = HttpProblem(400, "invalid", "message must be the bytes of a message in base64")
    if body.message is None:
        raise no_message
    try:
        return base64.b64decode(body.message, validate=True)
    except (binascii.Error, ValueError):
        raise no_message from None


@lru_cache(maxsize=64)
def _to_response(outcome: Answer) -> Response:
    """Return what is sent. The same response can be given any number of times."""
    if outcome.status < 300:
        return answer(Outcome(outcome.outcome, outcome.generation), outcome.status)
    retry = _RETRY_SECONDS.get(outcome.outcome)
    detail = f"the current release is {outcome.generation}" if outcome.outcome == "late" else ""
    return HttpProblem(outcome.status, outcome.outcome, detail, retry=retry).response()
