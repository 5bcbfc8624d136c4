"""One message of a device under local privacy: the noise that the round asks for, if it keeps what the person accepts.

A server decides about tables and noise, and is not trusted with either. An index is epsilon-DP for arbitrary contributions. Additive noise
is not: this device computes from the tables how far apart two people's contributions can be, and what the noise is worth for that.
`clients/typescript` does the same, and makes the same bytes from the same random bytes.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from confide.errors import InvalidParameter, PromiseBroken
from confide.mechanisms.codebook import Codebook, SignReport
from confide.mechanisms.sources import NoiseSource
from confide.privacy.accounting import gaussian_delta
from confide.service.episodes import Ints, message_bytes

_ROUNDING = 1e-6  # of a delta, relative: two machines' error functions


def message(channel: Mapping[str, Any], steps: Ints, generation: int, source: NoiseSource) -> bytes:
    """What is sent for a contribution, in whole steps of the grid. Of the random bytes the nonce takes the first 16."""
    nonce = source.token(16)
    noise, named = channel["noise"], bytes.fromhex(channel["id"])
    if channel["kind"] == "index":
        index = _report(channel).draw(steps * channel["grid"], nonce, source)
        return message_bytes(generation, nonce, named, "index", [float(index)])
    draw = {"gaussian": source.gaussian, "laplace": source.laplace}[noise["distribution"]]
    sent = (steps + draw(noise["scale"] / noise["step"], steps.shape)) * noise["step"]
    return message_bytes(generation, nonce, named, "numbers", sent.tolist())


def check_noise(channel: Mapping[str, Any], statistic: Mapping[str, Any] | None, epsilon: float, delta: float) -> None:
    """`PromiseBroken` if a message would lose more than (epsilon, delta), whatever tables the server has sent."""
    noise = channel["noise"]
    if noise["distribution"] in ("codebook", "signs"):
        if _report(channel).epsilon > epsilon:
            raise PromiseBroken(f"the round asks for epsilon={noise['epsilon']:g}, and this person accepts {epsilon:g}")
        return
    if noise["distribution"] not in ("gaussian", "laplace") or statistic is None:
        raise InvalidParameter(f"this client adds no {noise['distribution']} noise: use confide.agents.LocalClient")
    if noise["step"] is None or noise["step"] != channel["grid"]:
        raise InvalidParameter("this client adds noise on the grid of the contributions alone: use confide.agents.LocalClient")
    grid, scale = float(channel["grid"]), float(noise["scale"])
    if noise["distribution"] == "laplace":
        kept = reach(statistic, grid, 1) / scale <= epsilon
    else:  # 2 steps of the lattice are lost, as in `AdditiveNoise`, which a device does not import: it brings the compiler
        kept = scale > 2 * grid and gaussian_delta(epsilon, reach(statistic, grid, 2) / (scale - 2 * grid)) <= delta * (
            1 + _ROUNDING
        )
    if not kept:
        raise PromiseBroken(
            f"the round's noise does not keep epsilon={epsilon:g}, delta={delta:g} for what this device would send"
        )


def reach(statistic: Mapping[str, Any], grid: float, norm: int) -> float:
    """How far apart two contributions can be, in L1 or L2: at most, over all episodes."""
    if statistic["kind"] == "transitions":
        table = np.asarray(statistic["table"], dtype=np.int64)
        rows = np.unique(np.vstack([table.reshape(-1, table.shape[-1]), np.zeros((1, table.shape[-1]))]), axis=0)
        far = max(float(np.linalg.norm(rows - row, ord=norm, axis=1).max()) for row in rows)
        steps = int(statistic["steps"])
        return far * grid * (steps if norm == 1 else math.sqrt(steps))
    signs = np.asarray(statistic["signs"], dtype=np.int64)
    each = 2 * grid * float(np.abs(signs).max()) * round(1 / (2 * grid))
    return each * (len(signs) if norm == 1 else math.sqrt(len(signs)))


def _report(channel: Mapping[str, Any]) -> Codebook | SignReport:
    noise = channel["noise"]
    if noise["distribution"] == "signs":
        return SignReport(channel["size"], noise["radius"], noise["epsilon"], noise["asked"], noise["nearest"])
    return Codebook(channel["size"], noise["radius"], noise["epsilon"], noise["nearest"], noise["vectors"])
