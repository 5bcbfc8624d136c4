"""What people with roles do: numbers, runs, enrolments, keys and the audit."""

from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from confide.agents.catalogue import AGENTS
from confide.errors import ConfideError, InvalidParameter, StoreError
from confide.problems.catalogue import PROBLEMS
from confide.service.core.spec import ServiceRunSpec, parse_spec
from confide.service.web.access import new_api_key, revoke_api_key
from confide.service.web.answers import HttpProblem, answer
from confide.service.web.bodies import (
    AuditRows,
    ChangedRun,
    EnrolBody,
    Enrolled,
    NewKey,
    NewKeyBody,
    NewRun,
    RunStatus,
    decode,
)
from confide.service.web.gate import Gate
from confide.service.web.own_threads import Stopping

# Bodies have at most so many bytes. A matter of taste.
_MAX_ENROLMENT_BYTES = 2**24
_MAX_SPEC_BYTES = 2**16
_MAX_KEY_BYTES = 4096


class Operating:
    """The endpoints of operators, admins and auditors.

    `request.state.actor` is the id of the API key that was used.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._service = gate.service

    async def status(self, request: Request) -> Response:
        """Answer numbers for operators. Under the rule deadline they are PRIVATE."""
        name = request.path_params["run"]
        cause = self._service.not_ready.get(name)
        if cause is not None and name not in self._service.runs:
            return answer(RunStatus(name, ready=False, cause=cause))
        run = self._gate.run(request)
        users, reports = await run_in_threadpool(self._service.people, run)
        answers = {
            outcome: count
            for (run_name, outcome), count in self._service.counts.items()
            if run_name == name
        }
        status = RunStatus(
            name,
            ready=cause is None,
            cause=cause,
            status=run.status,
            generation=run.generation,
            size=run.size,
            users=users,
            reports=reports,
            answers=answers,
            refused=self._gate.refused,
        )
        return answer(status)

    async def change(self, status: str, request: Request) -> Response:
        """Pause a run, go on with it, or finish it, also if it is not ready."""
        name = request.path_params["run"]
        if name not in self._service.not_ready:
            self._gate.run(request)
        await _call(self._service.set_status, name, status, request.state.actor)
        return answer(ChangedRun(name, status))

    async def enrol(self, request: Request) -> Response:
        run = self._gate.run(request)
        body = decode(await self._gate.read(request, _MAX_ENROLMENT_BYTES), EnrolBody)
        new_people = await _call(
            self._service.enrol, run.name, body.subjects, body.generation, request.state.actor
        )
        return answer(Enrolled(new_people), 201)

    async def create(self, request: Request) -> Response:
        """Make a run from the TOML of its file.

        Agent and problem must be of the catalogues. One's own problem or agent is a file or code on
        this machine, and an API key must neither look for the one nor call the other.
        """
        data = await self._gate.read(request, _MAX_SPEC_BYTES)
        try:
            spec = parse_spec(data.decode())
        except (UnicodeDecodeError, InvalidParameter) as error:
            raise HttpProblem(400, "invalid", str(error)) from None
        if spec.problem not in PROBLEMS or spec.agent not in AGENTS:
            raise HttpProblem(
                400,
                "invalid",
                "over HTTP agent and problem must be of the catalogues (confide list); "
                "others are served by confide serve RUN.toml",
            )
        await _call(self._service.check_size, spec)
        await self._create(spec, request.state.actor)
        return answer(NewRun(spec.name), 201)

    async def _create(self, spec: ServiceRunSpec, actor: str) -> None:
        """Make a run in a thread of its own. It is made in one transaction, or not at all."""
        still_creating = "the run is still being created: send the same request again"
        try:
            await self._gate.own_threads.call(
                self._service.create, spec, actor, seconds=self._gate.limits.answer_seconds
            )
        except TimeoutError:
            raise HttpProblem(503, "unavailable", still_creating, retry=10) from None
        except Stopping:
            raise HttpProblem(
                503, "unavailable", "the service is about to stop", retry=10
            ) from None
        except StoreError:
            raise
        except ConfideError as error:
            raise HttpProblem(400, "invalid", str(error)) from None

    async def new_key(self, request: Request) -> Response:
        body = decode(await self._gate.read(request, _MAX_KEY_BYTES), NewKeyBody)
        key = await _call(
            new_api_key,
            self._service.store,
            body.role,
            body.label,
            request.state.actor,
            body.run,
            body.expires,
        )
        self._gate.keyring.refresh()
        return answer(NewKey(key), 201)

    async def revoke(self, request: Request) -> Response:
        await _call(
            revoke_api_key, self._service.store, request.path_params["key"], request.state.actor
        )
        self._gate.keyring.refresh()
        return Response(status_code=204)

    async def rotate(self, request: Request) -> Response:
        key_id = await _call(self._service.rotate, request.state.actor)
        return answer(NewKey(key_id), 201)

    async def audit(self, _: Request) -> Response:
        rows = await run_in_threadpool(lambda: list(self._service.store.audit_rows()))
        return answer(AuditRows(rows))


async def _call(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function in another thread.

    What confide refuses is answered 400 with the text of the error, which is about public
    parameters. An error of the store is answered 503 by the gate.
    """
    try:
        return await run_in_threadpool(function, *given)
    except StoreError:
        raise
    except ConfideError as error:
        raise HttpProblem(400, "invalid", str(error)) from None
