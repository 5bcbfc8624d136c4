"""One budget in shares: sums over the same users, each chosen after the releases before it, each on a share fixed in advance."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from confide.arguments import listed, private_kind, real, text, whole
from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.identity import identify
from confide.mechanisms.additive import AdditiveNoise, additive_noise, check_bound, pure_noise
from confide.mechanisms.counters import Exact
from confide.mechanisms.sources import NoiseSource, check_source
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import NO_PRIVACY, Loss, PureDP, check_loss, compose, loss_for, share_of
from confide.privacy.request import NoPrivacy, Relation, Request, Trust, check_privacy_request


@dataclass(frozen=True, slots=True)
class Share:
    """What one release may contribute, and its share of the budget; `query` is what the certificate says of it."""

    bound: Bound
    share: float
    query: str = ""

    def __post_init__(self) -> None:
        (
            check_bound(self.bound),
            real("share", self.share, above=0, at_most=1 + 1e-9),
            text("query", self.query),
        )


class SharedBudget:
    """Noisy sums over all users so far, at most one for each of `shares`, in their order.

    Guarantee: all releases together are `loss` (by default what `privacy` asks for) for every user, who may be in all of them. Release i is
    on its share of the budget, shares are fixed in advance and add up to at most one, and losses compose adaptively (Gaussian: mu^2 adds
    up; pure: epsilon does). Whether and what to ask may depend on earlier releases and on nothing else of the users.

    Without a `loss`, noise is the least of those that keep `privacy`. At delta = 0 each release has Laplace or K-norm noise on its share of
    epsilon. For delta > 0 all releases are Gaussian, or all of them pure: with the epsilons that give each release the same share of the
    Gaussian's standard deviation, if that share is below one. Then the loss is pure. Pure and Gaussian releases of the same users are not
    mixed: `compose` gives what they lose together, and that is more noise than either.

    `users` is the most that any sum may cover; None: as many as the first one has (a log, whose size is public).
    """

    def __init__(
        self,
        shares: Sequence[Share],
        *,
        privacy: Request,
        noise: NoiseSource,
        users: int | None = None,
        loss: Loss | None = None,
    ) -> None:
        shares = listed("shares", shares, Share)
        check_privacy_request(privacy), check_source(noise)
        if users is not None:
            whole("users", users, at_least=1)
        if not shares and loss is None and not isinstance(privacy, NoPrivacy):
            raise InvalidParameter("shares must contain at least one share, got none")
        sizes = np.array([one.share for one in shares], dtype=float)
        if not (sizes > 0).all() or sizes.sum() > 1 + 1e-9:
            raise InvalidParameter(
                "the shares of a budget must be positive and add up to at most one"
            )
        self._shares, self._privacy, self._users = tuple(shares), privacy, users
        self._whole = (
            check_loss(loss)
            if loss is not None
            else (NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy))
        )
        self._chosen = loss is None and self._whole != NO_PRIVACY
        # equal shares have equal noise, and are one line of a certificate
        self._times = Counter(self._shares)
        self._discrete, self._source = noise.discrete, noise.fork()
        self._levels = self._noise(users or 1)
        self._given: Guarantee | None = None
        self.asked = 0

    def __len__(self) -> int:
        return len(self._shares)

    def release(self, total: Bounded) -> Released:
        """The sum with the noise of the next share."""
        if self.asked == len(self):
            raise StreamExhausted(f"the budget covers {len(self)} releases, and all were made")
        kind = self._shares[self.asked]
        private_kind("total", total, Bounded)
        if total.bound != kind.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than this share of the budget is for"
            )
        if self._users is None:
            self._users = max(total.users, 1)
            # refuses sums that are not exact
            self._levels, self._given = self._noise(self._users), None
        if total.users > self._users:
            raise InvalidParameter(
                f"the budget covers {self._users} users, the sum is of {total.users}"
            )
        level = self._levels[kind]
        self.asked += 1
        exact = total.values if level.step is None else level.to_lattice(total.values)
        noisy = level.add(exact[None], self._source)[0]
        return Released(
            noisy,
            NoiseLevel(level.std, level.distribution),
            self.guarantee,
            total.users,
            self.asked,
        )

    def skip(self, releases: int) -> None:
        """Leave releases out: their shares are not spent on others."""
        self.asked = min(self.asked + whole("releases", releases, at_least=0), len(self))

    def loss(self) -> Loss:
        """Of all releases together, also those that were not made yet."""
        losses = [level.loss() for level in self._described()]
        pure = all(isinstance(one, PureDP) for one in losses)
        return compose(losses, delta=0.0 if pure else self._privacy.delta)

    @property
    def guarantee(self) -> Guarantee:
        """For everything that it releases, read together."""
        if self._given is None:
            users = self._users or 1
            if isinstance(self._privacy, NoPrivacy):
                self._given = no_guarantee(users)
            else:
                self._given = Guarantee(
                    self.loss(), self._privacy, Trust.CENTRAL, users, self._source.name
                )
        return self._given

    def mechanisms(self) -> list[Mechanism]:
        """What a certificate says: equal shares are one mechanism, which sees a user once per release."""
        return [
            Mechanism(
                name=Exact.name,
                distribution=level.distribution,
                norm=level.norm,
                sensitivity=level.sensitivity,
                scale=level.scale,
                parameters={"leaves": self._times[kind]},
                lattice=level.step,
                bound=describe(kind.bound),
                query=kind.query,
            )
            for kind, level in zip(self._levels, self._described(), strict=True)
        ]

    def _noise(self, users: int) -> dict[Share, AdditiveNoise]:
        relation = Relation(self._privacy.relation)

        def level(kind: Share) -> AdditiveNoise:
            part = (
                NO_PRIVACY
                if self._whole == NO_PRIVACY
                else share_of(self._whole, min(kind.share, 1.0))
            )
            return additive_noise(
                kind.bound, part, relation, Exact(1), discrete=self._discrete, users=users
            )

        usual = {kind: level(kind) for kind in self._times}
        return self._least(usual, users) if self._chosen else usual

    def _least(self, usual: dict[Share, AdditiveNoise], users: int) -> dict[Share, AdditiveNoise]:
        """Pure noise, at delta = 0, or where it leaves less noise than Gaussian noise in every release."""

        def pure(kind: Share, epsilon: float) -> AdditiveNoise:
            return pure_noise(
                kind.bound,
                epsilon,
                Relation(self._privacy.relation),
                discrete=self._discrete,
                users=users,
            )

        epsilon = self._privacy.epsilon
        if isinstance(self._whole, PureDP):
            return {kind: pure(kind, epsilon * min(kind.share, 1.0)) for kind in usual}
        # for as much noise
        needed = {
            kind: pure(kind, epsilon).std * epsilon / noise.std for kind, noise in usual.items()
        }
        room = (
            epsilon
            * min(sum(one.share for one in self._shares), 1.0)
            / sum(needed[one] for one in self._shares)
        )
        return {kind: pure(kind, needed[kind] * room) for kind in usual} if room > 1 else usual

    def _described(self) -> list[AdditiveNoise]:
        """The noise of each kind of share, with how often it looks at a user."""
        return [
            replace(level, stream_norm=Exact(self._times[kind]).column_norm(level.order))
            for kind, level in self._levels.items()
        ]

    def save(self) -> bytes:
        """PRIVATE: where the draws are."""
        return pack(
            "shared budget",
            self.asked,
            {"shares": self._made_for(), "noise": self._source.state()},
            {},
        )

    def restore(self, data: bytes) -> None:
        state = unpack(data, "shared budget", released=0)
        if self._chosen and not self.asked and state.facts["shares"] != self._made_for():
            # before K-norm noise there was the usual noise alone
            self._chosen, self._given = False, None
            self._levels = self._noise(self._users or 1)
        if self.asked or state.facts["shares"] != self._made_for():
            raise StateError(
                "the state belongs to another budget, or this one was spent from already"
            )
        self.asked = state.generation
        self._source.restore(state.facts["noise"])

    def _made_for(self) -> str:
        kinds = sorted({level.distribution for level in self._levels.values()} & {"cube", "ball"})
        return identify([[one.share, one.bound] for one in self._shares], kinds)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a budget cannot be copied or pickled: two copies would spend it twice; use save and restore"
        )
