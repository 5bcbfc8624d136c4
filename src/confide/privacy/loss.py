"""Privacy losses of mechanisms, in their native form: mu, epsilon, or (epsilon, delta).

A loss is converted to (epsilon, delta) only at the end. `epsilon_at` and `delta_at` are the exact
privacy profile of the worst mechanism with that loss. This is the Gaussian mechanism for
`GaussianDP`. For `PureDP` and `ApproxDP` it is randomised response that fails openly with
probability delta [Kairouz15, Thm. 3.1].

A loss leaves this file as its `identity` (in ledgers and saved states), as `loss_to_json` (in
guarantees and certificates) and as text in errors. The words "gaussian-loss", "gaussian" and so on
are part of these formats and must stay.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confide._extras import need
from confide.arguments import kind, listed, real, shown, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.privacy.accounting import gaussian_delta, gaussian_epsilon, gaussian_mu
from confide.privacy.request import Request, check_privacy_request

# e^700 is near the largest floating-point number.
_LARGEST_EXPONENT = 700
# Where `_pld_epsilon` uses privacy loss distributions. Outside of these ranges their discretisation
# takes much memory or loses its digits, and plain addition is used. Taste: both are valid bounds.
_PLD_MU = (1e-6, 50)
_PLD_LARGEST_EPSILON = 50
_PLD_SMALLEST_DELTA = 1e-12
# The Fourier transforms of privacy loss distributions are good to about 1e-16. Required for
# privacy, and measured: this much of delta is not given to them.
_PLD_ROUNDING = 1e-15


@dataclass(frozen=True, slots=True)
class GaussianDP:
    """mu-Gaussian differential privacy [Dong22].

    Neighbouring data sets are at least as hard to distinguish as N(0, 1) and N(mu, 1).
    """

    mu: float

    def __post_init__(self) -> None:
        real("mu", self.mu, at_least=0, finite=False)

    def identity(self) -> Identity:
        return Identity("gaussian-loss", 1, mu=float(self.mu))

    def __str__(self) -> str:
        return f"GaussianDP(mu={self.mu})"

    def epsilon_at(self, delta: float) -> float:
        return gaussian_epsilon(self.mu, delta)

    def delta_at(self, epsilon: float) -> float:
        return gaussian_delta(epsilon, self.mu)

    def group(self, k: int) -> "GaussianDP":
        """The loss for k records together: the sensitivity is k times as large."""
        return GaussianDP(whole("k", k, at_least=1) * self.mu)


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy: nothing else is known about the mechanism."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        real("epsilon", self.epsilon, at_least=0, finite=False)
        real("delta", self.delta, at_least=0, at_most=1)

    def identity(self) -> Identity:
        return Identity("approximate-loss", 1, epsilon=float(self.epsilon), delta=float(self.delta))

    def __str__(self) -> str:
        return f"ApproxDP(epsilon={self.epsilon}, delta={self.delta})"

    def epsilon_at(self, delta: float) -> float:
        """The smallest epsilon at this delta. No epsilon holds below the loss's own delta."""
        real("delta", delta, at_least=0, at_most=1)
        if delta < self.delta:
            raise InvalidParameter.of(
                "delta",
                f"must be at least {self.delta:g}, the delta of this loss itself",
                got=f"{delta:g}",
                advice=": no epsilon holds below it. "
                "Ask for a larger delta, or use mechanisms with a smaller one",
            )
        if self.epsilon == math.inf or self.delta == 1:
            return 0.0 if delta == 1 else self.epsilon
        # Randomised response that did not fail has to spend this part of its delta.
        share = (delta - self.delta) / (1 - self.delta)
        # e^result = e^epsilon - share (1 + e^epsilon), divided by e^epsilon: a large epsilon does
        # not overflow.
        reduction = 1 - share * (1 + math.exp(-self.epsilon))
        return max(0.0, self.epsilon + math.log(reduction)) if reduction > 0 else 0.0

    def delta_at(self, epsilon: float) -> float:
        """The smallest delta at this epsilon."""
        real("epsilon", epsilon, at_least=0, finite=False)
        if epsilon >= self.epsilon:
            return self.delta
        gap = -math.expm1(epsilon - self.epsilon) / (1 + math.exp(-self.epsilon))
        return self.delta + (1 - self.delta) * gap

    def group(self, k: int) -> "ApproxDP":
        """The loss for k records together.

        Two data sets that differ in k records are joined by a chain of k neighbours. At each of
        them delta is multiplied by e^epsilon and added.
        """
        whole("k", k, at_least=1)
        epsilon = k * self.epsilon
        if self.delta == 0:
            return ApproxDP(epsilon, 0.0)
        if (k - 1) * self.epsilon > _LARGEST_EXPONENT:
            return ApproxDP(epsilon, 1.0)
        factor = math.fsum(math.exp(i * self.epsilon) for i in range(k))
        return ApproxDP(epsilon, min(1.0, self.delta * factor))


@dataclass(frozen=True, slots=True)
class PureDP:
    """epsilon-differential privacy. `PureDP(inf)` is no privacy."""

    epsilon: float

    def __post_init__(self) -> None:
        real("epsilon", self.epsilon, at_least=0, finite=False)

    def identity(self) -> Identity:
        return Identity("pure-loss", 1, epsilon=float(self.epsilon))

    def __str__(self) -> str:
        return f"PureDP(epsilon={self.epsilon})"

    def epsilon_at(self, delta: float) -> float:
        return ApproxDP(self.epsilon, 0.0).epsilon_at(delta)

    def delta_at(self, epsilon: float) -> float:
        return ApproxDP(self.epsilon, 0.0).delta_at(epsilon)

    def group(self, k: int) -> "PureDP":
        """The loss for k records together."""
        return PureDP(whole("k", k, at_least=1) * self.epsilon)


Loss = GaussianDP | PureDP | ApproxDP
NO_PRIVACY = PureDP(math.inf)


def check_loss(value: object, name: str = "loss") -> Loss:
    """Return the argument if it is a privacy loss, and refuse it otherwise."""
    loss: Loss = kind(name, value, GaussianDP, PureDP, ApproxDP)
    return loss


def loss_to_json(loss: Loss) -> dict[str, Any]:
    """A loss as plain values, for `Guarantee.to_json`."""
    match loss:
        case GaussianDP(mu):
            return {"kind": "gaussian", "mu": mu}
        case PureDP(epsilon):
            return {"kind": "pure", "epsilon": epsilon if math.isfinite(epsilon) else None}
        case ApproxDP(epsilon, delta):
            return {"kind": "approximate", "epsilon": epsilon, "delta": delta}


def loss_from_json(value: dict[str, Any]) -> Loss:
    """The loss that `loss_to_json` wrote."""
    match value["kind"]:
        case "gaussian":
            return GaussianDP(value["mu"])
        case "pure":
            return PureDP(math.inf if value["epsilon"] is None else value["epsilon"])
        case "approximate":
            return ApproxDP(value["epsilon"], value["delta"])
        case other:
            raise InvalidParameter(
                f"a loss must be gaussian, pure or approximate, got kind={shown(other)}"
            )


def loss_for(request: Request) -> GaussianDP | PureDP:
    """The largest loss that satisfies the request.

    It has the form that fits the noise: Gaussian noise if delta > 0, and Laplace noise if delta =
    0.
    """
    check_privacy_request(request, "request")
    if request.delta > 0:
        return GaussianDP(gaussian_mu(request.epsilon, request.delta))
    return PureDP(request.epsilon)


def share_of(loss: "Loss", share: float) -> "GaussianDP | PureDP":
    """The loss of a mechanism that may use this share of a budget.

    Mechanisms whose shares add up to one have the whole loss together.
    """
    real("share", share, above=0, at_most=1)
    match loss:
        case GaussianDP(mu):
            return GaussianDP(mu * math.sqrt(share))
        case PureDP(epsilon):
            return PureDP(epsilon * share)
    raise InvalidParameter("only Gaussian and pure losses are divided")


def compose(losses: Iterable[Loss], *, delta: float = 0.0) -> Loss:
    """The loss of all mechanisms together.

    Each mechanism may be chosen after seeing the answers of the others, if the losses were fixed in
    advance. Gaussian losses stay Gaussian: mu is the root of the sum of squares. Pure losses stay
    pure at delta = 0: epsilon is the sum. Everything else becomes the (epsilon, delta) that the
    privacy loss distributions of `dp-accounting` give at `delta`. A `delta` at which no epsilon can
    hold is refused.
    """
    real("delta", delta, at_least=0, below=1)
    all_losses: list[Loss] = listed("losses", losses, GaussianDP, PureDP, ApproxDP)
    gaussian = [loss for loss in all_losses if isinstance(loss, GaussianDP)]
    pure = [loss for loss in all_losses if isinstance(loss, PureDP)]
    if len(gaussian) == len(all_losses):
        return GaussianDP(math.hypot(*(loss.mu for loss in gaussian)))
    if len(all_losses) == 1:
        return all_losses[0]
    if len(pure) == len(all_losses) and delta == 0:
        return PureDP(math.fsum(loss.epsilon for loss in pure))
    return ApproxDP(_composed_epsilon(all_losses, delta), delta)


def _composed_epsilon(losses: list[Loss], delta: float) -> float:
    """The epsilon of all losses together at `delta`, the smaller of two valid bounds.

    The first bound adds: the epsilons of the losses that are not Gaussian, and the epsilon of the
    Gaussian ones at half of what is left of delta. The second one uses privacy loss distributions.
    """
    mu = math.hypot(*(loss.mu for loss in losses if isinstance(loss, GaussianDP)))
    others = [loss for loss in losses if not isinstance(loss, GaussianDP)]
    epsilon = math.fsum(loss.epsilon for loss in others)
    own_deltas = math.fsum(loss.delta_at(loss.epsilon) for loss in others)
    _check_composed_delta(delta, mu, others, own_deltas)
    added = epsilon + gaussian_epsilon(mu, (delta - own_deltas) / 2)
    smallest_mu, largest_mu = _PLD_MU
    tame_mu = mu == 0 or smallest_mu < mu < largest_mu
    if not tame_mu or epsilon > _PLD_LARGEST_EPSILON or delta < _PLD_SMALLEST_DELTA:
        return added
    need("accounting", "the composition of noise that is not Gaussian")
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.from_gaussian_mechanism(1 / mu) if mu > 0 else pld.identity()
    for loss in others:
        parameters = common.DifferentialPrivacyParameters(loss.epsilon, loss.delta_at(loss.epsilon))
        total = total.compose(pld.from_privacy_parameters(parameters))
    return min(added, float(total.get_epsilon_for_delta(delta - _PLD_ROUNDING)))


def _check_composed_delta(
    delta: float, mu: float, others: list[PureDP | ApproxDP], own_deltas: float
) -> None:
    """Refuse a delta at which no epsilon holds, because the `others` need more than that."""
    if own_deltas > delta:
        largest = max(others, key=lambda loss: loss.delta_at(loss.epsilon))
        raise InvalidParameter.of(
            "delta",
            f"must be at least {own_deltas:g}, the sum of the losses' own deltas "
            f"(the largest is that of {largest})",
            got=f"{delta:g}",
            advice=". Pass a larger one, compose(losses, delta=...), "
            "or use mechanisms with smaller deltas",
        )
    if mu > 0 and own_deltas == delta:
        raise InvalidParameter.of(
            "delta",
            f"must be larger than {own_deltas:g}, the sum of the losses' own deltas",
            got=f"{delta:g}",
            advice=": a Gaussian loss needs a part of it. "
            "Pass a larger one: compose(losses, delta=...)",
        )
