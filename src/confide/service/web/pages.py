"""The pages of a service. They need no script.

Public pages are made from manifests and releases alone (`public_page.py`). The page of operators is
behind a login. Required for security: the headers below, cookies that no script reads and no other
site sends, and a token in each form that changes something.
"""

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
from confide.service.web.sessions import SESSION_SECONDS, Sessions

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
# The names of the cookies.
_SESSION = "confide_session"
_FORM = "confide_form"
# A form has at most so many bytes and fields. A matter of taste.
_MAX_FORM_BYTES = 4096
_MAX_FORM_FIELDS = 10
# Somebody may send so many wrong keys in a row, and then one every two seconds. A key cannot be
# guessed in any case, so this is a matter of taste.
_WRONG_KEYS_PER_SECOND = 0.5
_WRONG_KEYS_AT_ONCE = 10
# What a button does: the new status of the run.
_ACTIONS = {"pause": "paused", "resume": "open"}


class Pages:
    """The endpoints of pages. Public pages are made once for each release, and kept in memory."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._service = gate.service
        self._sessions = Sessions(gate.service.keys.session_key())
        self._wrong_keys = RateLimit(_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE)
        # The pages of runs, by name, and of all runs: tag and page.
        self._run_pages: dict[str, tuple[str, bytes]] = {}
        self._index_page: tuple[str, bytes] = ("", b"")
        # Planning for a page takes a processor, so it is done for one page at a time.
        self._planning = threading.Lock()

    # for everybody

    async def index(self, request: Request) -> Response:
        self._gate.limit_reads(request)
        runs = [(run.manifest.body, run.release) for _, run in sorted(self._service.runs.items())]
        tag = page_tag(*(newest.digest for _, newest in runs))
        if self._index_page[0] != tag:
            self._index_page = (tag, public_index(runs).encode())
        return tagged(request, self._index_page[1], tag, _HTML, "no-cache", HEADERS)

    async def run(self, request: Request) -> Response:
        self._gate.limit_reads(request)
        run = self._service.runs.get(request.path_params["run"])
        if run is None:
            raise HttpProblem(404, "unknown")
        page = self._run_pages.get(run.name)
        if page is None or page[0] != page_tag(run.release.digest):
            page = await run_in_threadpool(self._make_run_page, run)
        tag, body = page
        return tagged(request, body, tag, _HTML, "no-cache", HEADERS)

    def _make_run_page(self, run: LiveRun) -> tuple[str, bytes]:
        """Return the tag and the page of a run, which another thread may have made meanwhile."""
        with self._planning:
            newest = run.release
            tag = page_tag(newest.digest)
            page = self._run_pages.get(run.name)
            if page is not None and page[0] == tag:
                return page
            # A release that is in the database, but not shown yet, is not shown here either.
            rows = [
                row
                for row in self._service.store.releases(run.name)
                if row.generation <= newest.generation
            ]
            page = (tag, public_page(run.manifest.body, rows).encode())
            self._run_pages[run.name] = page
            return page

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static_files():
            raise HttpProblem(404, "unknown")
        data, digest = static_files()[name]
        return tagged(request, data, digest, _MEDIA[name.rsplit(".", 1)[-1]], IMMUTABLE)

    # for operators

    def _key(self, request: Request) -> ApiKeyRow | None:
        """Return the API key of the browser's session, if it may see the page of operators."""
        owner = self._sessions.owner(request.cookies.get(_SESSION, ""))
        if owner is None:
            return None
        key = self._gate.keyring.find_by_id(owner)
        return key if key is not None and _may_see(key) else None

    async def operator(self, request: Request) -> Response:
        self._gate.limit_reads(request)
        key = self._key(request)
        if key is None:
            return self._login_page(request)
        facts = await run_in_threadpool(
            operator_view, self._service, self._gate.refused, datetime.now(UTC)
        )
        return _page(
            "operator.html",
            key=key,
            token=self._sessions.token(request.cookies[_SESSION]),
            operates=key.role in MAY["operate"],
            administers=key.role in MAY["administer"],
            **facts,
        )

    def _login_page(self, request: Request, refused: str = "", status: int = 200) -> Response:
        """Return the form of the login. `refused` says why the last attempt failed."""
        form_cookie = request.cookies.get(_FORM) or secrets.token_urlsafe(18)
        page = _page(
            "login.html",
            status,
            token=self._sessions.token(form_cookie),
            refused=refused,
            simulated=any(run.spec.noise == "fast" for run in self._service.runs.values()),
        )
        _set_cookie(request, page, _FORM, form_cookie)
        return page

    async def login(self, request: Request) -> Response:
        fields = await self._read_form(request)
        if not self._sessions.fits(request.cookies.get(_FORM, ""), fields.get("token", "")):
            return self._login_page(request, "The form was too old. Send it again.", 403)
        key = self._gate.keyring.find(fields.get("key", "").strip())
        if key is None or not _may_see(key):
            # Only wrong keys are counted: whoever has a key cannot be kept out.
            seconds = self._wrong_keys.take(request.client.host if request.client else "")
            if seconds:
                raise HttpProblem(429, "too-many", retry=seconds)
            return self._login_page(
                request,
                "This is not the key of an operator, an admin or an auditor of all runs.",
                403,
            )
        answer = _redirect_to_operator()
        _set_cookie(request, answer, _SESSION, self._sessions.open(key.id))
        return answer

    async def _check_form(self, request: Request) -> ApiKeyRow:
        """Return the API key of a form's session, if the form is from the page of operators."""
        key = self._key(request)
        fields = await self._read_form(request)
        if key is None:
            raise HttpProblem(401, "unauthorised")
        if not self._sessions.fits(request.cookies.get(_SESSION, ""), fields.get("token", "")):
            raise HttpProblem(403, "forbidden")
        return key

    async def _read_form(self, request: Request) -> dict[str, str]:
        data = await self._gate.read(request, _MAX_FORM_BYTES)
        try:
            return dict(parse_qsl(data.decode("ascii"), max_num_fields=_MAX_FORM_FIELDS))
        except ValueError:
            raise HttpProblem(400, "invalid") from None

    async def logout(self, request: Request) -> Response:
        await self._check_form(request)
        self._sessions.close(request.cookies[_SESSION])
        answer = _redirect_to_operator()
        answer.delete_cookie(_SESSION, path="/operator", httponly=True, samesite="strict")
        return answer

    async def act(self, request: Request) -> Response:
        """Pause a run, or go on with it. This is for admins."""
        key = await self._check_form(request)
        name = request.path_params["run"]
        status = _ACTIONS.get(request.path_params["action"])
        if key.role not in MAY["administer"]:
            raise HttpProblem(403, "forbidden")
        if status is None or name not in self._service.runs:
            raise HttpProblem(404, "unknown")
        try:
            await run_in_threadpool(self._service.set_status, name, status, key.id)
        except ConfideError as error:
            raise HttpProblem(400, "invalid", str(error)) from None
        return _redirect_to_operator()

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
            Route(path, self._guard(handler), methods=[method])
            for path, handler, method in addresses
        ]

    def _guard(self, handler: Handler) -> Handler:
        """Return an endpoint that shows every problem as a page."""

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


def _page(template: str, status: int = 200, **values: Any) -> Response:
    """Return a page that is not public, so nobody may keep a copy of it."""
    headers = {**HEADERS, "Cache-Control": "no-store"}
    return Response(render(template, **values), status, headers, _HTML)


def _redirect_to_operator() -> Response:
    return RedirectResponse("/operator", 303, {**HEADERS, "Cache-Control": "no-store"})


def _set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
    """Set a cookie that no script reads and no other site sends.

    Where there is TLS, it is sent over TLS only.
    """
    secure = request.url.scheme == "https"
    answer.set_cookie(
        name,
        value,
        max_age=SESSION_SECONDS,
        path="/operator",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
