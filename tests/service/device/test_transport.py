"""Services that are away, or whose answers never end."""

import contextlib
import http.server
import threading
import time

import pytest
from service_bench import device, serving, spec

from confide.service.device.transport import ServiceRefused, over_http


def test_a_service_that_is_away_has_not_answered(folder):
    def away(*_):
        raise ConnectionRefusedError

    with (
        serving(folder, spec(every=2)) as http,
        pytest.raises(ServiceRefused, match="cannot be reached: ConnectionRefusedError"),
    ):
        device(http, "ann", send=away).join()


def test_an_answer_that_never_ends_is_given_up():
    """A server sends one byte after the other, each of them within the timeout of a single read."""

    class Drip(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.05)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(TimeoutError, match="took too long"):
            over_http(timeout=0.3)("GET", f"http://127.0.0.1:{server.server_port}/", {}, None)
    finally:
        server.shutdown()
        server.server_close()
