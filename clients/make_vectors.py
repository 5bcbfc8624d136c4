"""Test vectors that all clients share: `python clients/make_vectors.py` writes
clients/vectors.json.

The same random bytes, tables and episodes must give the same message, bit by bit, in Python and in
TypeScript. One thing is left to the machine: which vectors of a codebook are called near is decided
by floating point, whose last bits differ. It touches the accuracy alone. The vectors here are
chosen so that no rounding decides: see `_check_stable`.
"""

import base64
import hashlib
import json
import math
from pathlib import Path

import numpy as np

from confide.mechanisms.codebook import Codebook
from confide.mechanisms.exact import ExactSource
from confide.privacy.accounting import gaussian_delta
from confide.service.device.episodes import contribution, joint_body
from confide.service.device.messages import mechanism_of, message
from confide.service.documents import SigningKey, Statement

PATH = Path(__file__).parent / "vectors.json"
GRID = 2.0**-23
EPISODE = {"states": [0, 2, 1, 1], "actions": [1, 0, 1], "rewards": [0.25, 1, 0]}
HOSTILE = {"states": [0, "x", 1e300, None], "actions": [1, -1, 0.5], "rewards": [[], None, "1"]}
PATH_OF_PAIRS = {"states": [0, 1, 1, 1], "actions": [1, 0, 0], "rewards": [0.3, 7, 0.9]}
STAYS = {"states": [1, 1, 1, 1], "actions": [0, 0, 0], "rewards": [0, 0, 0]}
SHORT = {"states": [2], "actions": [0, 0, 0, 0, 0], "rewards": []}


class Stream:
    """Bytes that are a function of a name, and how many were taken."""

    def __init__(self, name: str) -> None:
        self._all, self.used = hashlib.shake_256(name.encode()).digest(2**16), 0

    def take(self, size: int) -> bytes:
        self.used += size
        return self._all[self.used - size : self.used]

    @property
    def taken(self) -> str:
        return base64.b64encode(self._all[: self.used]).decode()


def _transitions(steps: int, codes: int) -> dict:
    table = np.random.default_rng(7).integers(-(2**22), 2**22, size=(3, 2, 3, codes))
    return {"kind": "transitions", "steps": steps, "table": table.tolist()}


def _answers() -> dict:
    signs = np.random.default_rng(8).choice([-1, 0, 1], size=(5, 3, 2, 3))
    return {
        "kind": "answers",
        "steps": [0, 1, 2, 0, 1],
        "signs": signs.tolist(),
        "rewards": [False, False, False, True, True],
    }


def _budget(balance: int) -> dict:
    sizes = {"layers": 1, "states": 3, "actions": 2, "steps": 3, "balance": balance}
    tables = {"indptr": [0, 2, 4, 7, 8, 10, 12], "successors": [0, 1, 1, 2, 0, 1, 2, 2, 0, 1, 1, 2]}
    return {
        "kind": "budget",
        **sizes,
        **tables,
        "costs": [2**38, 2**38 + 1, 2**39, 0, 2**37, 2**36],
    }


def _channel(size: int, noise: dict, grid: float = GRID) -> dict:
    named = hashlib.sha256(json.dumps([size, noise]).encode()).hexdigest()[:16]
    kind = "index" if noise["distribution"] in ("codebook", "signs") else "numbers"
    return {
        "id": named,
        "kind": kind,
        "size": size,
        "grid": grid,
        "source": "secure",
        "noise": noise,
    }


def _added(distribution: str, scale: float, step: float = GRID) -> dict:
    return {"distribution": distribution, "scale": scale, "step": step}


def _codebook(epsilon: float, nearest: int, radius: float = 8.0) -> dict:
    return {
        "distribution": "codebook",
        "radius": radius,
        "epsilon": epsilon,
        "nearest": nearest,
        "vectors": 1024,
    }


def _signs(epsilon: float, asked: int, nearest: int, radius: float = 0.5) -> dict:
    return {
        "distribution": "signs",
        "radius": radius,
        "epsilon": epsilon,
        "asked": asked,
        "nearest": nearest,
    }


CASES = {  # channel, statistic, episode
    "gaussian": (_channel(12, _added("gaussian", 0.3742488519696694)), _transitions(3, 4), EPISODE),
    "gaussian, a coarse lattice": (
        _channel(6, _added("gaussian", 1.75, 0.25), 0.25),
        _transitions(3, 2),
        EPISODE,
    ),
    "gaussian, less than a step": (
        _channel(6, _added("gaussian", 0.3, 1.0), 1.0),
        _transitions(2, 3),
        EPISODE,
    ),
    "gaussian, an episode that makes no sense": (
        _channel(4, _added("gaussian", 1.0)),
        _transitions(2, 2),
        HOSTILE,
    ),
    "laplace": (_channel(12, _added("laplace", 0.061789830268098006)), _transitions(3, 4), EPISODE),
    "laplace, less than a step": (
        _channel(6, _added("laplace", 0.4, 1.0), 1.0),
        _transitions(3, 2),
        EPISODE,
    ),
    "codebook": (_channel(12, _codebook(4.0, 67)), _transitions(3, 4), EPISODE),
    "codebook, little privacy": (_channel(1, _codebook(150.0, 1)), _transitions(1, 1), EPISODE),
    "codebook, much privacy": (_channel(300, _codebook(0.1, 480)), _transitions(3, 100), EPISODE),
    "codebook, a short episode": (_channel(20, _codebook(1.0, 354)), _transitions(5, 4), SHORT),
    "gaussian, a budget": (
        _channel(18, _added("gaussian", 0.5, 2.0**-24), 2.0**-24),
        _budget(128),
        PATH_OF_PAIRS,
    ),
    "laplace, a budget that is spent": (
        _channel(12, _added("laplace", 0.5, 2.0**-24), 2.0**-24),
        _budget(0),
        STAYS,
    ),
    "codebook, a budget, and an episode that makes no sense": (
        _channel(18, _codebook(4.0, 67), 2.0**-24),
        _budget(128),
        HOSTILE,
    ),
    "signs": (_channel(5, _signs(2.0, 4, 5), 2.0**-24), _answers(), EPISODE),
    "signs, one coordinate": (_channel(5, _signs(1.0, 1, 1), 2.0**-24), _answers(), EPISODE),
    "signs, an episode that makes no sense": (
        _channel(5, _signs(3.0, 5, 6), 2.0**-24),
        _answers(),
        HOSTILE,
    ),
}


def _message(name: str, channel: dict, statistic: dict, episode: dict) -> dict:
    stream, generation, answered = (
        Stream(name),
        len(name),
        hashlib.sha256(name.encode()).hexdigest(),
    )
    steps = contribution(statistic, channel, tuple(episode.values()))
    mechanism = mechanism_of(channel, statistic, math.inf, 0.0)  # these channels are of no run
    sent = message(channel, mechanism, steps, generation, answered, ExactSource(stream.take))
    if channel["noise"]["distribution"] == "codebook":
        _check_stable(channel, steps * channel["grid"], sent[14:30])
    given = {
        "channel": channel,
        "statistic": statistic,
        "episode": episode,
        "generation": generation,
        "round": answered,
    }
    return {
        "name": name,
        **given,
        "entropy": stream.taken,
        "steps": steps.tolist(),
        "message": base64.b64encode(sent).decode(),
    }


def _check_stable(channel: dict, values: np.ndarray, nonce: bytes) -> None:
    """The last vector that is near and the first one that is not are farther apart than single
    precision errs, by a hundred times.
    """
    noise = channel["noise"]
    book = Codebook(channel["size"], noise["radius"], noise["epsilon"], noise["nearest"])
    unit = values / noise["radius"]
    padded = np.append(unit, np.sqrt(max(0.0, 1.0 - float(unit @ unit))))
    products = np.sort(book._codebook_rows(nonce, 0, 1024).astype(float) @ padded)[::-1]
    if products[noise["nearest"] - 1] - products[noise["nearest"]] < 1e-4:
        raise ValueError("rounding decides about this vector: choose another name for it")


def _documents() -> dict:
    older, newer = SigningKey(bytes(range(32))), SigningKey(bytes(range(32, 64)))
    made = Statement(
        "release",
        "demo",
        hashlib.sha256(b"manifest").hexdigest(),
        3,
        hashlib.sha256(b"body").hexdigest(),
        "00" * 32,
    )
    endorsed = Statement("key", "", "", 0, hashlib.sha256(newer.public).hexdigest()).to_bytes()
    names = ("kind", "run", "manifest", "generation", "body", "previous")
    return {
        "statement": {name: getattr(made, name) for name in names},
        "bytes": made.to_bytes().decode(),
        "digest": made.digest,
        "key": older.public.hex(),
        "signature": older.sign(made.to_bytes()).hex(),
        "keys": [
            {"id": older.id, "public": older.public.hex(), "endorsed_by": "", "endorsement": ""},
            {
                "id": newer.id,
                "public": newer.public.hex(),
                "endorsed_by": older.id,
                "endorsement": older.sign(endorsed).hex(),
            },
        ],
    }


def _policies() -> list[dict]:
    shares = [0.1, 0.2, 0.3, 0.4]
    edges = np.cumsum(shares)
    made = []
    for which in (0, 2**128 // 10, 2**127, 2**128 * 6 // 10, 2**128 - 1):
        place = int(np.searchsorted(edges[:-1], which / 2.0**128 * edges[-1], side="right"))
        made.append({"shares": shares, "which": str(which), "place": place})
    return made


def vectors() -> dict:
    deltas = [
        (0.1, 0.05),
        (1.0, 0.25),
        (1.0, 0.3),
        (4.0, 1.0),
        (60.0, 7.56),
        (0.5, 2.0),
        (10.0, 0.9),
    ]
    bodies = [
        ("person 1", 3, EPISODE, 0),
        ('ä "quoted" \u2028', 0, HOSTILE, 0),
        ("x", 2**40, {**EPISODE, "rewards": [1e-7, 1e21, -0.0]}, 0),
        ("longer than the horizon", 1, EPISODE, 2),
        ("as long as the horizon", 1, EPISODE, 3),
        ("shorter than the horizon", 1, EPISODE, 4),
    ]
    return {
        "about": (
            "Made by clients/make_vectors.py. "
            "All clients must make these messages from this entropy."
        ),
        "messages": [_message(name, *case) for name, case in CASES.items()],
        "bodies": [
            {
                "subject": subject,
                "generation": g,
                "round": hashlib.sha256(subject.encode()).hexdigest(),
                "episode": episode,
                "horizon": horizon,
                "body": joint_body(
                    g,
                    subject,
                    tuple(episode.values()),
                    hashlib.sha256(subject.encode()).hexdigest(),
                    horizon,
                ).decode(),
            }
            for subject, g, episode, horizon in bodies
        ],
        "documents": _documents(),
        "policies": _policies(),
        "deltas": [
            {"epsilon": epsilon, "mu": mu, "delta": gaussian_delta(epsilon, mu)}
            for epsilon, mu in deltas
        ],
    }


def written(made: dict) -> str:
    """As JSON with a line for each vector."""
    parts = []
    for name, part in made.items():
        lines = (
            ",\n".join(json.dumps(each) for each in part)
            if isinstance(part, list)
            else json.dumps(part)
        )
        parts.append(
            f"{json.dumps(name)}: [\n{lines}\n]"
            if isinstance(part, list)
            else f"{json.dumps(name)}: {lines}"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    PATH.write_text(written(vectors()))
