"""The interface between learners and privacy: bounded contributions in, public statistics out.

The times of releases are public. A learner learns about noise only from a release.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from confide.privacy.bounded import Array, Bounded, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss


@dataclass(frozen=True, slots=True)
class ExpectedNoise:
    """The noise on each released number, as it is known before there are data.

    - `mechanism` is its name in a certificate.
    - `distribution` is gaussian, laplace, cube, ball, codebook, signs or none.
    - `sensitivity` is that of one user's numbers together, in the norm `norm`. For a codebook it is
      the largest norm of a contribution, and for signs the largest number.
    - `loss` is what the noise really gives, which may be less than what was requested.
    - `first`, `last` and `worst` are standard deviations at these releases.
    """

    mechanism: str
    distribution: str
    norm: int | str
    sensitivity: float
    loss: Loss
    first: float
    last: float
    worst: float


class Privatizer(Protocol):
    """Absorbs bounded contributions, and releases public statistics.

    There is one implementation per trust model, in a file of its own. `PRIVATIZERS` says which one
    serves which request. Each of them is made by (bound, schedule, *, privacy, noise, counter,
    loss). It also has a class method expected_noise(bound, schedule, *, privacy, discrete, counter,
    loss), which returns the noise that a privatizer made with these arguments would add.
    """

    # Whether users send messages from their own devices, so that no server sees a contribution.
    devices: ClassVar[bool]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that will ever be released."""

    @property
    def users(self) -> int:
        """How many users were absorbed."""

    @property
    def generation(self) -> int:
        """How many releases were made."""

    @property
    def batch(self) -> tuple[int, int]:
        """How many users there were when the open batch began, and how many will be at its end."""

    def absorb(self, contribution: Bounded) -> None:
        """Add users to the open batch. Its last user makes the next release.

        With `devices` this is a SIMULATION of the messages that their devices would send.
        """

    def close(self, total: Array | None = None, users: int = 0) -> None:
        """Make the next release before the batch is full. WHEN must be decided in public.

        `total` is the sum of a whole batch of `users` users from a service that adds up
        contributions itself, or decoded messages with `devices`. Then nobody else may be in the
        open batch.
        """

    def release(self) -> Released:
        """Return the statistics of the newest release. Repeated calls return the same."""

    def mechanism(self) -> Mechanism:
        """Return the mechanism for a certificate."""

    def save(self) -> bytes:
        """Return everything that is needed to go on. PRIVATE."""

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:
        """Go on from a saved state, in a new privatizer that was made with the same arguments.

        A state older than generation `released` is refused.
        """
