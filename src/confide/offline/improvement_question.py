"""The question to held-out users: by how much is a policy better than the logged one?

What leaves this file: a release of these users with its certificate, and an id in the ledger. The
method, the mixture and the shares of the budget are chosen from public numbers and from the model
that other users' data made. They may be changed; then bounds and intervals must be measured again.
The sensitivities of what is released are those of `Moments` and `RootCounts`, which clip each user.

A bound is false more often than stated if the model was learned from the same users. So the model's
certificate must name the other part of the same split: `_check` refuses everything else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from confide.arguments import choice, kind
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.logs import Logs
from confide.offline.gain_contributions import BALANCE, Gains, Moments, Shortfalls
from confide.offline.gain_planning import (
    LEVEL,
    MODEL_Z,
    MOST_EPSILON,
    MOST_MU,
    CandidatePolicy,
    Counted,
    Estimated,
    Mixture,
    Z,
    lower_mean,
    mixture_for,
    value_in,
)
from confide.offline.improvement import METHODS, VALUE_LEVEL, Improvement, assumptions_of
from confide.offline.reward_planning import lower_rewards, rewards_of
from confide.offline.row_planning import rows_of
from confide.offline.table_features import Array, LoggedTable, step_ranges
from confide.offline.transition_contributions import RootCounts, RootTransitions
from confide.offline.value_planning import HeldOutCounts, value_interval
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.bounded import Released
from confide.privacy.loss import loss_for
from confide.privacy.request import NoPrivacy, Relation, Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user
from confide.release.question import LogQuestion
from confide.release.sums import LogSums
from confide.release.value import NO_VALUE, Value, quantile

if TYPE_CHECKING:
    from confide.offline.model import PrivateModel

# The share of the budget that counts get with the method "model". The rest is for returns of the
# logged policy. Measured (benchmarks/results/improvement.md).
COUNTS_SHARE = 0.9
# The share of the budget that gains get, if the method is "weights" and the value of the policy
# gets an interval. The rest is for counts. A larger share gives higher bounds and wider intervals.
# It is a part of the id in the ledger.
GAINS_SHARE = 0.5
# If a log does not say which share of the users was held out, half of them are taken to be.
USUAL_HOLDOUT = 0.5
_ABOUT_COUNTS = "root-weighted counts of transitions"


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutTest:
    """What is asked of the held-out people.

    All fields are public. They name the release in the ledger, so none may be private.
    """

    # "weights" or "model".
    method: str
    # The mixture of the policy with the logged one, with the method "weights".
    mixture: Mixture | None
    # The probabilities of actions of the policy [s, a], and where it differs from the logged one
    # [s].
    weights: Array
    changed: Any
    horizon: int
    # How many rows of a user count.
    transitions: int
    table: LoggedTable
    # Whether the value of the policy gets an interval.
    with_value: bool

    def identity(self) -> Identity:
        mixture = self.mixture and [self.mixture.share, self.mixture.clip]
        return Identity(
            "improvement",
            1,
            method=self.method,
            mixture=mixture,
            weights=self.weights,
            changed=self.changed,
            horizon=self.horizon,
            transitions=self.transitions,
            table=self.table,
            # The method "model" releases the same with and without the value.
            **(
                {"gains_share": GAINS_SHARE} if self.method == "weights" and self.with_value else {}
            ),
        )


class ImprovementQuestion(LogQuestion[Improvement]):
    """By how much a policy is better than the logged one.

    It is asked of people whom the model was not learned from.
    """

    gaussian = True

    def __init__(self, model: "PrivateModel", target: CandidatePolicy, test: HeldOutTest) -> None:
        self._model = model
        self._target = target
        self._test = test

    def identity(self) -> Identity:
        return self._test.identity()

    def _method(self) -> "WeightsTest | ModelTest":
        if self._test.mixture is not None:
            return WeightsTest(self._model, self._test, self._target, self._test.mixture)
        return ModelTest(self._model, self._test, self._target)

    def queries(self, logs: Any, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        return self._method().queries()

    def answer(self, sums: LogSums) -> Improvement:
        test = self._test
        mixture = test.mixture
        held_out = self._method().answer(sums)
        certificate = sums.certificate(
            f"an improvement bound, method {test.method}",
            assumptions_of(test.method, with_value=test.with_value),
        )
        return Improvement(
            bound=held_out.bound,
            method=test.method,
            share=mixture.share if mixture else 1.0,
            clip=mixture.clip if mixture else None,
            horizon=test.horizon,
            users=held_out.users,
            guarantee=sums.guarantee,
            certificate=certificate,
            learned=held_out.value,
        )

    def read_answer(self, data: bytes) -> Improvement:
        return Improvement.from_bytes(data)

    def counted(self, trajectories: int, steps: int) -> str:
        transitions = f"the first {self._test.transitions} transitions of a user count"
        return f"{transitions}; {first_of_user(trajectories, steps)}"


def improvement_question(
    model: "PrivateModel",
    target: CandidatePolicy,
    holdout: Logs,
    privacy: Request,
    method: str,
    *,
    with_value: bool = False,
) -> ImprovementQuestion:
    """Choose a test for this policy, and refuse what cannot be answered.

    Arguments are those of `PrivateModel.improvement`.
    """
    choice("method", method, METHODS)
    _check(model, holdout, privacy, method)
    test = _choose_test(model, target, holdout, privacy, method, with_value=with_value)
    return ImprovementQuestion(model, target, test)


def _check(model: "PrivateModel", holdout: Logs, privacy: Request, method: str) -> None:
    """Refuse what would make the stated level false, or leave the question without an answer."""
    if isinstance(privacy, NoPrivacy) or isinstance(model.guarantee.request, NoPrivacy):
        raise InvalidParameter(
            "improvement bounds need privacy: without noise few people with large weights decide, "
            "and the stated level does not hold"
        )
    kind("holdout", holdout, Logs, expected="the second part of logs.split(0.5)")
    people = holdout.people
    certificate = model.certificate
    learned = [] if certificate is None else certificate.assumptions
    # The certificate of the model must name the other part of the same split.
    if people is None or not people.test or people.other.assumed not in learned:
        raise InvalidParameter(
            "holdout must be people that the model was not learned from: learn, test = "
            "logs.split(0.5), release the model from learn, "
            "and give test here"
        )
    check_returns(model.table, holdout.max_steps)
    if method == "weights" and (reason := _no_weights(model, holdout, privacy)):
        raise InvalidParameter(f'method="weights" cannot be used: {reason}, or use method="model"')


def check_returns(table: LoggedTable, horizon: int) -> None:
    """Refuse a question that has no answer.

    All of it is public: it can be asked before a model is released.
    """
    low, high = step_ranges(table, horizon)
    if not high[-1] > low[-1]:
        raise InvalidParameter(
            "all returns are the same by the stated rewards: no policy is better than another"
        )


def _no_weights(model: "PrivateModel", holdout: Logs, privacy: Request) -> str:
    """Why weights cannot be used, or "" if they can. All of it is public."""
    if privacy.delta > 0:
        largest_epsilon = gaussian_epsilon(MOST_MU, privacy.delta)
    else:
        largest_epsilon = MOST_EPSILON
    if privacy.epsilon > largest_epsilon:
        return (
            f"its confidence of {100 * LEVEL:g} % was shown to hold for epsilon up to "
            f"{largest_epsilon:.3g} at delta={privacy.delta:g}, got "
            f"epsilon={privacy.epsilon:g}; choose a smaller epsilon"
        )
    table = model.table
    if not holdout.has_actions:
        return (
            "it needs the probabilities with which actions were taken (open the log with "
            'probability="probability")'
        )
    least_reward = table.reward_low if table.rewards is None else float(table.rewards.min())
    if least_reward < 0:
        return "rewards may be negative, and clipping a weight may then raise the value"
    return ""


def _choose_test(
    model: "PrivateModel",
    target: CandidatePolicy,
    holdout: Logs,
    privacy: Request,
    method: str,
    *,
    with_value: bool = False,
) -> HeldOutTest:
    """Choose the method and the mixture, from the released model alone.

    If the held-out users had a part in this choice, the stated level would be false.
    """
    horizon = holdout.max_steps
    # About how many users were held out, from the released number of the others.
    holdout_share = holdout.people.holdout if holdout.people else USUAL_HOLDOUT
    users = max(1, round(model.guarantee.users * holdout_share / (1 - holdout_share)))
    mixture = None
    if method != "model" and not _no_weights(model, holdout, privacy):
        mixture = mixture_for(
            model.dynamics,
            model.start,
            target,
            horizon,
            users,
            _noise_of(privacy, GAINS_SHARE if with_value else 1.0),
        )
    if method == "auto":
        by_model = _predicted_bound(model, target, horizon, users, privacy)
        weights_are_better = mixture is not None and mixture.predicted >= by_model
        method = "weights" if weights_are_better else "model"
    # Counts of the held-out users have the same bound as those that the model was made of.
    document = model.certificate.document if model.certificate else {}
    transitions = int(document["mechanisms"][0]["bound"]["transitions"])
    return HeldOutTest(
        method=method,
        mixture=mixture if method == "weights" else None,
        weights=target.weights,
        changed=target.changed,
        horizon=horizon,
        transitions=transitions,
        table=model.table,
        # Where counts are released anyway, the value costs nothing.
        with_value=with_value or method == "model",
    )


def chosen_method(
    model: "PrivateModel", target: CandidatePolicy, holdout: Logs, privacy: Request
) -> str:
    """The method that "auto" chooses, from the released model alone."""
    return _choose_test(model, target, holdout, privacy, "auto").method


def _noise_of(privacy: Request, share: float = 1.0) -> Callable[[float], tuple[float, float]]:
    """A function from the clip to the standard deviations of the noise on sums of gains and on sums
    of their squares, with this share of the budget.

    It only predicts: what is released has its own noise level. Without a delta it is about that of
    Laplace noise, sqrt(2) times its scale.
    """
    mu = getattr(loss_for(privacy), "mu", None)
    relation = Relation(privacy.relation)

    def noise(clip: float) -> tuple[float, float]:
        bound = _moments(clip)
        if mu:
            std = bound.sensitivity(relation) / (mu * math.sqrt(share))
        else:
            std = math.sqrt(2) * bound.l1_sensitivity(relation) / (privacy.epsilon * share)
        return std, std / BALANCE

    return noise


def _moments(clip: float) -> Moments:
    """The bound of a user's gain: a weight in [0, clip], less one, divided by the clip."""
    return Moments(-1 / clip, 1 - 1 / clip)


def _predicted_bound(
    model: "PrivateModel", target: CandidatePolicy, horizon: int, users: int, privacy: Request
) -> float:
    """About what the method "model" will show, with the learning part in the place of the held-out
    one.
    """
    counts = _counts_for_bound(
        model,
        model.counts,
        model.cuts,
        model.totals,
        model.reward_sums,
        model.starts,
        model.noise_std,
    )
    learned_from = model.guarantee.users
    policy, logged = (
        value_in(model.dynamics, counts, _with_end(model, weights), horizon, learned_from)
        for weights in (target.weights, model.behaviour)
    )
    largest_return = float(step_ranges(model.table, horizon)[1][-1])
    sum_noise, _ = _noise_of(privacy)(1.0)
    returns_std = largest_return * sum_noise / math.sqrt(1 - COUNTS_SHARE) / users
    return policy.value - logged.value - MODEL_Z * math.hypot(policy.std, returns_std)


def _with_end(model: "PrivateModel", policy: Array) -> Array:
    """A policy [s, a] with a row of zeros for the end, if the model has an end."""
    missing = model.dynamics.states - len(policy)
    return np.vstack([policy, np.zeros((missing, model.table.actions))])


@dataclass(frozen=True, slots=True)
class HeldOutAnswer:
    """What a test says: the bound on the gain, the number of users, and the value of the policy."""

    bound: float
    users: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class WeightsTest:
    """The method "weights": gains of a mixture with the logged policy, by clipped weights."""

    model: "PrivateModel"
    test: HeldOutTest
    target: CandidatePolicy
    mixture: Mixture

    def queries(self) -> list[Share]:
        about = "gains of a mixture of the policy with the logged policy, and their squares"
        bound = _moments(self.mixture.clip)
        if not self.test.with_value:
            return [Share(bound, 1.0, about)]
        counts = _counts_of(self.model, self.test)
        return [
            Share(bound, GAINS_SHARE, about),
            Share(counts.bound, 1 - GAINS_SHARE, _ABOUT_COUNTS),
        ]

    def answer(self, sums: LogSums) -> HeldOutAnswer:
        mixture = self.mixture
        most_to_earn = step_ranges(self.model.table, self.test.horizon)[1]
        gains = Gains(
            _moments(mixture.clip),
            self.model.table,
            self.target.weights,
            self.target.changed,
            most_to_earn,
            mixture.share,
            mixture.clip,
        )
        released = sums.release(gains)
        total, weighted_squares = (float(number) for number in released.values)
        std = released.noise.std
        users = max(released.users, 1)
        lower = lower_mean(total, weighted_squares / BALANCE, std, std / BALANCE, users)
        value = NO_VALUE
        if self.test.with_value:
            counts = sums.release(_counts_of(self.model, self.test))
            value = _held_out_value(self.model, self.target, self.test, counts)
        # Gains were divided by the clip times the most that a return can be.
        bound = lower * mixture.clip * float(most_to_earn[-1])
        return HeldOutAnswer(bound, released.users, value)


@dataclass(frozen=True, slots=True, eq=False)
class ModelTest:
    """The method "model": a lower value of the policy, minus an upper value of the logged one."""

    model: "PrivateModel"
    test: HeldOutTest
    target: CandidatePolicy

    def queries(self) -> list[Share]:
        about_returns = "returns of the logged policy, and their squares"
        return [
            Share(_counts_of(self.model, self.test).bound, COUNTS_SHARE, _ABOUT_COUNTS),
            Share(self._returns().bound, 1 - COUNTS_SHARE, about_returns),
        ]

    def _returns(self) -> Shortfalls:
        low, high = step_ranges(self.model.table, self.test.horizon)
        return Shortfalls(Moments(0.0, 1.0), self.model.table, high, float(low[-1]))

    def answer(self, sums: LogSums) -> HeldOutAnswer:
        model = self.model
        counts = _counts_of(model, self.test)
        released_counts = sums.release(counts)
        released_returns = sums.release(self._returns())
        unpacked = counts.bound.unpack(released_counts.values)
        counted = _counts_for_bound(model, *unpacked, released_counts.noise.std)
        users = max(released_returns.users, 1)
        policy = value_in(
            model.dynamics, counted, _with_end(model, self.target.weights), self.test.horizon, users
        )
        logged = self._logged_value(released_returns, users)
        bound = policy.value - logged.value - MODEL_Z * math.hypot(policy.std, logged.std)
        value = _held_out_value(model, self.target, self.test, released_counts)
        return HeldOutAnswer(bound, released_counts.users, value)

    def _logged_value(self, released: Released, users: int) -> Estimated:
        """The mean return of the held-out users, from how far returns are below the most."""
        low, high = step_ranges(self.model.table, self.test.horizon)
        span = float(high[-1] - low[-1])
        std = released.noise.std
        mean = float(released.values[0]) / users
        # The second moment is raised by Z standard deviations of its own noise.
        second_moment = max(float(released.values[1]) + Z * std, 0.0) / (BALANCE * users)
        variance = max(second_moment - mean**2, 0.0) / users + (std / users) ** 2
        return Estimated(float(high[-1]) - span * mean, span * math.sqrt(variance))


def _counts_of(model: "PrivateModel", question: HeldOutTest) -> RootTransitions:
    """Counts of the held-out users, as those of the users from whom the model was learned."""
    table = model.table
    support = model.table.support
    bound = RootCounts(
        support.cells,
        support.pairs,
        table.states if table.start is None else 0,
        question.transitions,
        model.total_weight,
        model.reward_weight,
        cuts=True,
    )
    centre = (table.reward_low + table.reward_high) / 2
    radius = (table.reward_high - table.reward_low) / 2
    return RootTransitions(bound, support, table.states, question.horizon, centre, radius)


def _held_out_value(
    model: "PrivateModel", target: CandidatePolicy, question: HeldOutTest, answer: Released
) -> Value:
    """The value of the policy with its interval, from released counts of the held-out users."""
    bound = _counts_of(model, question).bound
    counts, cuts, totals, reward_sums, starts = bound.unpack(answer.values)
    std = answer.noise.std
    # `value_interval` does not read the rewards of these counts.
    no_rewards = np.zeros((model.table.states, model.table.actions))
    held_out_counts = HeldOutCounts(
        Counted(model.table, counts, cuts, totals, starts, no_rewards, std, model.total_weight),
        reward_sums,
        std / (model.reward_weight or 1.0),
        max(answer.users, 1),
    )
    missing = model.dynamics.states - len(target.changed)
    changed = np.append(target.changed, np.zeros(missing, bool))
    policy = CandidatePolicy(_with_end(model, target.weights), changed)
    z = quantile(VALUE_LEVEL, answer.guarantee)
    return value_interval(model.dynamics, held_out_counts, policy, question.horizon, z)


def _counts_for_bound(
    model: "PrivateModel",
    counts: Array,
    cuts: Array,
    totals: Array,
    reward_sums: Array,
    starts: Array,
    noise: float,
) -> Counted:
    """Counts with rewards: the public ones, or lower rewards from their noisy sums.

    The model decides which pairs pay more than the least, so that the held-out users have no part
    in this choice.
    """
    table = model.table
    weight = model.total_weight
    if table.rewards is not None:
        return Counted(table, counts, cuts, totals, starts, table.rewards, noise, weight)
    rows = rows_of(counts, totals, noise, weight, table.support, cuts, table.logged_rows)
    mean, std = rewards_of(
        table, model.rows, model.reward_sums, model.noise_std / model.reward_weight
    )
    paying = mean - std > table.reward_low
    rewards = lower_rewards(table, paying, rows, reward_sums, noise / model.reward_weight, MODEL_Z)
    return Counted(table, counts, cuts, totals, starts, rewards[: table.states], noise, weight)
