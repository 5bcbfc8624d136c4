"""The interface between learners and privacy: bounded contributions in, public statistics out, at public times."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from confide.privacy.bounded import Array, Bounded, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss


@dataclass(frozen=True, slots=True)
class ExpectedNoise:
    """On each released number; standard deviations at the first, the last and the worst release. Known before there are any data."""

    mechanism: str
    distribution: str  # gaussian | laplace | cube | ball | codebook | signs | none
    norm: int | str
    sensitivity: (
        # of one user's numbers together, in that norm; of a codebook their largest norm, of signs the largest number
        float
    )
    loss: Loss  # what the noise really gives
    first: float
    last: float
    worst: float


class Privatizer(Protocol):
    """Absorbs bounded contributions and releases public statistics. A learner learns about noise only from the release.

    One implementation per trust model, in a file of its own; `PRIVATIZERS` says which request is served by which. Each is made by
    (bound, schedule, *, privacy, noise, counter, loss), and has a class method `expected_noise(bound, schedule, *, privacy, discrete,
    counter, loss)`: the noise that a privatizer made with these arguments adds, without making one.
    """

    # whether users send messages from their own devices, so that no server sees a contribution
    devices: ClassVar[bool]

    @property
    def guarantee(self) -> Guarantee:
        """For everything it will ever release."""

    @property
    def users(self) -> int:
        """How many users were absorbed."""

    @property
    def generation(self) -> int:
        """How many releases were made."""

    @property
    def batch(self) -> tuple[int, int]:
        """How many users there were when the open batch began, and how many there are when it ends."""

    def absorb(self, contribution: Bounded) -> None:
        """Users of the open batch; at its last user the next release is made. With `devices` a simulation of their messages."""

    def close(self, total: Array | None = None, users: int = 0) -> None:
        """Make the next release before the batch is full: decided in public, not from its users' data.

        `total`: the whole batch, from a service that adds up contributions itself (with `devices` decoded messages), of `users` users.
        Nobody else may be in the open batch then.
        """

    def release(self) -> Released:
        """The statistics as of the last release. Asking again gives the same answer."""

    def mechanism(self) -> Mechanism:
        """What a certificate says."""

    def save(self) -> bytes:
        """PRIVATE: everything needed to go on."""

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:
        """Take over a saved state, into a privatizer made with the same arguments; older than generation `released` it is refused."""
