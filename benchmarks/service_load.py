"""How many durable reports per second the service counts.

python benchmarks/service_load.py --write
# memory and database over so many reports, joint
python benchmarks/service_load.py --reports 1000000 --write

A bare Starlette app and a bare SQLite loop are measured in the same run.
"""

import argparse
import json
import os
import secrets
import selectors
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import record

PORT = 18730
CONNECTIONS = 64
INTRODUCTION = (
    "Reports are durable (SQLite, WAL, synchronous=FULL) before they are answered: "
    "`likelihood-vi` on `lock`, 64 connections on loopback, "
    "one process. Bare Starlette parses the same body and answers. "
    "The servers wait side by side and are asked in turn, in rounds of a few "
    "seconds: the table has medians over rounds."
)
MEMORY = (
    "One service on SQLite takes durable reports of a joint run (`likelihood-vi` on `lock`) into "
    "one open batch, over 64 connections. "
    "For speed see [load](service_load.md)."
)
EPISODE = {
    "states": [0, 3, 5, 2, 9, 1],
    "actions": [0, 1, 2, 3, 0],
    "rewards": [0.0, 0.25, 0.0, 1.0, 0.0],
}


def bare(port):
    """Parses the same body, and answers."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    body = bytes(453)

    async def report(request):
        given = json.loads(await request.body())
        return JSONResponse({"outcome": "counted", "generation": given["generation"]}, 201)

    async def release(_):
        return Response(body, media_type="application/octet-stream", headers={"ETag": '"x"'})

    routes = [
        Route("/v1/runs/load/reports", report, methods=["POST"]),
        Route("/v1/runs/load/release", release),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, access_log=False, log_level="warning")


def service(port, trust, folder):
    from confide.service.core.folder import ServiceFolder
    from confide.service.core.spec import Batching, ServiceRunSpec
    from confide.service.web.gate import Limits
    from confide.service.web.server import Listening, serve
    from confide.service.web.setup import open_service

    spec = ServiceRunSpec(
        name="load",
        agent="likelihood-vi",
        problem="lock",
        epsilon=1.0 if trust == "joint" else 4.0,
        delta=1e-5,
        users=10_000_000,
        trust=trust,
        noise="fast",
        batch=Batching(schedule=5_000_000),
    )
    opened = open_service(ServiceFolder(Path(folder) / "service"), [spec])
    Path(folder, "key").write_text(opened.key_files["device"].read_text().strip())
    if trust == "local":
        client = opened.service.runs["load"].learner.client()
        problem = spec.make_problem()
        message = client.report(
            problem.sample(
                client.plan(opened.service.runs["load"].learner.released()),
                1,
                np.random.default_rng(0),
            )
        )
        Path(folder, "message").write_bytes(message)
    serve(opened.service, Listening(port=port, limits=Limits(reports=1e9, reads=1e9)))


def sqlite_loop(seconds):
    """Group commit of rows and a sum, without anything around it: groups of 64."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        db = sqlite3.connect(Path(folder) / "x", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("CREATE TABLE p (who BLOB PRIMARY KEY, nonce BLOB) WITHOUT ROWID")
        db.execute("CREATE TABLE s (id INTEGER PRIMARY KEY, total BLOB)")
        db.execute("INSERT INTO s VALUES (0, zeroblob(200))")
        start = time.monotonic()
        rows = 0
        used = time.process_time()
        while time.monotonic() - start < seconds:
            db.execute("BEGIN IMMEDIATE")
            for _ in range(64):
                who = secrets.token_bytes(32)
                db.execute("SELECT nonce FROM p WHERE who = ?", (who,)).fetchall()
                db.execute("INSERT INTO p VALUES (?, ?)", (who, who[:16]))
            db.execute("UPDATE s SET total = ?", (secrets.token_bytes(200),))
            db.execute("COMMIT")
            rows += 64
        took = time.monotonic() - start
        db.close()
        return rows / took, 1e6 * (time.process_time() - used) / rows


def load(port, pid, make, seconds):
    """Send requests over many connections, one at a time on each.

    Return the rate, the server's CPU time per request in microseconds, and latencies in
    milliseconds.
    """
    chosen = selectors.DefaultSelector()
    waiting = {}
    for _ in range(CONNECTIONS):
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setblocking(False)
        chosen.register(one, selectors.EVENT_READ)
        waiting[one] = [b"", 0.0]
    cpu = _cpu(pid)
    start = time.monotonic()
    done = 0
    took = []
    codes = {}
    for one in waiting:
        one.send(make())
        waiting[one][1] = time.monotonic()
    while (now := time.monotonic()) - start < seconds:
        for key, _ in chosen.select(1.0):
            one = key.fileobj
            state = waiting[one]
            state[0] += one.recv(65536)
            head, _, rest = state[0].partition(b"\r\n\r\n")
            length = next(
                (
                    int(line[15:])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ),
                None,
            )
            if length is None or len(rest) < length:
                continue
            now = time.monotonic()
            code = head[9:12].decode()
            codes[code] = codes.get(code, 0) + 1
            took.append(now - state[1])
            done += 1
            state[0], state[1] = b"", now
            one.send(make())
    elapsed = time.monotonic() - start
    used = _cpu(pid) - cpu
    for one in waiting:
        one.close()
    assert set(codes) <= {"200", "201"}, codes
    low, high = 1000 * np.quantile(took, [0.5, 0.99])
    return done / elapsed, 1e6 * used / done, low, high


def _cpu(pid):
    parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def start_server(port, *arguments):
    process = subprocess.Popen([sys.executable, __file__, "--serve", *map(str, arguments)])
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


def post(body, key=""):
    head = "POST /v1/runs/load/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    data = json.dumps(body).encode()
    lines = (
        f"Authorization: Bearer {key}\r\nIdempotency-Key: {secrets.token_urlsafe(16)}\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return (head + lines).encode() + data


GET = b"GET /v1/runs/load/release HTTP/1.1\r\nHost: x\r\n\r\n"


def measure(seconds, rounds):
    """Each figure of each round.

    The servers wait side by side and are asked in turn: the speed of the machine changes over
    minutes.
    """
    import base64

    rows = {}
    with tempfile.TemporaryDirectory(dir=".") as place:
        folders = {trust: Path(place) / trust for trust in ("joint", "local")}
        servers = {"bare Starlette": (PORT, start_server(PORT, "bare", PORT))}
        bodies = {"bare Starlette": lambda: post(_joint())}
        for number, (trust, folder) in enumerate(folders.items(), start=1):
            folder.mkdir()
            servers[f"service, {trust}"] = (
                PORT + number,
                start_server(PORT + number, "service", PORT + number, trust, folder),
            )
            key = (folder / "key").read_text()
            message = (
                base64.b64encode((folder / "message").read_bytes()).decode()
                if trust == "local"
                else ""
            )
            make_bodies = (
                _joint
                if trust == "joint"
                else lambda message=message: {**_who(), "message": message}
            )
            bodies[f"service, {trust}"] = lambda key=key, make_bodies=make_bodies: post(
                make_bodies(), key
            )
        # The first round warms up and does not count.
        for _ in range(rounds + 1):
            for name, (port, server) in servers.items():
                rows.setdefault(f"{name}: POST", []).append(
                    load(port, server.pid, bodies[name], seconds)
                )
                rows.setdefault(f"{name}: GET", []).append(
                    load(port, server.pid, lambda: GET, seconds)
                )
            rows.setdefault("bare SQLite, groups of 64, rows", []).append(
                (*sqlite_loop(seconds), 0.0, 0.0)
            )
        for _, server in servers.values():
            _stop(server)
    return {name: np.array(rates[1:]) for name, rates in rows.items()}


def flat(reports):
    """Measure the memory of the server and the size of its database, both in MB.

    They are measured after each tenth of the reports.
    """
    with tempfile.TemporaryDirectory(dir=".") as folder:
        server = start_server(PORT, "service", PORT, "joint", folder)
        key = Path(folder, "key").read_text()
        sent = 0
        start = time.monotonic()
        lines = [
            "| reports | per second so far | memory, MB | database and log, MB | p99, ms |",
            "|---|---|---|---|---|",
        ]
        for part in range(1, 11):
            late = []
            while sent < part * reports / 10:
                rate, _, _, high = load(PORT, server.pid, lambda: post(_joint(), key), 10.0)
                sent += round(10 * rate)
                late.append(high)
            files = (
                sum(path.stat().st_size for path in Path(folder, "service").glob("service.sqlite*"))
                / 1e6
            )
            rate = sent / (time.monotonic() - start)
            lines.append(
                f"| {sent:,} | {rate:,.0f} | {memory(server.pid):.0f} | {files:.0f} | "
                f"{max(late):.1f} |"
            )
            print(lines[-1], flush=True)
        _stop(server)
    return "\n".join(lines)


def _who():
    return {"subject": secrets.token_hex(8), "generation": 0}


def _joint():
    return {**_who(), "trajectory": EPISODE}


def _stop(server):
    server.send_signal(signal.SIGTERM)
    server.wait(60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", nargs="*")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure in each round")
    parser.add_argument("--rounds", type=int, default=9, help="the number of rounds")
    parser.add_argument("--reports", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    if options.serve:
        kind, port, *more = options.serve
        bare(int(port)) if kind == "bare" else service(int(port), *more)
        return
    if options.reports:
        record(
            "Memory of a service",
            f"{MEMORY}\n\n{flat(options.reports)}\n",
            write=options.write,
            page="service_memory",
        )
        return
    rows = measure(options.seconds, options.rounds)
    lines = ["| | per second | server CPU, us | median, ms | p99, ms |", "|---|---|---|---|---|"]
    for name, rates in rows.items():
        rate, cpu, middle, late = np.median(rates, axis=0)
        waited = f"{middle:.1f} | {late:.1f}" if middle else " | "
        lines.append(f"| {name} | {rate:,.0f} | {cpu:.0f} | {waited} |")
    lines += [
        "",
        "Of the bare app's rate in the same round:",
        "",
        "| | median | least | most |",
        "|---|---|---|---|",
    ]
    for trust in ("joint", "local"):
        for method in ("POST", "GET"):
            ratios = (
                rows[f"service, {trust}: {method}"][:, 0] / rows[f"bare Starlette: {method}"][:, 0]
            )
            lines.append(
                f"| {method}, {trust} | {np.median(ratios):.2f} | {ratios.min():.2f} | "
                f"{ratios.max():.2f} |"
            )
    table = "\n".join(lines)
    record("The service under load", f"{INTRODUCTION}\n\n{table}\n", write=options.write)


if __name__ == "__main__":
    main()
