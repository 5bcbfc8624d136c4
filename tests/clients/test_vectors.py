"""The vectors that all clients share are what this confide makes, and the library reads their
messages.
"""

import base64
import importlib.util
import json
from pathlib import Path

import pytest

from confide.privatizers.message import Message

pytestmark = pytest.mark.long

CLIENTS = Path(__file__).parents[2] / "clients"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_vectors", CLIENTS / "make_vectors.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_vectors_are_current(script):
    """Otherwise: python clients/make_vectors.py"""
    kept = json.loads((CLIENTS / "vectors.json").read_text())
    made = json.loads(json.dumps(script.vectors()))
    for vector in (*kept["deltas"], *made["deltas"]):
        vector["delta"] = f"{vector['delta']:.9g}"  # the last digits are the machine's
    assert made == kept


def test_the_library_reads_their_messages():
    for vector in json.loads((CLIENTS / "vectors.json").read_text())["messages"]:
        read = Message.from_bytes(base64.b64decode(vector["message"]))
        channel = vector["channel"]
        assert (read.generation, read.channel.hex(), read.kind) == (
            vector["generation"],
            channel["id"],
            channel["kind"],
        )
        assert read.values.size == (1 if read.kind == "index" else channel["size"])
        assert read.nonce == base64.b64decode(vector["entropy"])[:16]
