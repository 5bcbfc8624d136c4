"""Improvement bounds: that a policy is better than the logged one by at least so much, tested on users who were held out."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide._durable import output, replace_files
from confide.arguments import choice, kind
from confide.errors import InvalidParameter, StateError
from confide.evaluation.estimate import DAMAGED
from confide.identity import Identity
from confide.logs import Logs
from confide.offline.gain_contributions import BALANCE, Gains, Moments, Shortfalls
from confide.offline.gain_planning import (
    LEVEL,
    MODEL_Z,
    MOST_EPSILON,
    MOST_MU,
    Counted,
    Mixture,
    Target,
    Z,
    lower_mean,
    mixture_for,
    value_in,
)
from confide.offline.reward_planning import lower_rewards, rewards_of
from confide.offline.row_planning import rows_of
from confide.offline.table_features import Array, Table, step_ranges
from confide.offline.transition_contributions import RootCounts, RootTransitions
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.assumption import Assumption
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import loss_for
from confide.privacy.request import NoPrivacy, Relation, Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user
from confide.release.question import LogQuestion
from confide.release.sums import LogSums

if TYPE_CHECKING:
    from confide.offline.model import PrivateModel

_FORMAT = "confide-improvement/3"
METHODS = ("auto", "weights", "model")
COUNTS_SHARE = 0.9  # of the budget for counts; the rest is for returns of the logged policy
_BASIS = {
    "weights": (
        "proved: clipping weights only lowers the mean gain, if the logged probabilities are those with which actions were taken and "
        "rewards are as stated; the level was computed for the worst two-point laws of gains "
        "(benchmarks/results/improvement_level.md), and measured: "
        "benchmarks/results/improvement.md"
    ),
    "model": "measured, not proved: 478 of 480 bounds were true in the simulations of benchmarks/results/improvement.md",
}


_LOW = (
    "What makes a bound low: noise, few users, and whatever is not known of a trajectory. It counts up to the first step that is missing, "
    "and as the worst case after it. If many cells are missing, import the log with --fill-state, --fill-action or --fill-reward"
)
_NOTHING_UNRECORDED = Assumption(
    "nothing-unrecorded",
    "Nothing that the log does not record influenced both the choice of the action and what followed. "
    "If those who decided saw more than the log contains, a bound may be false whatever its confidence is, "
    "and no test on the same log can show it.",
)
_SAME_FUTURE = Assumption(
    "same-future",
    "People who are treated in future are like those in the log, and actions do to them what they did in the log.",
)
# What a bound, or a value, assumes about how the log came about: in words for those who know where the log comes from.
ASSUMPTIONS = {
    "weights": (
        _NOTHING_UNRECORDED,
        Assumption(
            "logged-probabilities",
            "The probabilities in the log are those with which the actions were chosen.",
        ),
        _SAME_FUTURE,
    ),
    "model": (
        _NOTHING_UNRECORDED,
        Assumption(
            "state-is-enough",
            "The recorded state is enough to predict what follows: of two people in the same state who get the same action, "
            "neither has better prospects because of what happened before.",
        ),
        _SAME_FUTURE,
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Improvement:
    """PUBLIC: with confidence `level`, the value of the policy is at least `bound` above that of the logged policy.

    Values are expected returns over the first `horizon` steps of a trajectory. `share`: the statement is about following the policy with
    this probability at each step, else going on as logged; 1: about the policy itself. `clip` of the weights (method "weights").
    A bound that is not positive shows nothing.
    """

    bound: float
    method: str  # weights | model
    share: float
    clip: float | None
    horizon: int
    users: int  # who were tested on
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    level: float = LEVEL

    @property
    def shown(self) -> bool:
        return self.bound > 0

    @property
    def basis(self) -> str:
        """What is proved, and what is measured; and what makes a bound low, whatever the data are."""
        return f"{_BASIS[self.method]}. {_LOW}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What must be true of the log, besides what was computed. Nobody can test it with the log alone."""
        return ASSUMPTIONS[self.method]

    def __str__(self) -> str:
        who = (
            "the policy"
            if self.share == 1
            else f"the policy, followed at {100 * self.share:.3g} % of the steps,"
        )
        how = f"{self.users:,} people it was not learned from, method {self.method}"
        if not self.shown:
            return (
                f"not shown to be better than the logged policy: the lower bound of the gain is {self.bound:.3g} in the return of "
                f"{self.horizon:,} steps, which is not above zero (tested on {how})"
            )
        return (
            f"{who} is better than the logged policy by at least {self.bound:.3g} in the return of {self.horizon:,} steps, "
            f"with {100 * self.level:g} % confidence (tested on {how})"
        )

    def to_json(self) -> dict[str, Any]:
        names = ("bound", "method", "share", "clip", "horizon", "users", "level")
        return {name: getattr(self, name) for name in names} | {
            "shown": self.shown,
            "text": str(self),
            "basis": self.basis,
            "assumptions": [assumption.text for assumption in self.assumptions],
        }

    def to_bytes(self) -> bytes:
        """JSON: what a ledger stores, and hands out again."""
        facts = self.to_json() | {"format": _FORMAT, "guarantee": self.guarantee.to_json()}
        facts["certificate"] = self.certificate.document if self.certificate else None
        return json.dumps(facts, indent=1, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Improvement":
        try:
            held = json.loads(data)
            if held["format"] != _FORMAT:
                raise StateError(
                    f"the bound has format {held['format']}, this version of confide reads {_FORMAT}"
                )
            names = ("bound", "method", "share", "clip", "horizon", "users")
            certificate = Certificate(held["certificate"]) if held["certificate"] else None
            choice("method", held["method"], METHODS[1:])
            found = cls(
                **{name: held[name] for name in names},
                guarantee=Guarantee.from_json(held["guarantee"]),
                certificate=certificate,
            )
            str(found)
            return found
        except DAMAGED as error:
            raise StateError(
                f"this is not an improvement bound, or it is damaged or cut off: {type(error).__name__}"
            ) from None

    def save(self, folder: str | Path) -> None:
        """`improvement.json` and `improvement_certificate.json`, of its privacy, into a folder: both are public."""
        with output(Path(folder)), replace_files(Path(folder), last="improvement.json") as target:
            if self.certificate:
                self.certificate.save(target / "improvement_certificate.json")
            (target / "improvement.json").write_bytes(self.to_bytes())


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutTest:
    """What is asked of the held-out people. All fields are public: they name the release."""

    method: str
    mixture: Mixture | None
    weights: Array
    changed: Any
    horizon: int
    transitions: int
    table: Table

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
        )


class ImprovementQuestion(LogQuestion[Improvement]):
    """By how much a policy is better than the logged one. It is asked of people whom the model was not learned from."""

    gaussian = True

    def __init__(self, model: "PrivateModel", target: Target, test: HeldOutTest) -> None:
        self._model = model
        self._target = target
        self._test = test

    def identity(self) -> Identity:
        return self._test.identity()

    def _how(self) -> "MethodOfTest":
        by_weights = self._test.method == "weights"
        return (_weights_test if by_weights else _model_test)(self._model, self._test, self._target)

    def queries(self, logs: Any, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        return self._how()[0]

    def answer(self, sums: LogSums) -> Improvement:
        test = self._test
        bound, users = self._how()[1](sums)
        mixture = test.mixture
        return Improvement(
            bound,
            test.method,
            mixture.share if mixture else 1.0,
            mixture.clip if mixture else None,
            test.horizon,
            users,
            sums.guarantee,
            sums.certificate(
                f"an improvement bound, method {test.method}", ASSUMPTIONS[test.method]
            ),
        )

    def read_answer(self, data: bytes) -> Improvement:
        return Improvement.from_bytes(data)

    def counted(self, trajectories: int, steps: int) -> str:
        transitions = f"the first {self._test.transitions} transitions of a user count"
        return f"{transitions}; {first_of_user(trajectories, steps)}"


def improvement_question(
    model: "PrivateModel", target: Target, holdout: Logs, privacy: Request, method: str
) -> ImprovementQuestion:
    """See `PrivateModel.improvement`."""
    choice("method", method, METHODS)
    _check(model, holdout, privacy, method)
    return ImprovementQuestion(model, target, _asked(model, target, holdout, privacy, method))


def _check(model: "PrivateModel", holdout: Logs, privacy: Request, method: str) -> None:
    if isinstance(privacy, NoPrivacy) or isinstance(model.guarantee.request, NoPrivacy):
        raise InvalidParameter(
            "improvement bounds need privacy: without noise few people with large weights decide, and the stated level does not hold"
        )
    kind("holdout", holdout, Logs, expected="the second part of logs.split(0.5)")
    people, certificate = holdout.people, model.certificate
    learned = [] if certificate is None else certificate.assumptions
    if people is None or not people.test or people.other.assumed not in learned:
        raise InvalidParameter(
            "holdout must be people that the model was not learned from: learn, test = logs.split(0.5), release the model from learn, "
            "and give test here"
        )
    check_returns(model.table, holdout.max_steps)
    if method == "weights" and (reason := _no_weights(model, holdout, privacy)):
        raise InvalidParameter(f'method="weights" cannot be used: {reason}, or use method="model"')


def check_returns(table: Table, horizon: int) -> None:
    """Refuse a question that has no answer. All of it is public: it can be asked before a model is released."""
    low, high = step_ranges(table, horizon)
    if not high[-1] > low[-1]:
        raise InvalidParameter(
            "all returns are the same by the stated rewards: no policy is better than another"
        )


def _no_weights(model: "PrivateModel", holdout: Logs, privacy: Request) -> str:
    """Why weights cannot be used, or nothing. All of it is public."""
    most = gaussian_epsilon(MOST_MU, privacy.delta) if privacy.delta > 0 else MOST_EPSILON
    if privacy.epsilon > most:
        return (
            f"its confidence of {100 * LEVEL:g} % was shown to hold for epsilon up to {most:.3g} at delta={privacy.delta:g}, got "
            f"epsilon={privacy.epsilon:g}; choose a smaller epsilon"
        )
    table = model.table
    if not holdout.has_actions:
        return 'it needs the probabilities with which actions were taken (open the log with probability="probability")'
    least = table.reward_low if table.rewards is None else float(table.rewards.min())
    return (
        ""
        if least >= 0
        else "rewards may be negative, and clipping a weight may then raise the value"
    )


def _asked(
    model: "PrivateModel", target: Target, holdout: Logs, privacy: Request, method: str
) -> HeldOutTest:
    """Which method, and which mixture: chosen in the released model alone."""
    table, horizon = model.table, holdout.max_steps
    share = holdout.people.holdout if holdout.people else 0.5
    users = max(1, round(model.guarantee.users * share / (1 - share)))
    mixture = None
    if method != "model" and not _no_weights(model, holdout, privacy):
        mixture = mixture_for(
            model.dynamics, model.start, target, horizon, users, _noise_of(privacy)
        )
    if method == "auto":
        other = _predicted(model, target, horizon, users, privacy)
        method = "weights" if mixture is not None and mixture.predicted >= other else "model"
    document = model.certificate.document if model.certificate else {}
    transitions = int(document["mechanisms"][0]["bound"]["transitions"])
    mixture = mixture if method == "weights" else None
    return HeldOutTest(method, mixture, target.weights, target.changed, horizon, transitions, table)


def chosen_method(model: "PrivateModel", target: Target, holdout: Logs, privacy: Request) -> str:
    """What "auto" is: a function of the released model alone."""
    return _asked(model, target, holdout, privacy, "auto").method


def _noise_of(privacy: Request) -> Callable[[float], tuple[float, float]]:
    """The noise on sums of gains and of their squares, by the clip; without a delta about that of Laplace noise."""
    loss, relation = loss_for(privacy), Relation(privacy.relation)

    def noise(clip: float) -> tuple[float, float]:
        bound = _moments(clip)
        gaussian = getattr(loss, "mu", None)
        std = (
            bound.sensitivity(relation) / gaussian
            if gaussian
            else math.sqrt(2) * bound.l1_sensitivity(relation) / privacy.epsilon
        )
        return std, std / BALANCE

    return noise


def _moments(clip: float) -> Moments:
    return Moments(-1 / clip, 1 - 1 / clip)


def _predicted(
    model: "PrivateModel", target: Target, horizon: int, users: int, privacy: Request
) -> float:
    """About what the method "model" will show, with the learning part in the place of the held-out one."""
    given = _counted(
        model,
        model.counts,
        model.cuts,
        model.totals,
        model.reward_sums,
        model.starts,
        model.noise_std,
    )
    learned = model.guarantee.users
    policy, logged = (
        value_in(model.dynamics, given, _whole(model, each), horizon, learned)
        for each in (target.weights, model.behaviour)
    )
    span = float(step_ranges(model.table, horizon)[1][-1])
    noise = span * _noise_of(privacy)(1.0)[0] / math.sqrt(1 - COUNTS_SHARE) / users
    return policy.value - logged.value - MODEL_Z * math.hypot(policy.std, noise)


def _whole(model: "PrivateModel", policy: Array) -> Array:
    """A policy [s, a] with a row for the end."""
    S, A = model.dynamics.states, model.table.actions
    return np.vstack([policy, np.zeros((S - len(policy), A))])


MethodOfTest = tuple[Sequence[Share], Callable[[LogSums], tuple[float, int]]]


def _weights_test(model: "PrivateModel", question: HeldOutTest, target: Target) -> MethodOfTest:
    mixture, table = question.mixture, model.table
    assert mixture is not None
    rest = step_ranges(table, question.horizon)[1]
    bound = _moments(mixture.clip)
    gains = Gains(bound, table, target.weights, target.changed, rest, mixture.share, mixture.clip)

    def finish(sums: LogSums) -> tuple[float, int]:
        answer = sums.release(gains)
        (total, squares), std, users = answer.values, answer.noise.std, max(answer.users, 1)
        lower = lower_mean(float(total), float(squares) / BALANCE, std, std / BALANCE, users)
        return lower * mixture.clip * float(rest[-1]), answer.users

    return [
        Share(
            bound, 1.0, "gains of a mixture of the policy with the logged policy, and their squares"
        )
    ], finish


def _model_test(model: "PrivateModel", question: HeldOutTest, target: Target) -> MethodOfTest:
    table, horizon, support = model.table, question.horizon, model.table.support
    low, high = step_ranges(table, horizon)
    starts = table.states if table.start is None else 0
    bound = RootCounts(
        support.cells,
        support.pairs,
        starts,
        question.transitions,
        model.total_weight,
        model.reward_weight,
        cuts=True,
    )
    centre, radius = (
        (table.reward_low + table.reward_high) / 2,
        (table.reward_high - table.reward_low) / 2,
    )
    counts = RootTransitions(bound, support, table.states, horizon, centre, radius)
    returns = Shortfalls(Moments(0.0, 1.0), table, high, float(low[-1]))
    shares = [
        Share(bound, COUNTS_SHARE, "root-weighted counts of transitions"),
        Share(returns.bound, 1 - COUNTS_SHARE, "returns of the logged policy, and their squares"),
    ]

    def finish(sums: LogSums) -> tuple[float, int]:
        answer, short = sums.release(counts), sums.release(returns)
        given = _counted(model, *bound.unpack(answer.values), answer.noise.std)
        std, users, span = short.noise.std, max(short.users, 1), float(high[-1] - low[-1])
        mean = float(short.values[0]) / users
        second = max(float(short.values[1]) + Z * std, 0.0) / (BALANCE * users)
        done = float(high[-1]) - span * mean
        done_std = span * math.sqrt(max(second - mean**2, 0.0) / users + (std / users) ** 2)
        found = value_in(model.dynamics, given, _whole(model, target.weights), horizon, users)
        return found.value - done - MODEL_Z * math.hypot(found.std, done_std), answer.users

    return shares, finish


def _counted(
    model: "PrivateModel",
    counts: Array,
    cuts: Array,
    totals: Array,
    reward_sums: Array,
    starts: Array,
    noise: float,
) -> Counted:
    table, weight = model.table, model.total_weight
    if table.rewards is not None:
        return Counted(table, counts, cuts, totals, starts, table.rewards, noise, weight)
    rows = rows_of(counts, totals, noise, weight, table.support, cuts, table.logged_rows)
    mean, std = rewards_of(
        table, model.rows, model.reward_sums, model.noise_std / model.reward_weight
    )
    paying = mean - std > table.reward_low  # by the learning part
    rewards = lower_rewards(table, paying, rows, reward_sums, noise / model.reward_weight, MODEL_Z)
    return Counted(table, counts, cuts, totals, starts, rewards[: table.states], noise, weight)
