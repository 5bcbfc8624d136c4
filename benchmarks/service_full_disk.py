"""A service whose disk fills up while users report.

    # an empty folder on a small disk, such as a tmpfs of 6 MB
    python benchmarks/service_full_disk.py FOLDER

It must answer 503, lose nothing, and go on by itself when there is room again. A file fills the
disk but for some room. Users report until the service refuses. Then the file goes, those who were
refused send the same bytes again, and the database is verified: everybody who was told to be
counted is counted, once.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from service_load import EPISODE, PORT, start_server

from confide.service.core.folder import ServiceFolder
from confide.service.core.verification import verify_store

ADDRESS = f"http://127.0.0.1:{PORT}"
# So many bytes of the disk are left free.
ROOM = 300_000


def sent(key, subject, nonce):
    body = json.dumps({"subject": subject, "generation": 0, "trajectory": EPISODE}).encode()
    headers = {
        "Authorization": f"Bearer {key}",
        "Idempotency-Key": nonce,
        "Content-Type": "application/json",
    }
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{ADDRESS}/v1/runs/load/reports", body, headers)
        ) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def ready():
    try:
        return urllib.request.urlopen(f"{ADDRESS}/ready").status
    except urllib.error.HTTPError as error:
        return error.code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="an empty folder on a small disk")
    folder = parser.parse_args().folder
    server = start_server(PORT, "service", PORT, "joint", folder)
    try:
        key = (folder / "key").read_text()
        filler = folder / "filler"
        disk = os.statvfs(folder)
        filler.write_bytes(bytes(max(disk.f_bavail * disk.f_frsize - ROOM, 0)))
        counted_users = {}
        refused = {}
        while len(refused) < 20 and len(counted_users) < 200_000:
            subject = secrets.token_hex(8)
            nonce = secrets.token_urlsafe(16)
            code = sent(key, subject, nonce)
            (counted_users if code == 201 else refused)[subject] = (nonce, code)
        print(
            f"{len(counted_users):,} counted, "
            f"then {sorted({code for _, code in refused.values()})}; "
            f"ready: {ready()}"
        )
        filler.unlink()
        start = time.monotonic()
        while ready() != 200 and time.monotonic() - start < 30:
            time.sleep(0.1)
        print(f"ready again {time.monotonic() - start:.1f} s after there was room")
        again = [sent(key, subject, nonce) for subject, (nonce, _) in refused.items()]
        once = [
            sent(key, subject, nonce) for subject, (nonce, _) in list(counted_users.items())[-100:]
        ]
        print(
            f"the refused, the same bytes again: {sorted(set(again))}; "
            f"the last counted ones again: {sorted(set(once))}"
        )
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    place = ServiceFolder(folder / "service")
    store = place.store()
    counted = sum(store.participants("load").values())
    accepted = len(counted_users) + again.count(201) + again.count(200)
    print(f"answered as counted {accepted:,}, in the database {counted:,}")
    failed = [
        finding.says
        for finding in verify_store(store, place.keys, place.marks)
        if not finding.holds
    ]
    print(f"verified: {failed or 'everything holds'}")


if __name__ == "__main__":
    main()
