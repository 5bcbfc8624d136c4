"""A service on a port, until it is told to stop.

All queued reports are answered before it ends. Required for privacy: neither addresses nor times of
requests are logged, and metrics are never on the port where users are.
"""

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confide.service.core.service import Service
from confide.service.documents import missing_packages
from confide.service.web.gate import Gate, Limits
from confide.service.web.http import app
from confide.service.web.metrics import serve_metrics

# All headers of a request have at most so many bytes. A matter of taste.
MAX_HEADER_BYTES = 2**15


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a service listens, and who may call it from a browser.

    Whoever can read the metrics counts arrivals, so their host and port must not be where users
    are.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def serve(service: Service, at: Listening, started: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT. `started` is called once the port is open."""
    try:
        import uvicorn
    except ImportError:
        raise missing_packages() from None
    application = app(service, at.limits, origins=at.origins)
    server = uvicorn.Server(configured(application, at))
    # uvicorn's own handling of signals would end the process before the writer has answered.
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
    with _metrics_server(service, application.state.gate.refused, at):
        service.start()
        gc.collect()
        # What was imported stays, so the collector need not look through it again and again.
        gc.freeze()
        try:
            asyncio.run(_until_stopped(server, application.state.gate, started))
        finally:
            service.stop()


def configured(application: Any, at: Listening) -> Any:
    """Return the settings of uvicorn.

    It writes neither addresses nor times of requests, and gives up on whoever sends no request. The
    other numbers are a matter of taste.
    """
    import uvicorn

    from confide.service.web.protocol import ImpatientProtocol

    protocol = partial(ImpatientProtocol, header_seconds=at.limits.header_seconds)
    return uvicorn.Config(
        application,
        host=at.host,
        port=at.port,
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=20,
        timeout_keep_alive=30,
        limit_concurrency=5000,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


async def _until_stopped(server: Any, gate: Gate, started: Callable[[], None]) -> None:
    def stop() -> None:
        server.should_exit = True
        gate.own_threads.stop_waiting()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    serving = asyncio.create_task(server.serve())
    while not (server.started or serving.done()):
        await asyncio.sleep(0.01)
    if not serving.done():
        threading.Thread(target=started, daemon=True).start()
    await serving


@contextlib.contextmanager
def _metrics_server(service: Service, refused: dict[str, int], at: Listening) -> Iterator[None]:
    if at.metrics_port is None:
        yield
        return
    server = serve_metrics(service, refused, at.metrics_port, at.metrics_host)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
