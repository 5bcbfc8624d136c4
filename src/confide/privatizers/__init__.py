"""The interface between private and public data: bounded contributions in, public statistics out.

There is one file per trust model.
"""

from typing import Any

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Bound
from confide.privacy.loss import Loss
from confide.privacy.request import (
    CentralDP,
    DistributedDP,
    JointDP,
    LocalDP,
    NoPrivacy,
    Request,
    check_privacy_request,
)
from confide.privatizers.aggregation import Aggregate, DeviceShare, ShareBatch
from confide.privatizers.batches import Batches, BatchNoise
from confide.privatizers.central import (
    CentralPrivatizer,
    best_counter,
    counter_of_rates,
    release_once,
    worst_std,
)
from confide.privatizers.distributed import DistributedPrivatizer
from confide.privatizers.local import LocalPrivatizer
from confide.privatizers.message import Channel, Message, open_channel
from confide.privatizers.privatizer import ExpectedNoise, Privatizer
from confide.privatizers.schedule import AtMost, Schedule, custom, every, every_episode, geometric
from confide.privatizers.shared_budget import Share, SharedBudget

# Which privatizer serves which request: a new trust model is one new file and one line here.
PRIVATIZERS: dict[type[Request], Any] = {
    NoPrivacy: CentralPrivatizer,
    CentralDP: CentralPrivatizer,
    JointDP: CentralPrivatizer,
    LocalDP: LocalPrivatizer,
    DistributedDP: DistributedPrivatizer,
}


def make_privatizer(
    bound: Bound,
    schedule: Schedule | AtMost,
    *,
    privacy: Request,
    noise: NoiseSource,
    counter: Factorisation | None = None,
    loss: Loss | None = None,
) -> Batches:
    """Make the privatizer for a privacy request."""
    privatizer: Batches = PRIVATIZERS[type(check_privacy_request(privacy))](
        bound, schedule, privacy=privacy, noise=noise, counter=counter, loss=loss
    )
    return privatizer


def expected_noise(
    bound: Bound,
    schedule: Schedule | AtMost,
    *,
    privacy: Request,
    discrete: bool,
    counter: Factorisation | None = None,
    loss: Loss | None = None,
) -> ExpectedNoise:
    """Return the noise that `make_privatizer` will add. Known before there are data.

    `discrete` says that the source is secure.
    """
    privatizer = PRIVATIZERS[type(check_privacy_request(privacy))]
    if not hasattr(privatizer, "expected_noise"):
        raise InvalidParameter(
            f"{privatizer.__name__} does not say what noise it will add: "
            "give it a class method expected_noise"
        )
    noise: ExpectedNoise = privatizer.expected_noise(
        bound, schedule, privacy=privacy, discrete=discrete, counter=counter, loss=loss
    )
    return noise


__all__ = [
    "CentralPrivatizer",
    "Privatizer",
    "Schedule",
    "custom",
    "every",
    "every_episode",
    "geometric",
    "make_privatizer",
    "worst_std",
]
