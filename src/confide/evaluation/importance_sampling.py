"""Importance sampling: the value of another policy than the one that was followed.

There are three kinds: plain, per decision, and weighted. `identity()` names a release in a ledger,
and texts of queries are in certificates. What may be changed freely is everything after
`sums.release`: it is post-processing.
"""

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
from confide.evaluation.options import (
    AGAINST,
    BEHAVIOUR,
    CENTRE,
    CLIP,
    INTERVAL_SHARE,
    TARGET,
    Option,
)
from confide.evaluation.parameters import numbers, real
from confide.evaluation.policy_values import RETURN_SCALE, PolicyValues
from confide.evaluation.two_parts import BANDS, TwoReleases
from confide.evaluation.weight_contributions import ReturnRow, WeightedReturns
from confide.identity import Identity
from confide.policy import FinitePolicy, StochasticPolicy
from confide.privacy.bounded import Array
from confide.privacy.request import Relation, Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user, keep
from confide.release.sums import LogSource, LogSums

# Public probabilities of logged actions are at least this. A matter of taste: noise may have made
# one zero.
_SMALLEST_PROBABILITY = 1e-4
# A warning is printed if the clip takes off more than this share of the weight. A matter of taste.
_CLIPPED_SHARE_TO_WARN = 0.05
_ABOUT_CLIPPED_WEIGHTS = (
    "the value with clipped weights, "
    "which is the policy's value only if no weight is above the clip,"
)
# Scales of the numbers in a user's row. They are on the grid of the bound, and leave about the
# least noise in the value. Any scales are private.
_SCALES = {
    Relation.REPLACE: {"count": 0.5, "worth": 0.609375, "logged": 0.203125, "clipped": 0.25},
    Relation.NULL: {"count": 0.5, "worth": 1.0, "logged": 0.3125, "clipped": 0.25},
}
# Without weights in the row, counts and returns can have more of the budget.
_SCALES_PER_DECISION = {
    Relation.REPLACE: {"count": 1.6875, "worth": 1.0, "logged": 0.328125, "clipped": 0.40625},
    Relation.NULL: {"count": 0.6875, "worth": 1.0, "logged": 0.328125, "clipped": 0.40625},
}


class PolicyEstimator(TwoReleases):
    """An estimator of the value of a policy from weighted returns.

    The value of the logged policy is estimated from the same rows.
    """

    __slots__ = ()
    target: Array | FinitePolicy
    against: Array | FinitePolicy | None
    clip: float
    behaviour: npt.ArrayLike | None

    def _keep_policies(self) -> None:
        """Check the parameters that both kinds have."""
        self._keep_shared()
        target = _probabilities("target", self.target)
        clip = real("clip", self.clip, "positive and finite", 1e-6, 1e9)
        keep(self, target=target, clip=clip, behaviour=_behaviour(self.behaviour, target))
        if self.against is None:
            return
        against = _probabilities("against", self.against)
        if against.shape[1:] != target.shape[1:]:
            raise InvalidParameter.of(
                "against",
                f"must have the states and actions of the target, {target.shape[1:]}",
                got=f"{against.shape[1:]}",
            )
        keep(self, against=against)

    @property
    def _per_decision(self) -> bool:
        return bool(getattr(self, "per_decision", False))

    @property
    def _self_normalised(self) -> bool:
        return False

    @property
    def policies(self) -> Array:
        """[policy, h, s, a]: the target, and the policy that it is compared with."""
        policies = [np.asarray(self.target)]
        if self.against is not None:
            policies.append(np.asarray(self.against))
        steps = max(len(policy) for policy in policies)
        return np.stack(
            [np.broadcast_to(policy, (steps, *policy.shape[1:])) for policy in policies]
        )

    @property
    def about(self) -> str:
        if self._per_decision:
            return _ABOUT_CLIPPED_WEIGHTS
        about = "the policy's value, whatever was clipped,"
        if self.behaviour is not None:
            about += " if actions were taken with the stated probabilities,"
        return about

    def counted(self, trajectories: int, steps: int) -> str:
        _, states, actions = np.asarray(self.target).shape
        mean = "" if trajectories == 1 else "; a user contributes their mean"
        bias = "do not cover" if self._per_decision else "cover"
        rules = [
            f"returns are clipped to {self._range}",
            f"{first_of_user(trajectories, steps)}{mean}",
            f"weights above {self.clip:g} are clipped to {self.clip:g}, "
            f"and the intervals {bias} the resulting bias",
            f"a user with a state of {states:,} or more or an action of {actions:,} or more, "
            "outside the target's table, or with a missing outcome, contributes zero and is left "
            "out",
        ]
        return "; ".join(rules)

    def statistic(self, relation: Relation = Relation.REPLACE) -> WeightedReturns:
        """What is added up over users.

        Weights, returns and counts are in the same query as weighted returns.
        """
        scales = (_SCALES_PER_DECISION if self._per_decision else _SCALES)[Relation(relation)]
        policies = self.policies
        bound = ReturnRow(len(policies), self._per_decision, **scales)
        returns = self._returns
        return WeightedReturns(
            bound,
            np.ascontiguousarray(policies),
            float(self.clip),
            float(self.discount),
            returns.centre,
            returns.radius,
            self.behaviour,  # type: ignore[arg-type]
        )

    def warnings(self, estimate: ValueEstimate) -> list[ConfideWarning]:
        return clipping_warnings(estimate)

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:
        policies = self.policies
        _check_log(logs, policies.shape[1], has_behaviour=self.behaviour is not None)
        bound = self.statistic(Relation(privacy.relation)).bound
        moments = Bands(BANDS, self._moments)
        return self._shares(bound, "sums of weights and of weighted returns", moments)

    @property
    def _moments(self) -> int:
        """For how many coordinates second moments are released: returns, weights and products."""
        return 1 + len(self.policies) * (1 if self._per_decision else 2)

    def answer(self, sums: LogSums) -> ValueEstimate:
        statistic = self.statistic(Relation(sums.privacy.relation))
        answer = sums.release(statistic)
        scales = statistic.bound.scales
        row = answer.values / scales
        moments = None
        if self.interval_share > 0:
            moments = self._second_moments(sums, statistic, row)
        values = PolicyValues(
            row=row,
            noise=answer.noise.std / scales,
            moments=moments,
            users=answer.users,
            policies=statistic.bound.policies,
            clip=float(self.clip),
            centre=self._returns.centre,
            radius=self._returns.radius,
            per_decision=self._per_decision,
            self_normalised=self._self_normalised,
        )
        value, noise_std = values.value(0)
        return ValueEstimate(
            np.full(1, value),
            np.full(1, noise_std),
            sums.guarantee,
            sums.certificate(self.identity().kind),
            values.lowest,
            values.highest,
            released=values.to_arrays(),
        )

    def _second_moments(self, sums: LogSums, statistic: WeightedReturns, row: Array) -> Array:
        """The sum over users of r r^T, where r = (RETURN_SCALE g, a_k, b_k) minus its mean.

        r is zero for a user who does not count. It is linear in a user's row, because the mean is
        taken away as often as the user counts. It is at most as long as that of a corner of the set
        of rows, because a convex function is largest in a corner.
        """
        bound = statistic.bound
        d = self._moments
        count = max(float(row[0]), 1.0)
        mean = np.clip(row[1 : 1 + d] / count, -1.0, 1.0)
        # [coordinate of the row in natural units, coordinate of r]
        linear = np.zeros((bound.size, d))
        linear[1 : 1 + d] = np.eye(d)
        linear[0] = -mean
        linear[:, 0] *= RETURN_SCALE
        gain = np.ascontiguousarray(linear / bound.scales[:, None])
        top = float(np.linalg.norm(bound.corners @ gain, axis=1).max())
        bands = ResidualBands(statistic, gain, np.zeros(d), top, Bands(BANDS, d))
        answer = sums.release(bands)
        return bands.sum_all_bands(answer.values, answer.noise.std)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ImportanceSampling(PolicyEstimator):
    """V = (sum of users' rho F) / (number of users that count), F the return.

    rho = min(clip, product of target / logged probabilities) is the user's weight.

    Guarantee: central, one user (all trajectories of one person), replaced or contributing zero;
    exact sums, one noisy release of the sums and one of second moments, on one budget. The number
    of users in the log is public.

    - `target` is public: a policy, or probabilities [s, a] or [h, s, a]. A policy with one step
      holds at every step.
    - `against`: another policy, with which the target is compared (`ValueEstimate.difference`).
      Without it the target is compared with the logged policy, whose value is estimated from the
      same rows.
    - `per_decision`: each reward gets the weight of the steps up to it, which varies less than the
      weight of the whole trajectory.
    - `clip` is what noise is proportional to, and must be chosen from public knowledge: how the
      policies differ and how long trajectories are say how large rho gets, and a public model can
      be simulated.
    - `behaviour` [s, a]: the public probabilities of actions, for logs without them, such as
      `PrivateModel.behaviour` from a release. Then intervals do not cover the errors of these
      probabilities.

    A user counts once, with the mean over trajectories, so the value is that of a user drawn at
    random, from the states where users started. Logs need actions and the probabilities with which
    they were taken. `values` has the one value. Without noise it is the textbook's estimate over
    the users whose rows are complete, with clipped weights, and not outside the range of returns.
    How many users count is released.

    Clipping biases: weights above the clip count as `clip`. The bias is at most the range of
    returns times E[(rho - clip)_+] = 1 - E[min(rho, clip)]. How many weights were above the clip is
    released, and the mean clipped weight. Intervals cover the bias (`PolicyValues`; not with
    `per_decision`, whose weights are not released).

    Intervals: noise, and sampling from the released second moments of users' rows, on
    `interval_share` of the budget; with 0 there are none. Without noise they are the textbook's.

    Reference: [Precup00].
    """

    target: Annotated[Array | FinitePolicy, TARGET]
    discount: float = 1.0
    _: KW_ONLY
    return_bound: float = field(kw_only=True)
    clip: Annotated[float, CLIP] = 10.0
    per_decision: Annotated[bool, Option("weight each reward by the actions up to its step")] = (
        False
    )
    against: Annotated[Array | FinitePolicy | None, AGAINST] = None
    centre: Annotated[float | None, CENTRE] = None
    interval_share: Annotated[float, INTERVAL_SHARE] = 0.1
    behaviour: Annotated[npt.ArrayLike | None, BEHAVIOUR] = None

    def __post_init__(self) -> None:
        self._keep_policies()
        keep(self, per_decision=flag("per_decision", self.per_decision))

    def identity(self) -> Identity:
        return Identity(
            "importance-sampling",
            2,
            target=self.target,
            discount=self.discount,
            return_bound=self.return_bound,
            clip=self.clip,
            per_decision=self.per_decision,
            against=self.against,
            centre=self.centre,
            interval_share=self.interval_share,
            behaviour=self.behaviour,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WeightedImportanceSampling(PolicyEstimator):
    """V = (sum of users' rho F) / (sum of users' rho), both sums released in one query.

    Everything else is as in `ImportanceSampling`.

    The ratio is biased by O(1/users), and varies much less: it lies within the range of returns,
    and what clipping takes off is taken off above and below. Clipping still pulls the value to what
    happens where weights are low. The noise of both sums enters, and the ratio is shrunk to the
    centre where the noise is as large as the sum of weights.

    Intervals are those of the ratio: of the residuals rho (F - V), and of the noise by Fieller's
    method.
    """

    target: Annotated[Array | FinitePolicy, TARGET]
    discount: float = 1.0
    _: KW_ONLY
    return_bound: float = field(kw_only=True)
    clip: Annotated[float, CLIP] = 10.0
    against: Annotated[Array | FinitePolicy | None, AGAINST] = None
    centre: Annotated[float | None, CENTRE] = None
    interval_share: Annotated[float, INTERVAL_SHARE] = 0.1
    behaviour: Annotated[npt.ArrayLike | None, BEHAVIOUR] = None

    def __post_init__(self) -> None:
        self._keep_policies()

    @property
    def _self_normalised(self) -> bool:
        return True

    def identity(self) -> Identity:
        return Identity(
            "weighted-importance-sampling",
            2,
            target=self.target,
            discount=self.discount,
            return_bound=self.return_bound,
            clip=self.clip,
            against=self.against,
            centre=self.centre,
            interval_share=self.interval_share,
            behaviour=self.behaviour,
        )


def clipping_warnings(estimate: ValueEstimate) -> list[ConfideWarning]:
    """A warning if the clip takes off much of the weight, beyond noise and sampling.

    It is a function of the release, so it may be printed.
    """
    values = estimate.policy_values
    if values is None or values.per_decision:
        return []
    clip = values.clip
    above, above_noise = values.above(0)
    mean_weight = values.ratio(values.weight(0), 0.0, clip)
    clipped_share = 1 - mean_weight.value
    counted = max(values.counted, 1.0)
    # The variance of a weight in [0, clip] with mean 1 is at most clip.
    error = math.hypot(mean_weight.noise_std, math.sqrt(clip / counted))
    if above <= 2 * above_noise or clipped_share - 2 * error <= _CLIPPED_SHARE_TO_WARN:
        return []
    text = (
        f"the clip at {clip:g} takes off about {clipped_share:.0%} of the importance weights: "
        f"about {above:,.0f} of {counted:,.0f} users have a larger weight. The estimate is about "
        "the clipped weights; its interval covers the difference, and is wide because of it. Use a "
        "larger clip, per-decision weights, or a target closer to the policy that was followed"
    )
    return [ClippedWeightsWarning(text)]


def _behaviour(given: npt.ArrayLike | None, target: Array) -> Array | None:
    """Public probabilities of actions [s, a]. Small ones are lifted to `_SMALLEST_PROBABILITY`."""
    if given is None:
        return None
    table = numbers("behaviour", given)
    shape = target.shape[1:]
    if table.shape != shape or (table < 0).any() or (np.abs(table.sum(axis=1) - 1) > 1e-6).any():
        raise InvalidParameter.of(
            "behaviour",
            f"must be probabilities [s, a] of shape {shape} that sum to one, "
            f"got shape {table.shape}",
        )
    return np.maximum(table, _SMALLEST_PROBABILITY)


def _probabilities(name: str, target: npt.ArrayLike | FinitePolicy) -> Array:
    """Probabilities [h, s, a], as an array, because a ledger knows the question by its bytes."""
    weights = target.probabilities() if isinstance(target, FinitePolicy) else numbers(name, target)
    if weights.ndim not in (2, 3):
        raise InvalidParameter.of(
            name,
            f"must be a policy or probabilities [s, a] or [h, s, a], got shape {weights.shape}",
        )
    return StochasticPolicy(weights[None] if weights.ndim == 2 else weights).weights


def _check_log(logs: LogSource, horizon: int, *, has_behaviour: bool) -> None:
    """Check the log's layout before anything is paid.

    Users with more steps than the target would silently count as nobody, and the rest as everybody.
    """
    has_actions = all(part.layout.columns.action for part in getattr(logs, "parts", ()))
    has_probabilities = has_behaviour or getattr(logs, "has_actions", True)
    if not has_actions or not has_probabilities:
        raise InvalidParameter(
            "importance sampling needs logs with actions and the probabilities of taking them; "
            "without the latter, behaviour=model.behaviour of a released model"
        )
    max_steps = getattr(logs, "max_steps", 1)
    if 1 < horizon < max_steps:
        raise InvalidParameter(
            f"the target policy has {horizon} steps, and up to {max_steps:,} steps of a trajectory "
            f"count: open the log with max_steps={horizon} (--max-steps {horizon})"
        )
