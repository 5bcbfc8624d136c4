"""One budget in shares: several sums over the same users.

Each sum may be chosen after the releases before it. Its share of the budget is fixed in advance.
What leaves this file: the mechanisms of a certificate, and a saved state.
"""

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

# Shares may add up to a little more than one, because they are rounded. A release never gets more
# than the whole budget, and losses are composed from the noise that is added.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Share:
    """The bound of one release, and its share of the budget. A certificate quotes `query`."""

    bound: Bound
    share: float
    query: str = ""

    def __post_init__(self) -> None:
        check_bound(self.bound)
        real("share", self.share, above=0, at_most=1 + _ROUNDING)
        text("query", self.query)


class SharedBudget:
    """Noisy sums over all users so far, at most one for each of `shares`, in their order.

    Guarantee: all releases together have the loss `loss` (by default what `privacy` asks for) for
    every user, who may be in all of them. Shares are fixed in advance and add up to at most one.
    Losses compose adaptively: mu^2 of Gaussian releases adds up, and so does epsilon of pure ones.
    Whether and what to ask may depend on earlier releases, and on nothing else of the users.

    Without a `loss`, the noise is the least that keeps `privacy`:

    - delta = 0: each release has Laplace or K-norm noise on its share of epsilon.
    - delta > 0: all releases are Gaussian, or all of them are pure. They are pure if every release
      then has less noise than a Gaussian one. The epsilons are chosen so that the noise of each
      release is the same share of Gaussian noise.
    - Pure and Gaussian releases of the same users are not mixed, because composing them needs more
      noise than either.

    `users` is the most that any sum may cover. None: as many as the first sum has, which is for
    logs, whose size is public.
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
        check_privacy_request(privacy)
        check_source(noise)
        if users is not None:
            whole("users", users, at_least=1)
        if not shares and loss is None and not isinstance(privacy, NoPrivacy):
            raise InvalidParameter("shares must contain at least one share, got none")
        sizes = np.array([one.share for one in shares], dtype=float)
        if not (sizes > 0).all() or sizes.sum() > 1 + _ROUNDING:
            raise InvalidParameter(
                "the shares of a budget must be positive and add up to at most one"
            )
        self._shares = tuple(shares)
        self._privacy = privacy
        self._users = users
        if loss is not None:
            self._whole_loss: Loss = check_loss(loss)
        elif isinstance(privacy, NoPrivacy):
            self._whole_loss = NO_PRIVACY
        else:
            self._whole_loss = loss_for(privacy)
        # Whether the kind of noise is chosen here: the least that keeps the request.
        self._chooses_noise = loss is None and self._whole_loss != NO_PRIVACY
        # How often each share occurs. Equal shares have equal noise, and are one mechanism of a
        # certificate.
        self._times = Counter(self._shares)
        self._discrete = noise.discrete
        self._source = noise.fork()
        self._levels = self._compute_noise(users or 1)
        # The guarantee, once somebody has asked for it.
        self._guarantee: Guarantee | None = None
        # How many releases were made or left out.
        self.asked = 0

    def __len__(self) -> int:
        return len(self._shares)

    def release(self, total: Bounded) -> Released:
        """Return the sum with the noise of the next share."""
        if self.asked == len(self):
            raise StreamExhausted(f"the budget covers {len(self)} releases, and all were made")
        share = self._shares[self.asked]
        private_kind("total", total, Bounded)
        if total.bound != share.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than this share of the budget is for"
            )
        if self._users is None:
            self._users = max(total.users, 1)
            # This refuses so many users that their sums would not be exact.
            self._levels = self._compute_noise(self._users)
            self._guarantee = None
        if total.users > self._users:
            raise InvalidParameter(
                f"the budget covers {self._users} users, the sum is of {total.users}"
            )
        noise = self._levels[share]
        self.asked += 1
        exact = total.values if noise.step is None else noise.to_lattice(total.values)
        released_values = noise.add(exact[None], self._source)[0]
        level = NoiseLevel(noise.std, noise.distribution)
        return Released(released_values, level, self.guarantee, total.users, self.asked)

    def skip(self, releases: int) -> None:
        """Leave so many releases out. Their shares are not spent on others."""
        self.asked = min(self.asked + whole("releases", releases, at_least=0), len(self))

    def loss(self) -> Loss:
        """Return the loss of all releases together, including those that were not made yet."""
        losses = [noise.loss() for noise in self._noise_of_streams()]
        pure = all(isinstance(one, PureDP) for one in losses)
        return compose(losses, delta=0.0 if pure else self._privacy.delta)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for all releases, read together."""
        if self._guarantee is None:
            users = self._users or 1
            if isinstance(self._privacy, NoPrivacy):
                self._guarantee = no_guarantee(users)
            else:
                self._guarantee = Guarantee(
                    self.loss(), self._privacy, Trust.CENTRAL, users, self._source.name
                )
        return self._guarantee

    def mechanisms(self) -> list[Mechanism]:
        """Return the mechanisms for a certificate.

        Equal shares are one mechanism, which sees a user once per release.
        """
        return [
            Mechanism(
                name=Exact.name,
                distribution=noise.distribution,
                norm=noise.norm,
                sensitivity=noise.sensitivity,
                scale=noise.scale,
                parameters={"leaves": self._times[share]},
                lattice=noise.step,
                bound=describe(share.bound),
                query=share.query,
            )
            for share, noise in zip(self._levels, self._noise_of_streams(), strict=True)
        ]

    def _compute_noise(self, users: int) -> dict[Share, AdditiveNoise]:
        """Return the noise of each kind of share, for sums over so many users."""
        usual = {share: self._usual_noise(share, users) for share in self._times}
        return self._least_noise(usual, users) if self._chooses_noise else usual

    def _usual_noise(self, share: Share, users: int) -> AdditiveNoise:
        """Return Gaussian noise, or Laplace noise for a pure loss."""
        loss = self._whole_loss
        if loss != NO_PRIVACY:
            loss = share_of(loss, min(share.share, 1.0))
        relation = Relation(self._privacy.relation)
        return additive_noise(
            share.bound, loss, relation, Exact(1), discrete=self._discrete, users=users
        )

    def _pure_noise(self, share: Share, epsilon: float, users: int) -> AdditiveNoise:
        relation = Relation(self._privacy.relation)
        return pure_noise(share.bound, epsilon, relation, discrete=self._discrete, users=users)

    def _least_noise(
        self, usual: dict[Share, AdditiveNoise], users: int
    ) -> dict[Share, AdditiveNoise]:
        """Return pure noise if delta = 0, or if it is less than Gaussian noise in every release."""
        epsilon = self._privacy.epsilon
        if isinstance(self._whole_loss, PureDP):
            return {
                share: self._pure_noise(share, epsilon * min(share.share, 1.0), users)
                for share in usual
            }
        # The epsilon with which a release has as much pure noise as it has Gaussian noise. The
        # standard deviation of pure noise is in proportion to 1 / epsilon.
        needed = {
            share: self._pure_noise(share, epsilon, users).std * epsilon / noise.std
            for share, noise in usual.items()
        }
        all_shares = min(sum(share.share for share in self._shares), 1.0)
        all_needed = sum(needed[share] for share in self._shares)
        # How many times as much epsilon there is. If it is more than needed, pure noise is less.
        surplus = epsilon * all_shares / all_needed
        if surplus <= 1:
            return usual
        return {share: self._pure_noise(share, needed[share] * surplus, users) for share in usual}

    def _noise_of_streams(self) -> list[AdditiveNoise]:
        """Return the noise of each kind of share, with how often it looks at a user."""
        return [
            replace(noise, stream_norm=Exact(self._times[share]).column_norm(noise.order))
            for share, noise in self._levels.items()
        ]

    def save(self) -> bytes:
        """Return where the draws are. PRIVATE."""
        facts = {"shares": self._settings(), "noise": self._source.state()}
        return pack("shared budget", self.asked, facts, {})

    def restore(self, data: bytes) -> None:
        """Go on from a saved state, in a new budget that was made with the same arguments."""
        state = unpack(data, "shared budget", released=0)
        if self.asked or state.facts["shares"] != self._settings():
            raise StateError(
                "the state belongs to another budget, or this one was spent from already"
            )
        self.asked = state.generation
        self._source.restore(state.facts["noise"])

    def _settings(self) -> str:
        distributions = {noise.distribution for noise in self._levels.values()}
        k_norm_noise = sorted(distributions & {"cube", "ball"})
        return identify([[one.share, one.bound] for one in self._shares], k_norm_noise)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a budget cannot be copied or pickled: two copies would spend it twice; "
            "use save and restore"
        )
