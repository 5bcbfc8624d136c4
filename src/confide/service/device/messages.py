"""One message of a device under local privacy, with the noise that the round asks for.

What leaves this file is the message, whose bytes are a wire format: `clients/typescript` makes the
same ones from the same random bytes (`clients/vectors.json`).

Guarantee: a message is (epsilon, delta)-DP for what the person accepts, whatever the server sends,
or there is none. A server decides about tables and noise, and is not trusted with either. An index
is epsilon-DP for arbitrary contributions. Additive noise is not: this device computes from the
tables how far apart two people's contributions can be, and what the noise is worth for that.
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
# An epsilon is computed with rounding errors of at most this relative size. A matter of taste, far
# above what they are.
_EPSILON_SLACK = 1e-9
# The tables are rounded to the grid. So contributions may lie outside of the set that a report was
# made for, by at most this relative size. An index is epsilon-DP for arbitrary contributions, so
# this is about accuracy and not about privacy.
_RADIUS_SLACK = 2.0**-12
_NONCE_BYTES = 16


def message(
    channel: Mapping[str, Any],
    mechanism: Mechanism,
    steps: Ints,
    generation: int,
    answered: str,
    source: NoiseSource,
) -> bytes:
    """Return what is sent for a contribution, in whole steps of the grid.

    `answered` is the digest of the round. Of the random bytes the nonce takes the first 16.
    """
    values = np.multiply(steps, float(channel["grid"]), dtype=np.float64)
    nonce = source.token(_NONCE_BYTES)
    if isinstance(mechanism, AdditiveNoise):
        kind = "numbers"
        noisy = mechanism.add(mechanism.to_lattice(values)[None], source)[0].tolist()
    else:
        kind = "index"
        noisy = [float(mechanism.draw(values, nonce, source))]
    return message_bytes(
        generation, bytes.fromhex(answered), nonce, bytes.fromhex(channel["id"]), kind, noisy
    )


def mechanism_of(
    channel: Mapping[str, Any], statistic: Mapping[str, Any], epsilon: float, delta: float
) -> Mechanism:
    """Return the mechanism of a channel, if the person accepts what it loses.

    The person accepts (epsilon, delta). Otherwise this raises `PromiseBroken`.
    """
    channel = check_channel(channel)
    statistic = check_statistic(statistic, channel)
    noise = channel["noise"]
    size = channel["size"]
    mechanism: Mechanism
    match noise["distribution"]:
        case "gaussian" | "laplace":
            mechanism = _additive_noise(channel, statistic)
            epsilon_lost = mechanism.loss().epsilon_at(delta)
        case "signs":
            mechanism = SignReport(
                size, noise["radius"], noise["epsilon"], noise["asked"], noise["nearest"]
            )
            epsilon_lost = mechanism.epsilon
        case _:
            mechanism = Codebook(
                size, noise["radius"], noise["epsilon"], noise["nearest"], noise["vectors"]
            )
            epsilon_lost = mechanism.epsilon
    # Written so that NaN is refused.
    if not epsilon_lost <= epsilon * (1 + _EPSILON_SLACK):
        raise PromiseBroken(
            f"the round's noise gives epsilon={epsilon_lost:g}, and this person accepts {epsilon:g}"
        )
    if not isinstance(mechanism, AdditiveNoise):
        _check_radius(mechanism, statistic, channel["grid"])
    return mechanism


def _check_radius(
    mechanism: Codebook | SignReport, statistic: Mapping[str, Any], grid: float
) -> None:
    """Refuse a report that is made for smaller contributions than those of the tables."""
    coordinate, norm = largest(statistic, grid)
    contribution_radius = coordinate if isinstance(mechanism, SignReport) else norm
    if contribution_radius > mechanism.radius * (1 + _RADIUS_SLACK):
        raise PromiseBroken(
            "the round's report is made for smaller contributions than those of its tables"
        )


def _additive_noise(channel: Mapping[str, Any], statistic: Mapping[str, Any]) -> AdditiveNoise:
    """Return the round's noise, with the sensitivity that this device has computed.

    It is drawn in whole steps of the grid.
    Only a simulation, whose noise is fast, may have noise on the reals. A device of a real person
    refuses fast noise before it sends anything.
    """
    noise = channel["noise"]
    l2_distance, l1_distance = sensitivity(statistic, channel["grid"])
    if noise["distribution"] == "gaussian":
        order = 2
        distance = l2_distance
    else:
        order = 1
        distance = l1_distance
    return AdditiveNoise(
        noise["distribution"], order, distance, 1.0, noise["scale"], noise["step"], channel["size"]
    )
