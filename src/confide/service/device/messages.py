"""One message of a device under local privacy: the noise that the round asks for, if it keeps what the person accepts.

A server decides about tables and noise, and is not trusted with either. An index is epsilon-DP for arbitrary contributions. Additive noise
is not: this device computes from the tables how far apart two people's contributions can be, and what the noise is worth for that.
`clients/typescript` does the same, and makes the same bytes from the same random bytes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from confide.errors import PromiseBroken
from confide.mechanisms.additive import AdditiveNoise
from confide.mechanisms.codebook import Codebook, SignReport
from confide.mechanisms.sources import NoiseSource
from confide.service.device.checks import check_channel, check_statistic
from confide.service.device.episodes import Ints, largest, message_bytes, sensitivity

Mechanism = Codebook | SignReport | AdditiveNoise
_ROUNDING = 1e-9  # of an epsilon, relative
# The tables are rounded to the grid, so contributions may lie outside of the set that a report was made for by so much, relative.
_OUTSIDE = 2.0**-12


def message(
    channel: Mapping[str, Any],
    mechanism: Mechanism,
    steps: Ints,
    generation: int,
    answered: str,
    source: NoiseSource,
) -> bytes:
    """What is sent for a contribution, in whole steps of the grid, to the round with the digest `answered`.

    Of the random bytes the nonce takes the first 16.
    """
    values = np.multiply(steps, float(channel["grid"]), dtype=np.float64)
    nonce = source.token(16)
    if isinstance(mechanism, AdditiveNoise):
        kind, sent = (
            "numbers",
            mechanism.add(mechanism.to_lattice(values)[None], source)[0].tolist(),
        )
    else:
        kind, sent = "index", [float(mechanism.draw(values, nonce, source))]
    return message_bytes(
        generation, bytes.fromhex(answered), nonce, bytes.fromhex(channel["id"]), kind, sent
    )


def mechanism_of(
    channel: Mapping[str, Any], statistic: Mapping[str, Any], epsilon: float, delta: float
) -> Mechanism:
    """The mechanism of a channel, if what it loses is not more than what the person accepts, (epsilon, delta)."""
    channel = check_channel(channel)
    statistic = check_statistic(statistic, channel)
    noise, size = channel["noise"], channel["size"]
    made: Mechanism
    match noise["distribution"]:
        case "gaussian" | "laplace":
            made = _additive(channel, statistic)
            lost = made.loss().epsilon_at(delta)
        case "signs":
            made = SignReport(
                size, noise["radius"], noise["epsilon"], noise["asked"], noise["nearest"]
            )
            lost = made.epsilon
        case _:
            made = Codebook(
                size, noise["radius"], noise["epsilon"], noise["nearest"], noise["vectors"]
            )
            lost = made.epsilon
    if not lost <= epsilon * (1 + _ROUNDING):
        raise PromiseBroken(
            f"the round's noise gives epsilon={lost:g}, and this person accepts {epsilon:g}"
        )
    if not isinstance(made, AdditiveNoise):
        coordinate, norm = largest(statistic, channel["grid"])
        if (coordinate if isinstance(made, SignReport) else norm) > made.radius * (1 + _OUTSIDE):
            raise PromiseBroken(
                "the round's report is made for smaller contributions than those of its tables"
            )
    return made


def _additive(channel: Mapping[str, Any], statistic: Mapping[str, Any]) -> AdditiveNoise:
    """The round's noise, with the sensitivity that this device has computed, in whole steps of the grid.

    Only a simulation, whose noise is fast, may have noise on the reals. A device of a real person
    refuses fast noise before it sends anything.
    """
    noise = channel["noise"]
    l2, l1 = sensitivity(statistic, channel["grid"])
    order = 2 if noise["distribution"] == "gaussian" else 1
    measured = l2 if order == 2 else l1
    return AdditiveNoise(
        noise["distribution"], order, measured, 1.0, noise["scale"], noise["step"], channel["size"]
    )
