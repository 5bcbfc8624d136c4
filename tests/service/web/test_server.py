"""A real server on a port: bytes that are no HTTP, clients that are slow, bodies without an end."""

import contextlib
import json
import logging
import re
import select
import socket
import threading
import time

import pytest
import uvicorn
from service_bench import serving, spec

from confide.service.core.folder import ServiceFolder
from confide.service.web.gate import Limits
from confide.service.web.server import MAX_HEADER_BYTES, Listening, _metrics_server, configured

PLANTED = b"planted-secret"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    limits = Limits(header_seconds=0.4, body_seconds=0.4)
    with serving(
        ServiceFolder(tmp_path_factory.mktemp("server") / "service"),
        spec(users=6000, every=2000),
        limits=limits,
    ) as made:
        server = uvicorn.Server(configured(made.application, Listening(port=0, limits=limits)))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        found = server.servers[0].sockets[0].getsockname()[1]
        yield found, made.keys["device"].encode()
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def connected(port):
    """A server that never answers or ends the connection is an error: `header_seconds` and
    `body_seconds` are 20 by default.
    """
    with socket.create_connection(("127.0.0.1", port[0]), timeout=15) as made:
        yield made


def read(connection):
    """Up to the end of the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(2**16):
            found += part
    return found


def answered(connection):
    """One answer, of a connection that stays open."""
    found = b""
    while not (size := re.search(rb"content-length: (\d+)", found)) or len(
        found.partition(b"\r\n\r\n")[2]
    ) < int(size[1]):
        part = connection.recv(2**16)
        assert part, found
        found += part
    return found


def head(port, *more, path=b"/v1/runs/demo/reports"):
    lines = [
        b"POST " + path + b" HTTP/1.1",
        b"Host: x",
        b"Authorization: Bearer " + port[1],
        b"Idempotency-Key: " + b"n" * 16,
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def problem(answer, status):
    headers, _, body = answer.partition(b"\r\n\r\n")
    assert headers.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"application/problem+json" in headers and json.loads(body)["status"] == status
    assert PLANTED not in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01" + PLANTED + b"\r\n\r\n",
        b"GET /" + PLANTED + b"\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + PLANTED + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: \x00" + PLANTED + b"\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"
        + PLANTED,
        b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" + PLANTED,
        b"GET / HTTP/1.1\r\nHost: x\r\n"
        + b"X: "
        + PLANTED * (32 * MAX_HEADER_BYTES // 14)
        + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n"
        + b"".join(b"X%d: y\r\n" % number for number in range(32 * MAX_HEADER_BYTES // 7))
        + b"\r\n",
    ],
    ids=[
        "tls",
        "target",
        "header",
        "zero",
        "two lengths",
        "negative",
        "large header",
        "many headers",
    ],
)
def test_what_is_no_request_is_a_problem(port, sent, caplog):
    caplog.set_level(logging.DEBUG)
    with connected(port) as made:
        with contextlib.suppress(ConnectionError):
            made.sendall(sent)
        problem(read(made), 400)
    assert "planted" not in caplog.text and "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\nplanted-secret\r\n",
        b"5\r\nplanted-secret\r\n0\r\n\r\n",
        b"-5\r\n",
        b"1" * 5000 + b"\r\n",
    ],
)
def test_chunks_that_are_none(port, body, caplog):
    """The body ends in the middle: nobody is counted, and nothing is said about it in a log."""
    caplog.set_level(logging.DEBUG)
    with connected(port) as made:
        made.sendall(head(port, b"Transfer-Encoding: chunked") + body)
        answer = read(made)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert (
        "planted" not in caplog.text
        and "Traceback" not in caplog.text
        and "Fatal" not in caplog.text
    )


def test_a_body_without_an_end_is_refused_early_and_not_read_on(port):
    """At most what fits into buffers is taken; who sends on is cut off."""
    part, sent = b"%x\r\n" % 2**16 + b"x" * 2**16 + b"\r\n", 0
    with connected(port) as made, contextlib.suppress(ConnectionError):
        made.sendall(head(port, b"Transfer-Encoding: chunked"))
        while not select.select([made], [], [], 0)[0]:
            made.sendall(part)
            sent += len(part)
            assert sent < 2**25
        problem(answered(made), 413)
        for _ in range(2**24 // len(part)):  # what fits into buffers of the system, and no more
            made.sendall(part)
        pytest.fail("the service reads on after it has refused the body")


def test_the_rest_of_a_body_that_was_on_the_way_is_read_and_the_connection_goes_on(port):
    with connected(port) as made:
        made.sendall(head((port[0], b"wrong"), b"Content-Length: 50000"))
        problem(answered(made), 401)
        made.sendall(b"x" * 50_000 + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"alive" in answered(made)


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"],
    ids=["nothing", "a line", "a header"],
)
def test_headers_that_come_slowly_are_given_up(port, begun):
    with connected(port) as made:
        made.sendall(begun)
        assert read(made) == b""


def test_a_byte_now_and_then_does_not_keep_a_connection(port):
    """One byte every 50 ms, for 20 seconds if nobody ends it."""
    with connected(port) as made, contextlib.suppress(ConnectionError):
        made.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(400):
            made.sendall(b"x")
            if select.select([made], [], [], 0.05)[0] and made.recv(1) == b"":
                return
        pytest.fail("the service waits for ever")


def test_a_connection_that_has_been_answered_may_ask_again_and_not_stall(port):
    with connected(port) as made:
        for _ in range(3):
            made.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"alive" in answered(made)
        made.sendall(b"GET /hea")
        assert read(made) == b""


def test_a_body_that_comes_slowly_is_given_up(port):
    with connected(port) as made:
        made.sendall(head(port, b"Content-Length: 100") + b'{"subject": "')
        problem(answered(made), 408)


def test_other_protocols_are_not_spoken(port):
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\nSec-WebSocket-Version: 13\r\n"
    )
    with connected(port) as made:
        made.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\n")
        assert answered(made).startswith(b"HTTP/1.1 200")


def test_metrics_are_not_where_users_are(folder):
    """They count arrivals.

    Who listens for users at all addresses gives metrics at the loopback address nevertheless.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        serving(folder, spec()) as http,
        _metrics_server(http.service, {}, Listening(host="0.0.0.0", metrics_port=port)),
    ):
        with socket.create_connection(("127.0.0.1", port)):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))
