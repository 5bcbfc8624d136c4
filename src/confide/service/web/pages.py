"""The pages of a service: public ones, from manifests and releases, and those of operators behind a login. They need no script."""

import secrets
import threading
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from confide.errors import ConfideError, StoreError
from confide.service.core.live import LiveRun
from confide.service.store.interface import ApiKeyRow
from confide.service.web.access import MAY, RateLimit
from confide.service.web.answers import IMMUTABLE, PLAIN, TITLES, HttpProblem, tagged
from confide.service.web.gate import Gate, Handler
from confide.service.web.operator_view import operator_view
from confide.service.web.public_page import (
    page_tag,
    public_index,
    public_page,
    render,
    static_files,
)
from confide.service.web.sessions import LASTS, Sessions

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    **PLAIN,
}
_HTML = "text/html; charset=utf-8"
_MEDIA = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_SESSION, _FORM = "confide_session", "confide_form"
_ACTIONS = {"pause": "paused", "resume": "open"}


class Pages:
    """Public pages are made once for each release, and kept in memory."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self._service = gate, gate.service
        self._sessions = Sessions(gate.service.keys.session_key())
        self._wrong = RateLimit(0.5, 10)
        self._kept: dict[str, tuple[str, bytes]] = {}  # by name of the run: tag and page
        self._index = "", b""
        self._one = threading.Lock()  # planning for a page takes a processor: one at a time

    # for everybody

    async def index(self, request: Request) -> Response:
        self._gate.limit_reads(request)
        runs = [(run.manifest.body, run.release) for _, run in sorted(self._service.runs.items())]
        tag = page_tag(*(newest.digest for _, newest in runs))
        if self._index[0] != tag:
            self._index = tag, public_index(runs).encode()
        return tagged(request, self._index[1], tag, _HTML, "no-cache", HEADERS)

    async def run(self, request: Request) -> Response:
        self._gate.limit_reads(request)
        run = self._service.runs.get(request.path_params["run"])
        if run is None:
            raise HttpProblem(404, "unknown")
        tag = page_tag(run.release.digest)
        known = self._kept.get(run.name)
        if known is None or known[0] != tag:
            known = await run_in_threadpool(self._made, run)
        return tagged(request, known[1], known[0], _HTML, "no-cache", HEADERS)

    def _made(self, run: LiveRun) -> tuple[str, bytes]:
        with self._one:
            # what is in the database, but not shown yet, is not shown here either
            newest = run.release
            tag = page_tag(newest.digest)
            known = self._kept.get(run.name)
            if known is not None and known[0] == tag:
                return known
            rows = [
                row
                for row in self._service.store.releases(run.name)
                if row.generation <= newest.generation
            ]
            self._kept[run.name] = made = tag, public_page(run.manifest.body, rows).encode()
            return made

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static_files():
            raise HttpProblem(404, "unknown")
        data, digest = static_files()[name]
        return tagged(request, data, digest, _MEDIA[name.rsplit(".", 1)[-1]], IMMUTABLE)

    # for operators

    def _key(self, request: Request) -> ApiKeyRow | None:
        owner = self._sessions.owner(request.cookies.get(_SESSION, ""))
        key = None if owner is None else self._gate.keyring.named(owner)
        return key if key is not None and _may_see(key) else None

    async def operator(self, request: Request) -> Response:
        self._gate.limit_reads(request)
        key = self._key(request)
        if key is None:
            return self._login_page(request)
        facts = await run_in_threadpool(
            operator_view, self._service, self._gate.refused, datetime.now(UTC)
        )
        token = self._sessions.token(request.cookies[_SESSION])
        may = {"operates": key.role in MAY["operate"], "administers": key.role in MAY["administer"]}
        return _page("operator.html", key=key, token=token, **may, **facts)

    def _login_page(self, request: Request, refused: str = "", status: int = 200) -> Response:
        form = request.cookies.get(_FORM) or secrets.token_urlsafe(18)
        simulated = any(run.spec.noise == "fast" for run in self._service.runs.values())
        page = _page(
            "login.html",
            status,
            token=self._sessions.token(form),
            refused=refused,
            simulated=simulated,
        )
        _cookie(request, page, _FORM, form)
        return page

    async def login(self, request: Request) -> Response:
        sent = await self._form(request)
        if not self._sessions.fits(request.cookies.get(_FORM, ""), sent.get("token", "")):
            return self._login_page(request, "The form was too old. Send it again.", 403)
        key = self._gate.keyring.find(sent.get("key", "").strip())
        if key is None or not _may_see(key):
            wait = self._wrong.wait(request.client.host if request.client else "")
            if wait:  # somebody who fills this up does not keep out whoever has a key
                raise HttpProblem(429, "too-many", retry=wait)
            return self._login_page(
                request,
                "This is not the key of an operator, an admin or an auditor of all runs.",
                403,
            )
        answer = _to_operator()
        _cookie(request, answer, _SESSION, self._sessions.open(key.id))
        return answer

    async def _checked(self, request: Request) -> ApiKeyRow:
        """Of a form on the operators' page: the key of its session, if the form is from this page."""
        key, sent = self._key(request), await self._form(request)
        if key is None:
            raise HttpProblem(401, "unauthorised")
        if not self._sessions.fits(request.cookies.get(_SESSION, ""), sent.get("token", "")):
            raise HttpProblem(403, "forbidden")
        return key

    async def _form(self, request: Request) -> dict[str, str]:
        data = await self._gate.read(request, 4096)
        try:
            return dict(parse_qsl(data.decode("ascii"), max_num_fields=10))
        except ValueError:
            raise HttpProblem(400, "invalid") from None

    async def logout(self, request: Request) -> Response:
        await self._checked(request)
        self._sessions.close(request.cookies[_SESSION])
        answer = _to_operator()
        answer.delete_cookie(_SESSION, path="/operator", httponly=True, samesite="strict")
        return answer

    async def act(self, request: Request) -> Response:
        """Pause a run, or go on: for admins."""
        key = await self._checked(request)
        name, status = request.path_params["run"], _ACTIONS.get(request.path_params["action"])
        if key.role not in MAY["administer"]:
            raise HttpProblem(403, "forbidden")
        if status is None or name not in self._service.runs:
            raise HttpProblem(404, "unknown")
        try:
            await run_in_threadpool(self._service.set_status, name, status, key.id)
        except ConfideError as error:
            raise HttpProblem(400, "invalid", str(error)) from None
        return _to_operator()

    def routes(self) -> list[Route]:
        addresses: list[tuple[str, Handler, str]] = [
            ("/", self.index, "GET"),
            ("/runs/{run}", self.run, "GET"),
            ("/static/{name}", self.static, "GET"),
            ("/operator", self.operator, "GET"),
            ("/operator/login", self.login, "POST"),
            ("/operator/logout", self.logout, "POST"),
            ("/operator/runs/{run}/{action}", self.act, "POST"),
        ]
        return [
            Route(path, self._guarded(handler), methods=[method])
            for path, handler, method in addresses
        ]

    def _guarded(self, handler: Handler) -> Handler:
        async def endpoint(request: Request) -> Response:
            try:
                return await handler(request)
            except StoreError:
                problem = HttpProblem(503, "unavailable", retry=1)
            except HttpProblem as refused:
                problem = refused
            self._gate.refused[problem.kind] = self._gate.refused.get(problem.kind, 0) + 1
            return _page(
                "error.html", problem.status, status_code=problem.status, title=TITLES[problem.kind]
            )

        return endpoint


def _may_see(key: ApiKeyRow) -> bool:
    """The operators' page is about all runs, so a key of one run does not open it."""
    return key.run is None and key.role in (*MAY["operate"], *MAY["audit"])


def _page(template: str, status: int = 200, **shown: Any) -> Response:
    return Response(
        render(template, **shown), status, {**HEADERS, "Cache-Control": "no-store"}, _HTML
    )


def _to_operator() -> Response:
    return RedirectResponse("/operator", 303, {**HEADERS, "Cache-Control": "no-store"})


def _cookie(request: Request, answer: Response, name: str, value: str) -> None:
    """Not readable by scripts, not sent by other sites, and only over TLS where there is TLS."""
    secure = request.url.scheme == "https"
    answer.set_cookie(
        name,
        value,
        max_age=LASTS,
        path="/operator",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
