"""Noisy prefix sums of a stream of bounded contributions.

Every counter here is a factorisation A = B C of the matrix of prefix sums, whose entries on and
below the diagonal are one. The rows of C x are noised once, and the prefix sums B (C x + z) = A x +
B z are computed from the noisy rows. Only `encode` touches private data. `decode` is
post-processing.

A new counter is one file with a new `Factorisation`, and nothing here has to be changed. What
leaves this file are releases, the mechanism of a certificate, and the saved state, which is
PRIVATE. The names of facts and arrays in it are a format.
"""

import json
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, has, whole
from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.identity import Identity
from confide.mechanisms.additive import AdditiveNoise, additive_noise, check_bound, least_noise
from confide.mechanisms.sources import NoiseSource, check_source
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import Loss, loss_for
from confide.privacy.request import NoPrivacy, Relation, Request, Trust, check_privacy_request

# What a factorisation keeps between two leaves, by name.
Memory = dict[str, npt.NDArray[Any]]
# Counters of so many leaves can be described. Only few of them could ever run.
_MOST_LEAVES = 10**400


class Factorisation(Protocol):
    """A = B C for streams of at most `leaves` contributions, one at a time (t = 1, 2, ...).

    `column_norm` is required for privacy. `tests/conformance/test_counters.py` compares all members
    with the matrices.
    """

    @property
    def name(self) -> str:
        """The name in certificates and saved states."""

    @property
    def leaves(self) -> int: ...
    @property
    def integral(self) -> bool:
        """Whether C has whole entries, so that whole contributions give whole rows."""

    @property
    def coefficient(self) -> float:
        """The largest absolute entry of C."""

    def column_norm(self, order: int) -> float:
        """max_j ||C e_j|| in L1 or L2: how often, in that norm, one contribution is counted."""

    def row_norm(self, t: int) -> float:
        """||row t of B||_2: the standard deviation of release t for unit noise on the rows."""

    def parameters(self) -> dict[str, Any]:
        """Everything besides the name and `leaves` that is needed to make this factorisation."""

    def private_memory(self, size: int, dtype: type) -> Memory:
        """What encoding keeps of the exact stream."""

    def public_memory(self, size: int) -> Memory:
        """What decoding keeps of the noisy rows."""

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        """The rows of C x that are complete at time t, [rows, size]."""

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        """The prefix sum over t leaves, from the noisy rows."""


def counter_identity(factorisation: Factorisation | None) -> Identity | None:
    """The identity of a counter that was chosen, or None if it is chosen later."""
    if factorisation is None:
        return None
    return Identity(
        f"{factorisation.name}-counter",
        1,
        leaves=factorisation.leaves,
        parameters=factorisation.parameters(),
    )


class Counter:
    """Releases the running sum of contributions after each of at most `leaves` leaves.

    A leaf is the sum of the contributions of the users between two releases.

    Guarantee: all releases together have the loss `loss` for every user, each of whom is in exactly
    one leaf. The L2 (L1) sensitivity of C x is that of one contribution times max_j ||C e_j||. The
    guarantee also holds for adaptive streams, where a contribution depends on earlier releases,
    because C is lower triangular and each of its rows is noised once, when it is complete
    [Denisov22, Thm. 2.1]. The exact sums kept in memory, and the saved state, are PRIVATE.

    Without `loss` the counter adds the least noise that keeps `request` (`least_noise`). The loss
    is pure if this noise is.
    """

    def __init__(
        self,
        bound: Bound,
        factorisation: Factorisation,
        *,
        loss: Loss | None,
        request: Request,
        users: int,
        noise: NoiseSource,
    ) -> None:
        check_bound(bound)
        check_source(noise)
        check_privacy_request(request, "request")
        whole("users", users, at_least=1)
        has(
            "factorisation",
            factorisation,
            ("leaves", "encode", "decode"),
            "a counter, such as Tree(leaves)",
        )
        self.bound = bound
        self.factorisation = factorisation
        self.users = users
        self._request = request
        self._has_least_noise = loss is None
        self._source = noise.fork()
        # How many leaves and how many users were absorbed.
        self._t = 0
        self._users_seen = 0
        self._set_noise(self._least_noise() if loss is None else self._usual_noise(loss))
        # False between the first change of private memory and the last one. After an exception in
        # between, a retry would noise the same data twice.
        self._is_whole = True
        dtype = np.float64 if self.noise.step is None else np.int64
        self._private = factorisation.private_memory(bound.size, dtype)
        self._public = factorisation.public_memory(bound.size)
        self._prefix: Array = np.zeros(bound.size)
        # The noise of the last release, once somebody has read the release.
        self._level: NoiseLevel | None = None

    def _least_noise(self) -> AdditiveNoise:
        """The noise of the smallest variance that keeps the request."""
        return least_noise(
            self.bound,
            self._request,
            self.factorisation,
            discrete=self._source.discrete,
            users=self.users,
        )

    def _usual_noise(self, loss: Loss) -> AdditiveNoise:
        """Gaussian or Laplace noise."""
        return additive_noise(
            self.bound,
            loss,
            Relation(self._request.relation),
            self.factorisation,
            discrete=self._source.discrete,
            users=self.users,
        )

    def _set_noise(self, noise: AdditiveNoise) -> None:
        """Set the noise, and the guarantee that follows from it."""
        self.noise = noise
        if isinstance(self._request, NoPrivacy):
            self.guarantee = no_guarantee(self.users)
        else:
            self.guarantee = Guarantee(
                noise.loss(), self._request, Trust.CENTRAL, self.users, self._source.name
            )

    @property
    def generation(self) -> int:
        """How many leaves were absorbed."""
        return self._t

    @property
    def users_seen(self) -> int:
        """How many users are in these leaves."""
        return self._users_seen

    def absorb(self, contribution: Bounded) -> None:
        """Absorb one leaf. The noise is drawn here, once."""
        self._check_whole()
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than the counter's"
            )
        if self._t == self.factorisation.leaves:
            raise StreamExhausted(
                f"the guarantee covers {self.factorisation.leaves} leaves, and all were absorbed"
            )
        users_seen = self._users_seen + contribution.users
        if users_seen > self.users:
            raise StreamExhausted(
                f"the guarantee covers {self.users} users; this leaf would make {users_seen}"
            )
        self._is_whole = False
        values = self.noise.to_lattice(contribution.values)
        rows = self.factorisation.encode(self._t + 1, values, self._private)
        noisy_rows = self.noise.add(rows, self._source)
        self._t += 1
        self._users_seen = users_seen
        self._prefix = self.factorisation.decode(self._t, noisy_rows, self._public)
        self._level = None
        self._is_whole = True

    def release(self) -> Released:
        """The sum of all absorbed leaves, after noise. A second call gives the same answer."""
        self._check_whole()
        if self._level is None:
            self._level = NoiseLevel(self.noise_std(self._t), self.noise.distribution)
        return Released(self._prefix.copy(), self._level, self.guarantee, self._users_seen, self._t)

    def noise_std(self, t: int) -> float:
        """The standard deviation of the noise on each coordinate of release t."""
        whole("t", t, at_least=0)
        return self.noise.std * self.factorisation.row_norm(t) if t else 0.0

    def mechanism(self) -> Mechanism:
        """What a certificate states about this counter."""
        return Mechanism(
            name=self.factorisation.name,
            distribution=self.noise.distribution,
            norm=self.noise.norm,
            sensitivity=self.noise.sensitivity,
            scale=self.noise.scale,
            parameters={"leaves": self.factorisation.leaves, **self.factorisation.parameters()},
            lattice=self.noise.step,
            bound=describe(self.bound),
        )

    def save(self) -> bytes:
        """The state with everything that is needed to go on, including all past draws. PRIVATE."""
        self._check_whole()
        arrays = {f"private.{name}": array for name, array in self._private.items()}
        arrays |= {f"public.{name}": array for name, array in self._public.items()}
        arrays["prefix"] = self._prefix
        facts = {
            "made_for": self._description(),
            "seen": self._users_seen,
            "noise": self._source.state(),
        }
        return pack("counter", self._t, facts, arrays)

    def restore(self, data: bytes, *, released: int) -> None:
        """Go on from a saved state.

        Past draws are kept. Future draws are those that would have followed, for the fast source,
        and new ones for the secure source. `released` is the newest generation that may have left
        this counter. An older state is refused. A state must go on in one place only.
        """
        if self._t:
            raise StateError("this counter has already absorbed data: restore into a new one")
        state = unpack(data, "counter", released=released)
        if self._has_least_noise and state.facts["made_for"] != self._description():
            # States of earlier versions have Gaussian or Laplace noise, because there was no other.
            self._set_noise(self._usual_noise(loss_for(self._request)))
        if state.facts["made_for"] != self._description():
            raise StateError(
                "the state belongs to a counter with another bound, factorisation, loss or number "
                "of users"
            )
        for name, array in state.arrays.items():
            memory, _, key = name.partition(".")
            if memory == "private":
                self._private[key] = array
            elif memory == "public":
                self._public[key] = array
        self._prefix = state.arrays["prefix"]
        self._t = state.generation
        self._users_seen = state.facts["seen"]
        self._level = None
        self._source.restore(state.facts["noise"])

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a counter cannot be copied or pickled: two copies would noise the same sums twice; "
            "use save and restore"
        )

    def _check_whole(self) -> None:
        if not self._is_whole:
            raise StateError(
                "an exception left this counter half-way through a leaf: "
                "restore the last saved state"
            )

    def _description(self) -> str:
        """Everything that must be equal in the counter that was saved and the one that goes on."""
        public = self.mechanism().to_json() | {"users": self.users, "source": self._source.name}
        return json.dumps(public, sort_keys=True)


def check_leaves(leaves: int) -> None:
    """Refuse a number of leaves that is no positive whole number."""
    whole("leaves", leaves, at_least=1, at_most=_MOST_LEAVES)


def check_bits(bits: int | None) -> None:
    """Refuse a precision of C that is out of range. None, for noise on the reals, is allowed.

    The range is a matter of taste: fewer bits cost accuracy, and more leave no room for the sums.
    """
    if bits is not None and not 4 <= whole("bits", bits) <= 30:
        raise InvalidParameter.of("bits", "must be between 4 and 30", got=f"{bits}")


def check_time(t: int, leaves: int) -> int:
    """Return a time t = 1, ..., leaves as an int, and refuse others."""
    if whole("t", t, at_least=1) > leaves:
        raise InvalidParameter.of(
            "t", f"must be at most the number of leaves, {leaves}", got=f"{t}"
        )
    return int(t)


def check_order(order: int) -> int:
    """Return the order of a norm, 1 or 2, and refuse others."""
    return choice("order", order, (1, 2))


def dense(factorisation: Factorisation) -> tuple[Array, Array]:
    """The matrices B [release, row] and C [row, leaf], by running the counter on unit vectors.

    They are for tests, audits and certificates of short streams.
    """
    has(
        "factorisation",
        factorisation,
        ("leaves", "encode", "decode"),
        "a counter, such as Tree(leaves)",
    )
    n = factorisation.leaves
    private = factorisation.private_memory(n, np.float64)
    blocks = [factorisation.encode(t, np.eye(n)[t - 1], private) for t in range(1, n + 1)]
    coder: Array = np.concatenate([np.atleast_2d(block) for block in blocks])
    public = factorisation.public_memory(len(coder))
    decoder = np.zeros((n, len(coder)))
    start = 0
    for t, block in enumerate(blocks, start=1):
        unit_rows = np.eye(len(coder))[start : start + len(block)]
        decoder[t - 1] = factorisation.decode(t, unit_rows, public)
        start += len(block)
    return decoder, coder


def noise_on_rate(factorisation: Factorisation, sizes: npt.ArrayLike) -> float:
    """The noise of the best estimate of a rate that all leaves have in common.

    It is the noise on the sum of leaves of these `sizes`, in units of sensitivity / mu. The best
    estimate is generalised least squares over all releases.
    """
    users: Array = np.asarray(sizes, dtype=np.float64)
    decoder, coder = dense(factorisation)
    mean = decoder @ coder @ users
    return factorisation.column_norm(2) * float(
        users.sum() / np.sqrt(mean @ np.linalg.solve(decoder @ decoder.T, mean))
    )
