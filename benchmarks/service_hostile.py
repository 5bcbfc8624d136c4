"""What hostile clients cost a service.

python benchmarks/service_hostile.py --write

Their bodies have a gigabyte, or their connections never send a request.
"""

import argparse
import contextlib
import json
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from record import record

PORT = 18740
PART = b"10000\r\n" + b"x" * 2**16 + b"\r\n"
GIGABYTE = 2**30
RUN = (
    'name = "demo"\nagent = "likelihood-vi"\nproblem = "lock"\nepsilon = 1.0\ndelta = 1e-5\n'
    'users = 100000\nnoise = "fast"\n'
)
INTRODUCTION = (
    "`confide serve` in a process of its own, on loopback, with its usual limits; "
    "other work was going on on the same cores. Taken: what "
    "the client could send before it was answered and cut off, "
    "the buffers of the system included. Memory: the largest resident set of the "
    "server so far. Meanwhile: the slowest of 20 reads of the newest release by somebody else."
)


def memory(pid):
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def gigabyte(key, announced, results):
    """Send a body of 1 GB, and append the first line of the answer to the results.

    Also append how many bytes were taken before the connection ended.
    """
    sent = 0
    first_line = b""
    length = b"Content-Length: %d" % GIGABYTE if announced else b"Transfer-Encoding: chunked"
    lines = [
        b"POST /v1/runs/demo/reports HTTP/1.1",
        b"Host: x",
        b"Authorization: Bearer " + key,
        b"Idempotency-Key: " + b"n" * 16,
        length,
    ]
    with (
        socket.create_connection(("127.0.0.1", PORT), timeout=60) as connection,
        contextlib.suppress(OSError),
    ):
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
        while sent < GIGABYTE:
            if select.select([connection], [], [], 0)[0]:
                part = connection.recv(2**16)
                if not part:
                    break
                first_line = first_line or part.split(b"\r\n")[0]
            connection.sendall(PART)
            sent += len(PART)
    results.append((first_line.decode(), sent))


def reads():
    slowest = 0.0
    for _ in range(20):
        begun = time.monotonic()
        urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/runs/demo/release", timeout=60).read()
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.02)
    return slowest


def bodies(key, announced, count):
    results = []
    threads = [
        threading.Thread(target=gigabyte, args=(key, announced, results)) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    slowest = reads()
    for thread in threads:
        thread.join()
    answers = sorted({first_line for first_line, _ in results})
    return (
        f"{', '.join(answers)}; at most {max(sent for _, sent in results) / 2**20:,.1f} MB taken",
        slowest,
    )


def silent(count):
    """Connections with half a header: how long the last one lives."""
    begun = time.monotonic()
    connections = [socket.create_connection(("127.0.0.1", PORT), timeout=60) for _ in range(count)]
    for each in connections:
        each.sendall(b"GET / HTTP/1.1\r\nHost: ")
    slowest = reads()
    for each in connections:
        with contextlib.suppress(ConnectionError):
            assert each.recv(1) == b""
        each.close()
    return f"all closed after {time.monotonic() - begun:.0f} s", slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "run.toml").write_text(RUN)
        command = [sys.executable, "-m", "confide", "serve", "run.toml", "--port", str(PORT)]
        server = subprocess.Popen(
            command,
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=(Path(place) / "log").open("w"),
            text=True,
        )
        try:
            while "serving at" not in server.stdout.readline():
                assert server.poll() is None
            log = Path(place) / "log"
            key = (
                Path(place, re.search(r"API key for device: in the file (.+)", log.read_text())[1])
                .read_bytes()
                .strip()
            )
            rows = [("nobody", "", reads(), memory(server.pid))]
            for name, work in (
                ("a body of 1 GB, announced", lambda: bodies(key, True, 1)),
                ("a body of 1 GB, in chunks", lambda: bodies(key, False, 1)),
                ("16 bodies of 1 GB at once, in chunks", lambda: bodies(key, False, 16)),
                ("500 connections with half a header", lambda: silent(500)),
            ):
                rows.append((name, *work(), memory(server.pid)))
            ready = json.load(urllib.request.urlopen(f"http://127.0.0.1:{PORT}/ready", timeout=60))[
                "ready"
            ]
            logged = [line for line in log.read_text().splitlines() if "API key" not in line]
        finally:
            server.terminate()
            server.wait()
    table = "| | what happened | meanwhile, ms | memory, MB |\n|---|---|---|---|\n"
    table += "\n".join(
        f"| {name} | {first_line} | {1000 * slowest:.0f} | {size:.0f} |"
        for name, first_line, slowest, size in rows
    )
    table += f"\n\nReady afterwards: {ready}. Lines in the log: {len(logged)}.\n"
    record("Hostile clients of a service", f"{INTRODUCTION}\n\n{table}", write=options.write)


if __name__ == "__main__":
    main()
