"""The value of another policy than the one that was followed: importance sampling, plain, per decision, and weighted."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt

from confide.arguments import flag
from confide.errors import ClippedWeightsWarning, ConfideWarning, InvalidParameter
from confide.evaluation.contributions import Bands, ResidualBands
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.linear_values import SPREAD
from confide.evaluation.options import (
    BEHAVIOUR,
    CENTRE,
    CLIP,
    INTERVAL_SHARE,
    TARGET,
    Option,
)
from confide.evaluation.parameters import numbers, real
from confide.evaluation.two_parts import BANDS, Returns, TwoReleases
from confide.evaluation.weight_contributions import WeightAndWorth, WeightedReturns
from confide.identity import Identity
from confide.policy import FinitePolicy, StochasticPolicy
from confide.privacy.bounded import Array, L2Ball, Released
from confide.privacy.request import Relation, Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user, keep
from confide.release.sums import Logs, LogSums

_RARE = 1e-4  # the least probability of an action that was logged
_MANY = 0.05  # of the weight: beyond that a clip is worth a warning
_CLIPPED = "the value with clipped weights, which is the policy's value only if no weight is above the clip,"
# where the noise on weighted returns is (about) the least
_BALANCE = {Relation.REPLACE: 1 / math.sqrt(3), Relation.NULL: 8.0}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImportanceSampling(TwoReleases):
    """V = c + (R / users) sum of users' rho g: rho = min(clip, product of target / logged probabilities), g = (F - c)/R.

    Guarantee: central, one user (all trajectories of one person), replaced or contributing zero; exact sums, one noisy release of the sum
    and one of its second moment, on one budget. The number of users is public.

    `target` is public: a policy, or probabilities [s, a] or [h, s, a]; a policy with one step holds at every step. A user counts once, with
    the mean over trajectories, so the value is that of a user drawn at random, from the states where users started. Logs need
    actions and the probabilities with which they were taken. `values` has the one value.

    `per_decision`: each reward gets the weight of the steps up to it, which varies less than the weight of the whole trajectory.

    `clip` is what noise is proportional to, and must be chosen from public knowledge: how the policies differ and how long trajectories are
    say how large rho gets, and a public model can be simulated. Clipping biases: weights above it count as `clip`, so the value is pulled
    to what happens where weights are low, and to c; by at most R E[(rho - clip)_+], which is R (1 - E[min(rho, clip)]). That is released,
    as the mean clipped weight: intervals cover it (not with `per_decision`, whose weights are not released).

    `behaviour` [s, a]: the public probabilities of actions, for logs without them, such as `PrivateModel.behaviour` from a release. Then
    intervals do not cover the errors of these probabilities.

    Reference: [Precup00]. Departures: g is centred, a control variate: as E[rho] = 1, the unclipped mean is the same, with less variance.

    Intervals: noise, and sampling from the released second moment of users' rho g, on `interval_share` of the budget; with 0 there are
    none.
    """

    target: Annotated[Array | FinitePolicy, TARGET]
    discount: float = 1.0
    _: KW_ONLY
    return_bound: float = field(kw_only=True)
    clip: Annotated[float, CLIP] = 10.0
    per_decision: Annotated[bool, Option("weight each reward by the actions up to its step")] = (
        False
    )
    centre: Annotated[float | None, CENTRE] = None
    interval_share: Annotated[float, INTERVAL_SHARE] = 0.1
    behaviour: Annotated[npt.ArrayLike | None, BEHAVIOUR] = None

    def __post_init__(self) -> None:
        self._keep_shared()
        keep(self, target=_probabilities(self.target), clip=_clip(self.clip))
        keep(self, behaviour=_behaviour(self.behaviour, np.asarray(self.target)))
        keep(self, per_decision=flag("per_decision", self.per_decision))

    def identity(self) -> Identity:
        return Identity(
            "importance-sampling",
            1,
            target=self.target,
            discount=self.discount,
            return_bound=self.return_bound,
            clip=self.clip,
            per_decision=self.per_decision,
            centre=self.centre,
            interval_share=self.interval_share,
            behaviour=self.behaviour,
        )

    @property
    def about(self) -> str:
        return _CLIPPED if self.per_decision else _about(self.behaviour)

    def counted(self, trajectories: int, steps: int) -> str:
        return _counted(self, trajectories, steps)

    def statistic(self, relation: Relation = Relation.REPLACE) -> WeightedReturns:
        """Weights are released beside weighted returns, for `warnings`: they cost nothing under `replace`, and .8 % under `null`."""
        returns, target = self._returns, np.asarray(self.target)
        limits = float(self.clip), float(self.discount), returns.centre, returns.radius
        bound = L2Ball(1.0, 1) if self.per_decision else WeightAndWorth(_BALANCE[relation])
        return WeightedReturns(bound, target, *limits, self.per_decision, self.behaviour)  # type: ignore[arg-type]

    def warnings(self, estimate: ValueEstimate) -> list[ConfideWarning]:
        return _clipped(estimate, self.clip)

    def queries(self, logs: Logs, privacy: Request) -> Sequence[Share]:
        _check_log(logs, len(np.asarray(self.target)), known=self.behaviour is not None)
        bound = self.statistic(Relation(privacy.relation)).bound
        query = (
            "sum of weighted returns"
            if self.per_decision
            else "sums of weights and of weighted returns"
        )
        return self._shares(bound, query, Bands(BANDS, bound.size))

    def answer(self, sums: LogSums) -> ValueEstimate:
        statistic = self.statistic(Relation(sums.privacy.relation))
        answer, bound = sums.release(statistic), statistic.bound
        unit, kappa = (
            self.clip / max(answer.users, 1),
            bound.balance if isinstance(bound, WeightAndWorth) else 1.0,
        )
        worth, std = answer.values[-1:] / kappa, answer.noise.std / kappa
        v, noise_std = unit * worth, np.full(1, unit * std)
        if self.per_decision:
            held = {"counts": np.ones(1), "sums": v, "count_std": np.zeros(1), "sum_std": noise_std}
            if self.interval_share > 0:
                mean = np.clip(worth / max(answer.users, 1), -1.0, 1.0)
                held["sampling_variance"] = (
                    unit**2 * _second_moments(sums, statistic, np.ones((1, 1)), -mean).ravel()
                )
        else:
            held = _weights(answer, self.clip)
            if self.interval_share > 0:
                held |= _limits(sums, statistic, answer, self.clip)
        return _estimate_of(
            sums, self.identity().kind, self._returns, np.clip(v, -1.0, 1.0), noise_std, held
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WeightedImportanceSampling(TwoReleases):
    """V = c + R (sum of users' rho g) / (sum of users' rho), both sums released in one query; otherwise as `ImportanceSampling`.

    The ratio is biased by O(1/users), and varies much less: it lies within the range of returns, and what clipping takes off is taken off
    above and below. Clipping still pulls the value to what happens where weights are low. The noise of both sums enters: the release is a
    triangle (`WeightAndWorth`), and the ratio is shrunk to the centre where the noise is as large as the sum of weights.

    Intervals are those of `ImportanceSampling`: the ratio is used for the value alone.
    """

    target: Annotated[Array | FinitePolicy, TARGET]
    discount: float = 1.0
    _: KW_ONLY
    return_bound: float = field(kw_only=True)
    clip: Annotated[float, CLIP] = 10.0
    centre: Annotated[float | None, CENTRE] = None
    interval_share: Annotated[float, INTERVAL_SHARE] = 0.1
    behaviour: Annotated[npt.ArrayLike | None, BEHAVIOUR] = None

    def __post_init__(self) -> None:
        self._keep_shared()
        keep(self, target=_probabilities(self.target), clip=_clip(self.clip))
        keep(self, behaviour=_behaviour(self.behaviour, np.asarray(self.target)))

    def identity(self) -> Identity:
        return Identity(
            "weighted-importance-sampling",
            1,
            target=self.target,
            discount=self.discount,
            return_bound=self.return_bound,
            clip=self.clip,
            centre=self.centre,
            interval_share=self.interval_share,
            behaviour=self.behaviour,
        )

    @property
    def about(self) -> str:
        return _about(self.behaviour)

    def counted(self, trajectories: int, steps: int) -> str:
        return _counted(self, trajectories, steps)

    def statistic(self) -> WeightedReturns:
        returns, target = self._returns, np.asarray(self.target)
        limits = float(self.clip), float(self.discount), returns.centre, returns.radius
        return WeightedReturns(WeightAndWorth(), target, *limits, behaviour=self.behaviour)  # type: ignore[arg-type]

    def warnings(self, estimate: ValueEstimate) -> list[ConfideWarning]:
        return _clipped(estimate, self.clip)

    def queries(self, logs: Logs, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        _check_log(logs, len(np.asarray(self.target)), known=self.behaviour is not None)
        bound = self.statistic().bound
        return self._shares(bound, "sums of weights and of weighted returns", Bands(BANDS, 2))

    def answer(self, sums: LogSums) -> ValueEstimate:
        statistic = self.statistic()
        kappa = WeightAndWorth().balance
        answer = sums.release(statistic)
        n, b = answer.values[:1], answer.values[1:] / kappa
        n_std, b_std = np.full(1, answer.noise.std), np.full(1, answer.noise.std / kappa)
        weight = np.maximum(n, 0.0) / np.maximum(
            np.maximum(n, 0.0) ** 2 + (b_std / SPREAD) ** 2, 1e-300
        )
        v = np.clip(b * weight, -1.0, 1.0)
        held = _weights(answer, self.clip)
        if self.interval_share > 0:
            held |= _limits(sums, statistic, answer, self.clip)
        noise_std = weight * np.sqrt(b_std**2 + v**2 * n_std**2)
        return _estimate_of(sums, self.identity().kind, self._returns, v, noise_std, held)


def _second_moments(sums: LogSums, statistic: WeightedReturns, gain: Array, offset: Array) -> Array:
    """The sum over users of r r^T, r = offset + row gain, of norm at most sqrt(5) [coordinate, coordinate]."""
    bands = ResidualBands(
        statistic, np.ascontiguousarray(gain), offset, math.sqrt(5), Bands(BANDS, len(offset))
    )
    answer = sums.release(bands)
    return bands.assembled(answer.values, answer.noise.std)


def _limits(
    sums: LogSums, statistic: WeightedReturns, answer: Released, clip: float
) -> dict[str, Array]:
    """Bounds of E[rho g] for any weights that were clipped, with standard deviations, and the effective sample size.

    rho_c = min(rho, clip) <= rho, E[rho] = 1 and -1 <= g <= 1, so E[rho_c (1 + g)] - 1 <= E[rho g] <= 1 - E[rho_c (1 - g)]: the two are
    2 (1 - E[rho_c]) apart, which is what the clip took off. Noise and sampling (from second moments of weights and returns together) are
    of these bounds themselves.
    """
    bound = statistic.bound
    kappa, users = bound.balance if isinstance(bound, WeightAndWorth) else 1.0, max(answer.users, 1)
    mean = np.array(
        [
            np.clip(answer.values[0] / users, 0.0, 1.0),
            np.clip(answer.values[1] / kappa / users, -1.0, 1.0),
        ]
    )
    moments = _second_moments(sums, statistic, np.diag([1.0, 1 / kappa]), -mean)
    unit = clip / users
    w, v = unit * answer.values[0], unit * answer.values[1] / kappa
    noise = (unit * answer.noise.std) ** 2 * (1 + 1 / kappa**2)
    below, above = (
        noise + unit**2 * float(np.array([s, 1]) @ moments @ np.array([s, 1])) for s in (1, -1)
    )
    effective = users * mean[0] ** 2 / max(moments[0, 0] / users + mean[0] ** 2, 1e-300)
    numbers = {
        "lower": v + w - 1,
        "lower_std": math.sqrt(below),
        "upper": v + 1 - w,
        "upper_std": math.sqrt(above),
    }
    return {name: np.full(1, value) for name, value in (numbers | {"effective": effective}).items()}


def _estimate_of(
    sums: LogSums, name: str, returns: Returns, v: Array, noise_std: Array, held: dict[str, Array]
) -> ValueEstimate:
    c, R = returns.centre, returns.radius
    guarantee, certificate = sums.guarantee, sums.certificate(name)
    return ValueEstimate(
        c + R * v, R * noise_std, guarantee, certificate, c - R, c + R, released=held
    )


def _weights(answer: Released, clip: float) -> dict[str, Array]:
    """The mean of the clipped weights, which is 1 without a clip, and the standard deviation of its noise."""
    unit = clip / max(answer.users, 1)
    return {"weight": unit * answer.values[:1], "weight_std": np.full(1, unit * answer.noise.std)}


def _clipped(estimate: ValueEstimate, clip: float) -> list[ConfideWarning]:
    """Whether the clip takes off more than `_MANY` of the weight, beyond noise and sampling. A function of the release.

    E[rho] = 1, so 1 - E[min(rho, clip)] is what the clip takes off. E[min(rho, clip)^2] <= clip E[min(rho, clip)] bounds the variance of
    the mean weight, and the effective sample size (sum w)^2 / sum w^2, from below.
    """
    if "weight" not in estimate.released:
        return []
    users = max(estimate.guarantee.users, 1)
    mean, std = (float(estimate.released[name][0]) for name in ("weight", "weight_std"))
    mean = min(max(mean, 0.0), 1.0)
    # as far as weights of mean one could be below it
    if 1 - mean - 2 * math.hypot(std, math.sqrt(clip / users)) <= _MANY:
        return []
    text = (
        f"the clip at {clip:g} takes off about {1 - mean:.0%} of the importance weights (or users contribute zero): the estimate is about "
        "the clipped weights; its interval covers the difference, and is wide because of it. The effective sample size is at least "
        f"{users * mean / clip:,.0f} of {users:,} users. Use a larger clip, per-decision weights, or a target closer to the policy "
        "that was followed"
    )
    return [ClippedWeightsWarning(text)]


def _about(behaviour: npt.ArrayLike | None) -> str:
    said = "the policy's value, whatever was clipped"
    return (
        f"{said},"
        if behaviour is None
        else f"{said}, if actions were taken with the stated probabilities,"
    )


def _behaviour(given: npt.ArrayLike | None, target: Array) -> Array | None:
    """Public probabilities of actions [s, a]; one of zero is lifted a little, because noise may have made it zero."""
    if given is None:
        return None
    table = numbers("behaviour", given)
    if (
        table.shape != target.shape[1:]
        or (table < 0).any()
        or (np.abs(table.sum(axis=1) - 1) > 1e-6).any()
    ):
        raise InvalidParameter.of(
            "behaviour",
            f"must be probabilities [s, a] of shape {target.shape[1:]} that sum to one, got shape {table.shape}",
        )
    return np.maximum(table, _RARE)


def _clip(value: float) -> float:
    return real("clip", value, "positive and finite", 1e-6, 1e9)


def _probabilities(target: npt.ArrayLike | FinitePolicy) -> Array:
    """[h, s, a], as an array: the question to a ledger is told by its bytes."""
    weights = (
        target.probabilities() if isinstance(target, FinitePolicy) else numbers("target", target)
    )
    if weights.ndim not in (2, 3):
        raise InvalidParameter.of(
            "target",
            f"must be a policy or probabilities [s, a] or [h, s, a], got shape {weights.shape}",
        )
    return StochasticPolicy(weights[None] if weights.ndim == 2 else weights).weights


def _check_log(logs: Logs, horizon: int, *, known: bool) -> None:
    """Before anything is paid. Users with more steps than the target would silently count as nobody, and the rest as everybody."""
    acted = all(part.layout.columns.action for part in getattr(logs, "parts", ()))
    if not acted or not (known or getattr(logs, "has_actions", True)):
        raise InvalidParameter(
            "importance sampling needs logs with actions and the probabilities of taking them; without the latter, "
            "behaviour=model.behaviour of a released model"
        )
    if 1 < horizon < getattr(logs, "max_steps", 1):
        raise InvalidParameter(
            f"the target policy has {horizon} steps, and up to {logs.max_steps:,} steps of a trajectory count: "  # type: ignore[attr-defined]
            f"open the log with max_steps={horizon} (--max-steps {horizon})"
        )


def _counted(
    model: "ImportanceSampling | WeightedImportanceSampling", trajectories: int, steps: int
) -> str:
    _, states, actions = np.asarray(model.target).shape
    clipped = f"returns are clipped to {model._range}"
    covered = "do not cover" if getattr(model, "per_decision", False) else "cover"
    weights = f"weights above {model.clip:g} are clipped to {model.clip:g}, and the intervals {covered} the resulting bias"
    mean = "" if trajectories == 1 else "; a user contributes their mean"
    outside = f"a user with a state of {states:,} or more or an action of {actions:,} or more, outside the target's table, contributes zero"
    return f"{clipped}; {first_of_user(trajectories, steps)}{mean}; {weights}; {outside}"
