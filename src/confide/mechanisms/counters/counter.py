"""Noisy prefix sums of a stream of bounded contributions.

Every counter here is a factorisation A = B C of the matrix of prefix sums (lower-triangular ones): the rows of C x are noised once,
and the prefix sums B (C x + z) = A x + B z are read off the noisy rows. Only `encode` touches private data; `decode` is
post-processing. A new counter is one file with a new `Factorisation`.
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

Memory = dict[str, npt.NDArray[Any]]


class Factorisation(Protocol):
    """A = B C for streams of at most `leaves` contributions, applied one contribution at a time (t = 1, 2, ...)."""

    @property
    def name(self) -> str: ...
    @property
    def leaves(self) -> int: ...
    @property
    def integral(self) -> bool: ...
    @property
    def coefficient(self) -> float: ...
    def column_norm(self, order: int) -> float: ...

    def row_norm(self, t: int) -> float:
        """||row t of B||_2: the standard deviation of release t for unit noise on the coded rows."""

    def parameters(self) -> dict[str, Any]:
        """Everything besides the name that is needed to make this factorisation again."""

    def private_memory(self, size: int, dtype: type) -> Memory:
        """What encoding keeps of the exact stream."""

    def public_memory(self, size: int) -> Memory:
        """What decoding keeps of the noisy rows."""

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:
        """The rows of C x that are complete at time t, [rows, size]."""

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        """The prefix sum over t leaves, from the noisy rows."""


def counter_identity(factorisation: Factorisation | None) -> Identity | None:
    """What names a counter that was chosen; None where it is chosen later."""
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

    Guarantee: all releases together are `loss` for every user, each of whom is in exactly one leaf; also for adaptive streams, where
    a contribution depends on earlier releases: C is lower triangular and each of its rows is noised once, when it is complete
    [Denisov22, Thm. 2.1]; the L2 (L1) sensitivity of C x is that of one contribution times max_j ||C e_j||. The exact sums kept in
    memory, and the saved state, are PRIVATE.

    `loss` None: the least noise that keeps `request` (`least_noise`); its loss is pure where that noise is.
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
        (
            check_bound(bound),
            check_source(noise),
            check_privacy_request(request, "request"),
            whole("users", users, at_least=1),
        )
        has(
            "factorisation",
            factorisation,
            ("leaves", "encode", "decode"),
            "a counter, such as Tree(leaves)",
        )
        self.bound, self.factorisation, self.users = bound, factorisation, users
        self._request, self._chosen = request, loss is None
        self._source, self._t, self._seen = noise.fork(), 0, 0
        self._take(
            self._usual_noise(loss)
            if loss is not None
            else least_noise(bound, request, factorisation, **self._of())
        )
        self._whole = (
            # False between the first change of private memory and the last: an exception there must not be retried
            True
        )
        self._private = factorisation.private_memory(
            bound.size, np.float64 if self.noise.step is None else np.int64
        )
        self._public = factorisation.public_memory(bound.size)
        self._prefix: Array = np.zeros(bound.size)
        self._level: NoiseLevel | None = None  # of the last release, once somebody asked for it

    def _of(self) -> dict[str, Any]:
        return {"discrete": self._source.discrete, "users": self.users}

    def _usual_noise(self, loss: Loss) -> AdditiveNoise:
        return additive_noise(
            self.bound, loss, Relation(self._request.relation), self.factorisation, **self._of()
        )

    def _take(self, noise: AdditiveNoise) -> None:
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
        return self._seen

    def absorb(self, contribution: Bounded) -> None:
        """One leaf: the sum of the contributions of the users between two releases. The noise is drawn here, once."""
        if not self._whole:
            self._check_whole()
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than the counter's"
            )
        if self._t == self.factorisation.leaves:
            raise StreamExhausted(
                f"the guarantee covers {self.factorisation.leaves} leaves, and all were absorbed"
            )
        if self._seen + contribution.users > self.users:
            raise StreamExhausted(
                f"the guarantee covers {self.users} users; this leaf would make {self._seen + contribution.users}"
            )
        self._whole = False
        values = (
            contribution.values
            if self.noise.step is None
            else self.noise.to_lattice(contribution.values)
        )
        rows = self.factorisation.encode(self._t + 1, values, self._private)
        noisy = self.noise.add(rows, self._source)
        self._t += 1
        self._seen += contribution.users
        self._prefix, self._level = self.factorisation.decode(self._t, noisy, self._public), None
        self._whole = True

    def release(self) -> Released:
        """The sum of all absorbed leaves, after noise. Asking again gives the same answer."""
        self._check_whole()
        if self._level is None:
            self._level = NoiseLevel(self.noise_std(self._t), self.noise.distribution)
        return Released(self._prefix.copy(), self._level, self.guarantee, self._seen, self._t)

    def noise_std(self, t: int) -> float:
        """The standard deviation of the noise on each coordinate of release t."""
        whole("t", t, at_least=0)
        return self.noise.std * self.factorisation.row_norm(t) if t else 0.0

    def mechanism(self) -> Mechanism:
        """What a certificate says of this counter."""
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
        """PRIVATE: everything needed to go on, all past draws included."""
        self._check_whole()
        arrays = {f"private.{k}": v for k, v in self._private.items()} | {
            f"public.{k}": v for k, v in self._public.items()
        }
        facts = {"made_for": self._made_for(), "seen": self._seen, "noise": self._source.state()}
        return pack("counter", self._t, facts, arrays | {"prefix": self._prefix})

    def restore(self, data: bytes, *, released: int) -> None:
        """Take over a saved state: past draws are kept; future ones are the same for the fast source and fresh for the secure one.

        `released` is the newest generation that may have left; an older state is refused. A state must go on in one place only.
        """
        if self._t:
            raise StateError("this counter has already absorbed data: restore into a new one")
        state = unpack(data, "counter", released=released)
        if self._chosen and state.facts["made_for"] != self._made_for():
            # before K-norm noise there was no other
            self._take(self._usual_noise(loss_for(self._request)))
        if state.facts["made_for"] != self._made_for():
            raise StateError(
                "the state belongs to a counter with another bound, factorisation, loss or number of users"
            )
        for memory, prefix in ((self._private, "private."), (self._public, "public.")):
            memory.update(
                {
                    key.removeprefix(prefix): array
                    for key, array in state.arrays.items()
                    if key.startswith(prefix)
                }
            )
        self._prefix, self._t, self._seen = (
            state.arrays["prefix"],
            state.generation,
            state.facts["seen"],
        )
        self._level = None
        self._source.restore(state.facts["noise"])

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a counter cannot be copied or pickled: two copies would noise the same sums twice; use save and restore"
        )

    def _check_whole(self) -> None:
        if not self._whole:
            raise StateError(
                "an exception left this counter half-way through a leaf: restore the last saved state"
            )

    def _made_for(self) -> str:
        """All that must agree between the counter that was saved and the one that goes on."""
        public = self.mechanism().to_json() | {"users": self.users, "source": self._source.name}
        return json.dumps(public, sort_keys=True)


def check_leaves(leaves: int) -> None:
    whole("leaves", leaves, at_least=1, at_most=10**400)


def check_time(t: int, leaves: int) -> int:
    if whole("t", t, at_least=1) > leaves:
        raise InvalidParameter.of(
            "t", f"must be at most the number of leaves, {leaves}", got=f"{t}"
        )
    return int(t)


def check_order(order: int) -> int:
    return choice("order", order, (1, 2))


def dense(factorisation: Factorisation) -> tuple[Array, Array]:
    """(B, C) as matrices, by running the counter on unit vectors: for tests, audits and certificates of short streams."""
    n = has(
        "factorisation",
        factorisation,
        ("leaves", "encode", "decode"),
        "a counter, such as Tree(leaves)",
    ).leaves
    memory = factorisation.private_memory(n, np.float64)
    blocks = [factorisation.encode(t, np.eye(n)[t - 1], memory) for t in range(1, n + 1)]
    coder: Array = np.concatenate([np.atleast_2d(block) for block in blocks])
    decoder, at, public = np.zeros((n, len(coder))), 0, factorisation.public_memory(len(coder))
    for t, block in enumerate(blocks, start=1):
        rows = np.eye(len(coder))[at : at + len(block)]
        decoder[t - 1] = factorisation.decode(t, rows, public)
        at += len(block)
    return decoder, coder


def noise_on_rate(factorisation: Factorisation, sizes: npt.ArrayLike) -> float:
    """The noise on the sum of leaves of these sizes, in units of sensitivity / mu, of the best estimate of their common rate: generalised
    least squares over all releases."""
    users: Array = np.asarray(sizes, dtype=np.float64)
    decoder, coder = dense(factorisation)
    mean = decoder @ coder @ users
    return factorisation.column_norm(2) * float(
        users.sum() / np.sqrt(mean @ np.linalg.solve(decoder @ decoder.T, mean))
    )
