"""Questions about the same users, each chosen after the answers to those before it: every answer is paid for anew."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from confide._digest import digest
from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.mechanisms.additive import AdditiveNoise, additive_noise
from confide.mechanisms.counters import Exact
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.loss import NO_PRIVACY, Loss, compose, share_of
from confide.privacy.request import Relation, Request


class Questions:
    """Noisy answers to at most len(shares) questions, each a sum over all users so far of contributions within one bound.

    Promise: all answers together are `loss` for every user, who may be in all of them: answer i is on its share of the budget, shares are
    fixed in advance and add up to at most one, and losses compose adaptively (Gaussian: mu^2 adds up; pure: epsilon does). Whether and
    what to ask may depend on earlier answers and on nothing else of the users.
    """

    def __init__(
        self, bound: Bound, shares: Sequence[float], *, loss: Loss, privacy: Request, users: int, noise: NoiseSource
    ) -> None:
        self.bound, self._shares = bound, np.asarray(shares, dtype=float)
        if not (self._shares > 0).all() or self._shares.sum() > 1 + 1e-9:
            raise InvalidParameter("the shares of a budget must be positive and add up to at most one")
        relation, discrete = Relation(privacy.relation), noise.discrete

        def level(share: float) -> AdditiveNoise:
            part = NO_PRIVACY if loss == NO_PRIVACY else share_of(loss, min(share, 1.0))
            return additive_noise(bound, part, relation, Exact(1), discrete=discrete, users=users)

        different, which = np.unique(self._shares, return_inverse=True)
        self._levels, self._which = [level(float(share)) for share in different], which
        self._users, self._source = users, noise.fork()
        self.asked = 0

    def __len__(self) -> int:
        return len(self._shares)

    def ask(self, total: Bounded) -> tuple[Array, float]:
        """The answer, and the standard deviation of its noise."""
        if total.bound != self.bound or total.users > self._users:
            raise InvalidParameter(
                "the contribution was clipped by another bound, or is of more users, than the questions are for"
            )
        if self.asked == len(self):
            raise StreamExhausted(f"the budget covers {len(self)} questions, and all were asked")
        noise = self._levels[self._which[self.asked]]
        self.asked += 1
        exact = total.values if noise.step is None else noise.to_lattice(total.values)
        return noise.add(exact[None], self._source)[0], noise.std

    def skip(self, questions: int) -> None:
        """Leave questions out: their shares are not spent on others."""
        self.asked = min(self.asked + questions, len(self))

    def loss(self, delta: float = 0.0) -> Loss:
        """Of all answers together, also those that were not asked for yet."""
        return compose([noise.loss() for noise in self._described()], delta=delta)

    def mechanisms(self, query: str) -> list[Mechanism]:
        """What a certificate says: questions on equal shares are one mechanism, which sees a user once per question."""
        parts = zip(self._described(), np.bincount(self._which), strict=True)
        return [
            Mechanism(
                name=Exact.name,
                distribution=noise.distribution,
                norm=noise.norm,
                sensitivity=noise.sensitivity,
                scale=noise.scale,
                parameters={"leaves": int(times)},
                lattice=noise.step,
                bound=describe(self.bound),
                query=query,
            )
            for noise, times in parts
        ]

    def _described(self) -> list[AdditiveNoise]:
        """The levels of noise, each with how often it looks at a user."""
        counts = np.bincount(self._which)
        levels = zip(self._levels, counts, strict=True)
        return [replace(level, stream_norm=Exact(int(times)).column_norm(level.norm)) for level, times in levels]

    def save(self) -> bytes:
        """PRIVATE: where the draws are."""
        return pack("questions", self.asked, {"shares": digest(self._shares), "noise": self._source.state()}, {})

    def restore(self, data: bytes) -> None:
        state = unpack(data, "questions", released=0)
        if self.asked or state.facts["shares"] != digest(self._shares):
            raise StateError("the state belongs to other questions, or these were asked already")
        self.asked = state.generation
        self._source.restore(state.facts["noise"])

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("questions cannot be copied or pickled: two copies would answer twice; use save and restore")
