"""Privacy losses of mechanisms in their native form; converted to (epsilon, delta) only at the end.

`epsilon_at` and `delta_at` are the exact privacy profile of the worst mechanism with that loss: the Gaussian one for
`GaussianDP`, randomised response (that fails openly with probability delta) for `PureDP` and `ApproxDP` [Kairouz15, Thm. 3.1].
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


@dataclass(frozen=True, slots=True)
class GaussianDP:
    """mu-Gaussian differential privacy: neighbouring data sets are at least as hard to distinguish as N(0, 1) and N(mu, 1) [Dong22]."""

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
    """(epsilon, delta)-differential privacy, for a mechanism of which no more is known than epsilon and delta."""

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
        real("delta", delta, at_least=0, at_most=1)
        if delta < self.delta:
            raise InvalidParameter.of(
                "delta",
                f"must be at least {self.delta:g}, the delta of this loss itself",
                got=f"{delta:g}",
                advice=": no epsilon holds below it. Ask for a larger delta, or use mechanisms with a smaller one",
            )
        if self.epsilon == math.inf or self.delta == 1:
            return 0.0 if delta == 1 else self.epsilon
        share = (delta - self.delta) / (1 - self.delta)  # of the randomised response's delta(0)
        # e^eps = e^epsilon - share (1 + e^epsilon), written so that a large epsilon does not overflow
        kept = 1 - share * (1 + math.exp(-self.epsilon))
        return max(0.0, self.epsilon + math.log(kept)) if kept > 0 else 0.0

    def delta_at(self, epsilon: float) -> float:
        real("epsilon", epsilon, at_least=0, finite=False)
        if epsilon >= self.epsilon:
            return self.delta
        gap = -math.expm1(epsilon - self.epsilon) / (1 + math.exp(-self.epsilon))
        return self.delta + (1 - self.delta) * gap

    def group(self, k: int) -> "ApproxDP":
        """The loss for k records together: a chain of k neighbours, delta growing by e^epsilon at each."""
        whole("k", k, at_least=1)
        if self.delta == 0 or (k - 1) * self.epsilon > 700:
            return ApproxDP(k * self.epsilon, 0.0 if self.delta == 0 else 1.0)
        return ApproxDP(
            k * self.epsilon,
            min(1.0, self.delta * math.fsum(math.exp(i * self.epsilon) for i in range(k))),
        )


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
        return PureDP(whole("k", k, at_least=1) * self.epsilon)


Loss = GaussianDP | PureDP | ApproxDP
NO_PRIVACY = PureDP(math.inf)


def check_loss(value: object, name: str = "loss") -> Loss:
    """The argument, if it is a privacy loss."""
    found: Loss = kind(name, value, GaussianDP, PureDP, ApproxDP)
    return found


def loss_to_json(loss: Loss) -> dict[str, Any]:
    match loss:
        case GaussianDP(mu):
            return {"kind": "gaussian", "mu": mu}
        case PureDP(epsilon):
            return {"kind": "pure", "epsilon": epsilon if math.isfinite(epsilon) else None}
        case ApproxDP(epsilon, delta):
            return {"kind": "approximate", "epsilon": epsilon, "delta": delta}


def loss_from_json(value: dict[str, Any]) -> Loss:
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
    """The largest loss that satisfies the request, in the form that fits its noise: Gaussian, or Laplace at delta = 0."""
    check_privacy_request(request, "request")
    if request.delta > 0:
        return GaussianDP(gaussian_mu(request.epsilon, request.delta))
    return PureDP(request.epsilon)


def share_of(loss: "Loss", share: float) -> "GaussianDP | PureDP":
    """The loss of a mechanism that may use this share of a budget: mechanisms whose shares add up to one have that loss together."""
    real("share", share, above=0, at_most=1)
    match loss:
        case GaussianDP(mu):
            return GaussianDP(mu * math.sqrt(share))
        case PureDP(epsilon):
            return PureDP(epsilon * share)
    raise InvalidParameter("only Gaussian and pure losses are divided")


def compose(losses: Iterable[Loss], *, delta: float = 0.0) -> Loss:
    """What all mechanisms reveal together, also when each was chosen after seeing the others' answers (losses fixed in advance).

    Gaussian losses stay Gaussian (root of the sum of squares), and pure ones pure (sum) at delta = 0. Everything else becomes the
    (epsilon, delta) that `dp-accounting`'s privacy loss distributions give at the `delta` asked for. A `delta` at which no epsilon can
    hold is refused.
    """
    real("delta", delta, at_least=0, below=1)
    parts: list[Loss] = listed("losses", losses, GaussianDP, PureDP, ApproxDP)
    gaussian = [loss for loss in parts if isinstance(loss, GaussianDP)]
    pure = [loss for loss in parts if isinstance(loss, PureDP)]
    if len(gaussian) == len(parts):
        return GaussianDP(math.hypot(*(loss.mu for loss in gaussian)))
    if len(parts) == 1:
        return parts[0]
    if len(pure) == len(parts) and delta == 0:
        return PureDP(math.fsum(loss.epsilon for loss in pure))
    return ApproxDP(_pld_epsilon(parts, delta), delta)


def _pld_epsilon(parts: list[Loss], delta: float) -> float:
    """By privacy loss distributions where their numbers are tame, else by plain addition, with half of delta for the Gaussian part."""
    mu = math.hypot(*(loss.mu for loss in parts if isinstance(loss, GaussianDP)))
    others = [loss for loss in parts if not isinstance(loss, GaussianDP)]
    epsilon = math.fsum(loss.epsilon for loss in others)
    failing = math.fsum(loss.delta_at(loss.epsilon) for loss in others)
    if failing > delta:
        largest = max(others, key=lambda loss: loss.delta_at(loss.epsilon))
        raise InvalidParameter.of(
            "delta",
            f"must be at least {failing:g}, the sum of the losses' own deltas (the largest is that of {largest})",
            got=f"{delta:g}",
            advice=". Pass a larger one, compose(losses, delta=...), or use mechanisms with smaller deltas",
        )
    if mu > 0 and failing == delta:
        raise InvalidParameter.of(
            "delta",
            f"must be larger than {failing:g}, the sum of the losses' own deltas",
            got=f"{delta:g}",
            advice=": a Gaussian loss needs a part of it. Pass a larger one: compose(losses, delta=...)",
        )
    added = epsilon + gaussian_epsilon(mu, (delta - failing) / 2)
    if not (mu == 0 or 1e-6 < mu < 50) or epsilon > 50 or delta < 1e-12:
        return added
    need("accounting", "the composition of noise that is not Gaussian")
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.from_gaussian_mechanism(1 / mu) if mu > 0 else pld.identity()
    for loss in others:
        parameters = common.DifferentialPrivacyParameters(loss.epsilon, loss.delta_at(loss.epsilon))
        total = total.compose(pld.from_privacy_parameters(parameters))
    # its Fourier transforms are good to about 1e-16
    return min(added, float(total.get_epsilon_for_delta(delta - 1e-15)))
