"""One suite for every bound: a search for the worst pair of neighbours, hostile data, exact sums,
and what a certificate says of it.

A bound is listed below once for each statistic that fills it, with a factory that says what a
user's raw data are. `attained` is how much of the stated sensitivity the search finds: (L2 null, L2
replace, L1 null, L1 replace). Where that is less than .999 the line says why.
"""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from neighbours import Choices, Reals, drawn, farthest, hostile_users

from confide.audit.verify import taken_on_trust, verify
from confide.control.contributions import ControlRows, ControlSums, ResidualRows, Residuals
from confide.errors import CertificateError, InvalidParameter
from confide.evaluation.contributions import Bands, ResidualBands
from confide.evaluation.row_contributions import VisitSums, visit_rows
from confide.evaluation.temporal_contributions import TemporalSums, longest_steps
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.evaluation.weight_contributions import ReturnRow, WeightedReturns
from confide.linear_mdps.contributions import NextStates, StoredTransitions
from confide.mechanisms.additive import sensitivity_of
from confide.mechanisms.counters import Exact
from confide.mechanisms.sources import noise_source
from confide.mechanisms.symmetric import MIRRORED
from confide.mixtures.code_contributions import TransitionSums
from confide.mixtures.code_features import best_codes
from confide.mixtures.contributions import Both, PairedTargets, StackedRows, ValueTargets
from confide.mixtures.questions.contributions import AnswerSums
from confide.mixtures.value_features import raw, reduced
from confide.offline.gain_contributions import Gains, Moments, Shortfalls
from confide.offline.return_contributions import TableReturns
from confide.offline.table_features import LoggedTable, step_ranges
from confide.offline.transition_contributions import RootCounts, RootTransitions
from confide.planners.reward_features import centred_rewards
from confide.privacy import CentralDP, Relation
from confide.privacy.bounded import Bounded, L2Ball
from confide.privacy.certificate import Certificate, certify, describe
from confide.privatizers import CentralPrivatizer, every_episode
from confide.problems import SuccessorFeatures, latent, lock, lock_rewards
from confide.release.logged_returns import LoggedReturns, ReturnMoments
from confide.statistics.bounds import RegressionRows, WeightedRows
from confide.statistics.transitions import RewardTargets
from confide.tables.contributions import BudgetedCounts, BudgetedVisits
from confide.tables.support_features import support_of
from confide.trajectory import LoggedUsers, Trajectories

pytestmark = pytest.mark.kernels

ORDERS = list(itertools.product((2, 1, np.inf), (Relation.NULL, Relation.REPLACE)))
EXACT = (0.999,) * 4


@dataclasses.dataclass(frozen=True)
class Case:
    """A bound, the raw data of one user (`kinds`), and how a list of users is turned into a
    contribution.
    """

    bound: object
    kinds: dict
    # A function from a list of users to a `Bounded`.
    contribution: object
    attained: tuple = EXACT
    because: str = ""
    # What a user sends who is not there. None is zero.
    nobody: object = None

    def sent(self, user):
        return self.contribution([user]).values

    def stated(self, order, relation):
        return sensitivity_of(self.bound, "inf" if order == np.inf else order, relation)

    @property
    def absent(self):
        return np.zeros(self.bound.size) if self.nobody is None else self.nobody


def vector(ball, *, attained=EXACT, because=""):
    """One vector per user."""

    def contribution(users):
        contributions = [ball.clip(user["vector"]) for user in users]
        return sum(contributions[1:], start=contributions[0])

    return Case(ball, {"vector": Reals((ball.size,), ball.radius)}, contribution, attained, because)


def rows(bound, *, attained=EXACT, because=""):
    """One row and one target per step."""
    scale = max(getattr(bound, "row_norm", 1.0), getattr(bound, "target", 1.0))
    kinds = {
        "rows": Reals((bound.steps, bound.dimension), scale),
        "targets": Reals((bound.steps,), scale),
    }
    return Case(
        bound, kinds, lambda users: _regressed(bound, users, "rows", "targets"), attained, because
    )


def stacked(bound, *, attained=EXACT, because=""):
    """Rows and targets of two regressions."""
    first = bound.first
    second = bound.second
    kinds = {
        "rows": Reals((first.steps, first.dimension)),
        "targets": Reals((first.steps,)),
        "second_rows": Reals((second.steps, second.dimension)),
        "second_targets": Reals((second.steps,)),
    }

    def contribution(users):
        both = (
            _regressed(first, users, "rows", "targets"),
            _regressed(second, users, "second_rows", "second_targets"),
        )
        return bound.contribution(*both)

    return Case(bound, kinds, contribution, attained, because)


def _regressed(bound, users, rows, targets):
    step = np.tile(np.arange(bound.steps), len(users))
    X = np.concatenate([user[rows] for user in users])
    y = np.concatenate([user[targets] for user in users])
    return bound.clip_and_add(step, X, y, np.ones(len(step), dtype=np.int64), users=len(users))


def table(statistic, states, actions, horizon, *, attained=EXACT, because=""):
    """A trajectory through states and actions that can be listed."""
    kinds = {"states": Choices((horizon + 1,), states), "actions": Choices((horizon,), actions)}
    kinds["rewards"] = Reals((horizon,))
    bound = statistic.contribution(_together([drawn(kinds, np.random.default_rng(0))])).bound
    return Case(
        bound, kinds, lambda users: statistic.contribution(_together(users)), attained, because
    )


def responses(features, values, *, attained=EXACT, because=""):
    """A response of stored transitions, for a public question about values alone: with rewards it
    is rounded as a whole.
    """

    def contribution(users):
        stored = StoredTransitions(features, 1)
        stored.add(_together(users))
        return stored.response(0, values)

    S, A, d = features.shape
    kinds = {"states": Choices((2,), S), "actions": Choices((1,), A), "rewards": Reals((1,))}
    return Case(L2Ball(1.0, d), kinds, contribution, attained, because)


def episode(statistic, horizon, *, attained=EXACT, because=""):
    """An episode of a linear system."""
    n = statistic.bound.states
    d = statistic.bound.inputs
    kinds = {
        "states": Reals((horizon + 1, n)),
        "actions": Reals((horizon, d)),
        "rewards": Reals((horizon,)),
    }
    return Case(
        statistic.bound,
        kinds,
        lambda users: statistic.contribution(_together(users)),
        attained,
        because,
    )


def _together(users):
    return Trajectories(
        *(np.stack([user[name] for user in users]) for name in ("states", "actions", "rewards"))
    )


def logged(
    statistic, states, *, trajectories=1, steps=1, repeated=1, actions=0, attained=EXACT, because=""
):
    """A logged user with so many trajectories of so many steps, each of them `repeated` times."""
    shape = trajectories, steps
    kinds = {"states": Choices(shape, states), "rewards": Reals(shape, 2.0)}
    if actions:
        kinds |= {
            "actions": Choices(shape, actions),
            "probabilities": Reals(shape, 0.1, low=1e-12, high=1.0),
        }

    def contribution(users, valid=True):
        columns = {
            name: np.concatenate([user[name].repeat(repeated) for user in users]) for name in kinds
        }
        paths = steps * repeated * np.arange(trajectories * len(users) + 1)
        offsets = trajectories * np.arange(len(users) + 1)
        optional = columns.get("actions"), columns.get("probabilities")
        people = np.full(len(users), valid)
        return statistic.contribution(
            LoggedUsers(columns["states"], columns["rewards"], paths, offsets, people, *optional)
        )

    nobody = contribution([drawn(kinds, np.random.default_rng(0))], valid=False).values
    return Case(statistic.bound, kinds, contribution, attained, because, nobody)


def visits(features, most, balance):
    features = np.ascontiguousarray(features, dtype=float)
    scales = np.ones(len(features))
    return VisitSums(
        visit_rows(features, scales, most, balance), features, scales, most, 1.0, 0.5, 0.5
    )


AT_THE_CLIP = "the search seldom finds a weight that equals the clip and is not above it"


def weights(bound, *, attained=EXACT, because=""):
    policies = np.stack([TARGET, TARGET[:, :, ::-1]])[: bound.policies]
    statistic = WeightedReturns(bound, np.ascontiguousarray(policies), 4.0, 0.5, 0.5, 0.5)
    return logged(statistic, 2, steps=2, actions=2, attained=attained, because=because)


def first_visits(*sizes):
    return FirstVisitReturns(FirstVisits(*sizes), 1.0, 0.0, 1.0)


def temporal(features, radius, discount):
    x = np.ascontiguousarray(features, dtype=float)
    reach = longest_steps(x, x, discount=discount, balance=1.0)
    return TemporalSums(
        L2Ball(radius, x.shape[1] * (x.shape[1] + 1)), x, x, reach, 1.0, discount, 0.5, 0.5
    )


def bands(bound):
    """The residual of a user who is not there is as long as a band allows."""
    inner = visits(np.eye(3), 3, 1.0)
    gain = 8 * np.random.default_rng(0).normal(size=(inner.bound.size, bound.dimension))
    return ResidualBands(
        inner, gain, np.full(bound.dimension, 2 / math.sqrt(bound.dimension)), 4.0, bound
    )


def value_and_reward_targets():
    bound = StackedRows(2, 2, 1.05, 3, 3, 2.1, 0.5)
    rewards = RewardTargets(bound.second, centred_rewards(LOCK_REWARDS.public.reward_features))
    return Both(bound, ValueTargets(bound.first, reduced(3), LOCK_REWARDS.kernels, VALUES), rewards)


def value_targets_twice():
    bound = RegressionRows(4, 2, row_norm=0.3, target=0.3)
    half = dataclasses.replace(bound, steps=2)
    parts = (
        ValueTargets(half, reduced(3), LOCK_REWARDS.kernels, each, 1.0)
        for each in (VALUES, VALUES**2)
    )
    return PairedTargets(bound, *parts)


def budgeted(steps, *, layers=1, weights=None, balance=0.0):
    support = support_of(
        None, layers=layers, states=4 if layers == 1 else 3, actions=2, terminal=None
    )
    bound = BudgetedCounts(support.cells, support.pairs, steps, balance)
    return BudgetedVisits(
        support,
        np.full(support.pairs, math.sqrt(1 / steps)) if weights is None else np.array(weights),
        bound,
    )


def root_counts(
    transitions,
    *,
    states=3,
    actions=2,
    starts=True,
    total=0.5,
    reward=0.0,
    support=None,
    cuts=False,
    root=True,
):
    cells = support_of(support, layers=1, states=states, actions=actions, terminal=None)
    bound = RootCounts(
        cells.cells,
        cells.pairs,
        states if starts else 0,
        transitions,
        total,
        reward,
        cuts=cuts,
        root=root,
    )
    return RootTransitions(bound, cells, states, 10_000)


def paying(low=0.0, high=1.0):
    """Two states and actions, rewards in a range, the second state terminal."""
    support = support_of(None, layers=1, states=2, actions=2, terminal=np.array([False, True]))
    return LoggedTable(2, 2, 0.5, support, np.array([False, True]), None, low, high, -10.0, 10.0)


def gains(clip):
    """Of a policy that always takes the first action, half of the time."""
    rest = step_ranges(paying(), 2)[1]
    target = np.array([[1.0, 0.0], [1.0, 0.0]])
    changed = np.ones(2, bool)
    return Gains(Moments(-1 / clip, 1 - 1 / clip), paying(), target, changed, rest, 1.0, clip)


def returns(*, whole):
    """Of two steps, the second state terminal."""
    bound = FirstVisits(1 if whole else 2, 1 if whole else 2, 1, math.sqrt(2.75), 1.0)
    most = step_ranges(paying(), 2)[1]
    return TableReturns(bound, paying(), most, float(most[-1]) / 2, float(most[-1]) / 2, whole)


def shortfalls(low):
    table = paying(low, 1.0)
    least, most = step_ranges(table, 2)
    return Shortfalls(Moments(0.0, 1.0), table, most, float(least[-1]))


def feature_targets(directions, *, length=5.0, nonnegative=False):
    """Rows of features in R^2 that a function returns: along the angle `directions[s]`, turned by a
    right angle for the second action.

    They are longer than the bound allows, so all of them are clipped to it.
    """

    def features(s, a):
        angle = directions[s] + a * math.pi / 2
        return [0], [[length * math.cos(angle), length * math.sin(angle)]]

    kernel_features = SuccessorFeatures.from_function(features, states=3, actions=2, dimension=2)
    if nonnegative:
        kernel_features = replace_features(
            kernel_features, np.abs(np.round(kernel_features.features, 12))
        )
    bound = RegressionRows(1, 2, 1.0, 1.0, math.sqrt(2), nonnegative)
    return ValueTargets(
        bound, raw(2), kernel_features, np.array([[0.0] * 3, [1.0, -1.0, 1.0]]), 1.0
    )


def replace_features(kernel_features, features):
    return dataclasses.replace(kernel_features, features=features)


SMALL_LOCK = lock(0, states=5, actions=2, horizon=3, jump=2)
LOCK_REWARDS = lock_rewards(0, states=5, actions=2, horizon=3, jump=2)
VALUES = np.vstack([np.random.default_rng(0).uniform(0, 3, size=(3, 5)), np.zeros(5)])
LATENT = latent(0, states=3, actions=2, dimension=3, horizon=3)
SIGNED = np.array([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.6, 0.8]], [[-0.6, 0.8], [0.5, -0.5]]])
TARGET = np.array([[[0.25, 0.75], [1.0, 0.0]]])
LONG = 3 * np.random.default_rng(0).random((3, 2, 4))
GUESS = np.array([[0.3, 0.1], [-0.2, 0.4], [0.0, 0.3]])
BY_L2 = "L1 is stated by way of L2, as if a difference were spread evenly over all coordinates"
CENTRED = "zero lies between the rows of the table, and in L1 null is stated as replace is"
LINKED = "where one step ends the next one starts, which the bound does not use"
QUESTIONS = np.random.default_rng(0).choice(
    np.array([-1, 0, 1], dtype=np.int8), size=(3, 5, 2, 5), p=[0.45, 0.1, 0.45]
)
CASES = {
    "ball": vector(L2Ball(2.0, 3)),
    "regression": rows(RegressionRows(1, 2), attained=(0.999, 0.999, 0.999, 0.95), because=BY_L2),
    "regression, balanced": rows(
        RegressionRows(1, 3, balance=1.05), attained=(0.999, 0.999, 0.999, 0.92), because=BY_L2
    ),
    "regression, long rows": rows(
        RegressionRows(1, 2, row_norm=2.0, target=0.5, balance=3.0),
        attained=(0.999, 0.999, 0.999, 0.98),
        because=BY_L2,
    ),
    "regression, heavy targets": rows(
        RegressionRows(1, 2, balance=3.0), attained=(0.999, 0.999, 0.999, 0.85), because=BY_L2
    ),
    "regression, nonnegative": rows(
        RegressionRows(2, 2, nonnegative=True), attained=(0.999, 0.999, 0.999, 0.9), because=BY_L2
    ),
    "regression, nonnegative, heavy": rows(
        RegressionRows(1, 3, balance=2.0, nonnegative=True),
        attained=(0.999, 0.999, 0.999, 0.9),
        because=BY_L2,
    ),
    "regression, mirrored": rows(
        RegressionRows(1, 3, balance=1.05, off_diagonal=MIRRORED),
        attained=(0.999, 0.999, 0.999, 0.9),
        because=BY_L2,
    ),
    "regression, nonnegative, mirrored": rows(
        RegressionRows(1, 2, balance=1.2, nonnegative=True, off_diagonal=MIRRORED),
        attained=(0.999, 0.999, 0.999, 0.93),
        because=BY_L2,
    ),
    "weighted": rows(
        WeightedRows(1, 2, balance=1.05), attained=(0.999, 0.999, 0.96, 0.98), because=BY_L2
    ),
    "weighted, heavy targets": rows(
        WeightedRows(2, 3, balance=3.0), attained=(0.999, 0.999, 0.97, 0.98), because=BY_L2
    ),
    "stacked": stacked(
        StackedRows(1, 2, 1.05, 1, 2, 2.1, 0.5), attained=(0.999, 0.999, 0.96, 0.98), because=BY_L2
    ),
    "stacked, plain": stacked(
        StackedRows(1, 2, 1.4, 1, 2, 1.0, plain=True),
        attained=(0.999, 0.999, 0.999, 0.95),
        because=BY_L2,
    ),
    "stacked, nonnegative": stacked(
        StackedRows(1, 2, 1.4, 1, 2, 1.0, 2.125, plain=True, nonnegative=True),
        attained=(0.999, 0.999, 0.999, 0.9),
        because=BY_L2,
    ),
    "stacked, mirrored": stacked(
        StackedRows(1, 2, 1.4, 1, 2, 1.0, plain=True, off_diagonal=MIRRORED),
        attained=(0.999, 0.999, 0.999, 0.95),
        because=BY_L2,
    ),
    "answers": table(AnswerSums(np.array([0, 1, 1]), QUESTIONS), 5, 2, 3),
    "budgeted counts": table(budgeted(4), 4, 2, 4),
    "budgeted counts, unequal weights": table(
        budgeted(4, weights=[0.7, 0.3, 0.5, 0.45, 0.62, 0.2, 0.55, 0.66]),
        4,
        2,
        4,
        attained=(0.98, 0.98, 0.95, 0.95),
        because="weights are public, and not every sum of them is one",
    ),
    "budgeted counts, rewards": table(budgeted(2, balance=180 / 256), 4, 2, 2),
    "budgeted counts, steps differ": table(budgeted(2, layers=2, balance=0.5), 3, 2, 2),
    "answers about rewards": table(
        AnswerSums(np.array([0, 1, 1]), QUESTIONS, np.array([False, True, True])), 5, 2, 3
    ),
    "value targets": table(
        ValueTargets(WeightedRows(2, 2, 1.05), reduced(3), LOCK_REWARDS.kernels, VALUES),
        5,
        2,
        3,
        attained=(0.93, 0.98, 0.88, 0.84),
        because="kernels and values are public, and not every row can be had; " + BY_L2,
    ),
    # Rows may point in opposite directions, so the worst pair is 2 sqrt(2) apart.
    "value targets, signed features": table(
        feature_targets([0.0, math.pi / 4, math.pi]),
        3,
        2,
        1,
        attained=(0.999, 0.999, 0.999, 0.8),
        because="features are public, and not every row can be had; " + BY_L2,
    ),
    # Rows have a nonnegative product, so the worst pair is sqrt(6) apart.
    "value targets, nonnegative features": table(
        feature_targets([0.0, math.pi / 4, math.pi / 2], nonnegative=True),
        3,
        2,
        1,
        attained=(0.999, 0.999, 0.999, 0.9),
        because=BY_L2,
    ),
    "value and reward targets": table(
        value_and_reward_targets(),
        5,
        2,
        3,
        attained=(0.93, 0.96, 0.65, 0.69),
        because="kernels and values are public, and not every row can be had; " + BY_L2,
    ),
    "two value targets": table(
        value_targets_twice(),
        5,
        2,
        3,
        attained=(0.999, 0.98, 0.92, 0.8),
        because="kernels and values are public, and not every row can be had; " + BY_L2,
    ),
    "codes": table(
        TransitionSums(best_codes(SMALL_LOCK.public.kernels, size="diameter"), 2),
        5,
        2,
        3,
        attained=(0.999, 0.999, 0.5, 0.999),
        because=CENTRED,
    ),
    "codes for L1": table(
        TransitionSums(best_codes(SMALL_LOCK.public.kernels, size="l1_diameter"), 1),
        5,
        2,
        1,
        attained=(0.999, 0.999, 0.62, 0.999),
        because=CENTRED,
    ),
    "next states": table(
        NextStates(np.eye(6).reshape(3, 2, 6), 2, 0.5),
        3,
        2,
        2,
        attained=(0.999, 0.97, 0.999, 0.999),
        because=LINKED,
    ),
    "next states, latent": table(
        NextStates(LATENT.features, 2),
        3,
        2,
        2,
        attained=(0.999, 0.98, 0.999, 0.999),
        because=LINKED,
    ),
    "next states, long": table(
        NextStates(LONG, 2), 3, 2, 2, attained=(0.999, 0.97, 0.999, 0.96), because=LINKED
    ),
    "next states, signed": table(
        NextStates(SIGNED, 2, 3.0), 3, 2, 2, attained=(0.999, 0.999, 0.999, 0.94), because=LINKED
    ),
    "responses": responses(
        SIGNED,
        np.array([1.0, -1.0, 0.5]),
        attained=(0.999, 0.999, 0.98, 0.98),
        because="no row lies on the diagonal",
    ),
    "control": episode(
        ControlSums(ControlRows(2, 1, cap=3.0, weight=0.7), gain=1.0, shock=0.1),
        12,
        attained=(0.999, 0.999, 0.93, 0.94),
        because=BY_L2,
    ),
    "control, entries of the triangle": episode(
        ControlSums(ControlRows(2, 1, cap=3.0, weight=0.7, off_diagonal=1.0), gain=1.0, shock=0.1),
        12,
        attained=(0.999, 0.999, 0.85, 0.9),
        because=BY_L2,
    ),
    "residuals": episode(
        Residuals(ResidualRows(2, 1, 0.5), GUESS, clip=0.4, cap=1.5, reach=2.0),
        3,
        attained=(0.999, 0.96, 0.93, 0.81),
        because="one factor clips both parts, so they rarely reach their bounds together; " + BY_L2,
    ),
    "residuals, loose cap": episode(
        Residuals(ResidualRows(2, 1, 0.5), np.zeros((3, 2)), clip=0.4, cap=1e9, reach=2.0),
        1,
        attained=(0.89, 0.94, 0.63, 0.66),
        because="second moments far below their cap add nothing",
    ),
    "residuals, scaled": episode(
        Residuals(
            ResidualRows(2, 1, 0.5),
            GUESS,
            clip=0.4,
            cap=1.5,
            reach=2.0,
            scales=np.array([1.0, 1.0, 8.0]),
        ),
        3,
        attained=(0.999, 0.96, 0.92, 0.78),
        because="as without scales",
    ),
    "residuals, alone": episode(
        Residuals(ResidualRows(2, 1, 0.0), np.zeros((3, 2)), clip=0.4, cap=1.0, reach=2.0), 1
    ),
    "first visits": logged(first_visits(4, 2, 1), 4, steps=2),
    "first visits, all states": logged(first_visits(3, 3, 1, math.sqrt(3)), 3, steps=3),
    "first visits, several": logged(first_visits(3, 2, 3, 0.5), 3, trajectories=3, steps=2),
    "first visits, some common": logged(first_visits(4, 3, 1, 1.7), 4, steps=3),
    "first visits, heavy counts": logged(first_visits(4, 2, 1, 2.5), 4, steps=2),
    "first visits, squares": logged(first_visits(2, 1, 1, math.sqrt(0.75), 1.0), 2),
    "first visits, squares, all states": logged(
        first_visits(2, 2, 1, math.sqrt(2.75), 1.0), 2, steps=2
    ),
    "first visits, squares, some common": logged(first_visits(3, 2, 1, 0.3, 1.6), 3, steps=2),
    "visits": logged(
        visits(np.eye(6), 3, 0.7),
        6,
        trajectories=3,
        attained=(0.999, 0.999, 0.46, 0.65),
        because=BY_L2,
    ),
    "visits, all states": logged(
        visits(np.eye(4), 4, 1.4),
        4,
        trajectories=4,
        attained=(0.999, 0.999, 0.74, 0.53),
        because=BY_L2,
    ),
    "visits, groups of states": logged(
        visits(np.eye(3)[[0, 0, 1, 1, 2, 2]], 2, 1.0),
        6,
        trajectories=2,
        attained=(0.999, 0.999, 0.46, 0.66),
        because=BY_L2,
    ),
    "visits, heavy returns": logged(
        visits(np.ones((1, 1)), 1, 2.0), 1, attained=(0.999, 0.999, 0.94, 0.7), because=BY_L2
    ),
    "visits, dense": logged(
        visits(np.random.default_rng(3).normal(size=(5, 3)) / 2, 3, 1.0),
        5,
        trajectories=3,
        attained=(0.999, 0.74, 0.7, 0.51),
        because="sums over pairs of states are bounded one by one; " + BY_L2,
    ),
    "temporal differences": logged(
        temporal([[1.0], [-1.0]], 2000.0, 1.0),
        2,
        repeated=1600,
        attained=(0.999, 0.999, 0.7, 0.7),
        because=BY_L2,
    ),
    "root counts": logged(
        root_counts(3), 3, steps=4, actions=2, attained=(0.999, 0.999, 0.999, 0.999)
    ),
    "root counts, rewards": logged(root_counts(3, reward=0.5), 3, steps=4, actions=2),
    "root counts, cuts": logged(root_counts(3, reward=0.5, cuts=True), 3, steps=4, actions=2),
    "counts of weight one": logged(
        root_counts(3, reward=0.5, cuts=True, root=False), 3, steps=4, actions=2
    ),
    "root counts, heavy rewards": logged(
        root_counts(3, reward=1.0, starts=False), 3, steps=4, actions=2
    ),
    "root counts, several": logged(
        root_counts(4, total=0.0, reward=0.25), 3, trajectories=4, steps=2, actions=2
    ),
    "returns": logged(returns(whole=True), 2, steps=2, actions=2),
    "returns from states": logged(returns(whole=False), 2, steps=2, actions=2),
    "gains": logged(gains(4.0), 2, steps=2, actions=2),
    "gains, small clip": logged(gains(1.25), 2, steps=2, actions=2),
    "shortfalls": logged(shortfalls(0.0), 2, steps=2, actions=2),
    "shortfalls, losses": logged(shortfalls(-1.0), 2, steps=2, actions=2),
    "bands": logged(bands(Bands(6, 2)), 3, trajectories=3),
    "logged returns": logged(LoggedReturns(2, 1.0, 0.5, 0.5), 2, steps=2),
    "logged returns, light counts": logged(
        LoggedReturns(2, 1.0, 0.5, 0.5, ReturnMoments(0.25)), 2, trajectories=2
    ),
    "weights": weights(ReturnRow()),
    "weights, light returns": weights(ReturnRow(worth=0.3, logged=0.05, clipped=1.0)),
    "weights, heavy returns": weights(
        ReturnRow(worth=2.5, logged=1.0), attained=(0.999, 0.998, 0.999, 0.96), because=AT_THE_CLIP
    ),
    "weights, as under null": weights(
        ReturnRow(worth=1.0, logged=0.3125),
        attained=(0.999, 0.99, 0.999, 0.999),
        because=AT_THE_CLIP,
    ),
    "weights, two policies": weights(
        ReturnRow(policies=2), attained=(0.999, 0.98, 0.999, 0.999), because=AT_THE_CLIP
    ),
    "weights, per decision": weights(
        ReturnRow(1, True, count=1.6875, logged=0.328125, worth=1.0, clipped=0.40625)
    ),
    "weights, two policies per decision": weights(
        ReturnRow(2, True, count=1.6875, logged=0.328125, worth=1.0, clipped=0.40625)
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def shares(case, order):
    """Of what is stated: how far apart the worst pairs are, under null and under replace. Somebody
    whose data make no sense may be either of two neighbours, too."""
    null, replace = (case.stated(order, relation) for relation in (Relation.NULL, Relation.REPLACE))
    claimed = case.attained[:2] if order == 2 else case.attained[2:]
    alone = farthest(
        case.kinds, case.sent, order=order, nobody=case.absent, enough=claimed[0] * null
    )
    replaced = max(alone, farthest(case.kinds, case.sent, order=order, enough=claimed[1] * replace))
    return alone / null, replaced / replace


@pytest.mark.parametrize("order", [2, 1])
def test_the_worst_pairs_are_as_far_apart_as_is_stated(case, order):
    """Never farther. As far as the line says, and less than 3 % above that, so that lines stay
    true.
    """
    for share, claimed in zip(
        shares(case, order), case.attained[:2] if order == 2 else case.attained[2:], strict=True
    ):
        assert claimed <= share <= 1 + 1e-12
        assert claimed == 0.999 or (case.because and share < claimed + 0.03)


def test_hostile_data_stay_within_the_bound(case):
    """Not a number, infinite, huge, tiny, an index that does not exist: no error, no warning, and
    no pair farther apart than stated.
    """
    with np.errstate(all="raise"):
        sent = [case.sent(user) for user in hostile_users(case.kinds, np.random.default_rng(1))]
    everybody = np.stack(
        [*sent, *(case.sent(drawn(case.kinds, np.random.default_rng(i))) for i in range(20))]
    )
    for order, relation in ORDERS:
        others = everybody if relation is Relation.REPLACE else case.absent[None]
        far = np.linalg.norm(everybody[:, None] - others[None], ord=order, axis=2).max()
        assert far <= case.stated(order, relation) * (1 + 1e-12)


@pytest.mark.parametrize(
    "name",
    [name for name, case in CASES.items() if {"states", "actions", "rewards"} == set(case.kinds)],
)
def test_states_and_actions_may_come_as_real_numbers(name):
    """Where they are indices, whole numbers mean the same, and all others do not exist."""
    case = CASES[name]
    indices = [name for name, kind in case.kinds.items() if isinstance(kind, Choices)]
    user = drawn(case.kinds, np.random.default_rng(0))
    real = user | {name: user[name].astype(float) for name in ("states", "actions")}
    np.testing.assert_array_equal(case.sent(real), case.sent(user))
    for value in (0.5, np.nan, np.inf, -1e300) if indices else (np.nan, np.inf):
        assert not case.sent(
            real | {name: np.full(user[name].shape, value) for name in ("states", "actions")}
        ).any()


def test_sums_are_the_same_bits_as_users_one_by_one(case):
    """Honest and hostile ones: on the grid, in any order."""
    rng = np.random.default_rng(2)
    users = [
        *(drawn(case.kinds, rng) for _ in range(12)),
        *itertools.islice(hostile_users(case.kinds, rng), 4),
    ]
    together = case.contribution(users)
    singles = [case.contribution([user]) for user in users]
    for order in (range(len(users)), rng.permutation(len(users))):
        total = sum((singles[i] for i in order[1:]), start=singles[order[0]])
        np.testing.assert_array_equal(total.values, together.values)
        assert total.users == together.users == len(users)
    steps = together.values / case.bound.grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert math.log2(case.bound.grid) == int(math.log2(case.bound.grid))
    assert max(np.abs(single.values).max() for single in singles) <= case.bound.largest * (1 + 1e-6)


def test_contributions_hide_their_values_and_cannot_be_made_by_hand(case):
    contribution = case.contribution([drawn(case.kinds, np.random.default_rng(3))])
    assert repr(contribution) == f"Bounded(bound={case.bound!r}, users=1)"
    with pytest.raises(ValueError, match="read-only"):
        contribution.values[:] = 1e9
    off_grid, too_large = np.full((2, case.bound.size), case.bound.grid / 2)
    too_large += 4 * math.ceil(case.bound.largest) - case.bound.grid / 2
    for values, message in ((off_grid, "not on the bound's grid"), (too_large, "too large")):
        with pytest.raises(InvalidParameter, match=message):
            Bounded(values, case.bound)


def on_grid(bound, values):
    return np.rint(values / bound.grid) * bound.grid


def shrunk(kinds, user, factor):
    """The user with all real numbers multiplied: rows so short that rounding eats them, and
    everything in between.
    """
    return {
        name: part * factor if isinstance(kinds[name], Reals) else part
        for name, part in user.items()
    }


def test_the_bound_contains_what_its_clip_yields(case):
    """Contributions of ordinary, hostile and tiny data, and of nobody, are in the bound's set."""
    rng = np.random.default_rng(4)
    users = [*(drawn(case.kinds, rng) for _ in range(100)), *hostile_users(case.kinds, rng)]
    users += [
        shrunk(case.kinds, drawn(case.kinds, rng), 10.0**-power)
        for power in range(1, 13)
        for _ in range(5)
    ]
    assert all(case.bound.contains(case.sent(user)) for user in users)
    assert case.bound.contains(np.zeros(case.bound.size)) and case.bound.contains(case.absent)


def test_the_bound_contains_no_point_beyond(case):
    """What is farther from zero than a contribution can be, in the direction of one or in any. What
    is said of it quotes no number.
    """
    rng = np.random.default_rng(5)
    bound = case.bound
    null = case.stated(2, Relation.NULL)
    points = [case.sent(drawn(case.kinds, rng)) for _ in range(30)]
    points += [rng.normal(size=bound.size) for _ in range(30)]
    for point in filter(np.any, points):
        for factor in (1.001, 1.1, 3.0, 100.0):
            beyond = on_grid(bound, point * (null * factor / np.linalg.norm(point)))
            assert not bound.contains(beyond)
            with pytest.raises(
                InvalidParameter, match=r"too large|not in the bound's set"
            ) as refused:
                Bounded(beyond, bound)
            assert not any(
                character.isdigit() for character in str(refused.value).replace("1 users", "")
            )


def test_points_that_the_bound_contains_are_no_farther_apart_than_stated(case):
    """A search over points, not over data: whatever would be accepted. A bound of a public table
    does not know its rows, and so it knows the distance from zero only."""
    rng = np.random.default_rng(6)
    bound = case.bound
    knows_rows = not getattr(bound, "of_table", False)
    points = [case.sent(drawn(case.kinds, rng)) for _ in range(40)]
    for order, relation in ORDERS:
        if relation is Relation.REPLACE and not knows_rows:
            continue
        pair = [points[0], case.absent if relation is Relation.NULL else points[1]]
        best = np.linalg.norm(pair[0] - pair[1], ord=order)
        size = 1.0
        for _ in range(400):
            which = 0 if relation is Relation.NULL else int(rng.integers(2))
            moved = on_grid(bound, changed_point(pair[which], points, rng, size))
            far = np.linalg.norm(moved - pair[1 - which], ord=order)
            accepted = far > best and bound.contains(moved)
            size = np.clip(size * (1.5 if accepted else 0.97), 1e-6, 2.0)
            if accepted:
                pair[which] = moved
                best = far
        assert best <= case.stated(order, relation) * (1 + 1e-5)


def changed_point(point, points, rng, size):
    """Longer, towards or away from another one, or moved in one coordinate or in all."""
    other = points[rng.integers(len(points))]
    way = rng.integers(5)
    if way == 0:
        return point * (1 + size * rng.random())
    if way == 1:
        return other
    if way == 2:
        return point + size * rng.normal() * (other - point)
    if way == 3:
        return point + size * rng.normal() * np.eye(len(point))[rng.integers(len(point))]
    return point + size * rng.normal(size=len(point)) / math.sqrt(len(point))


class Forgetful(Case):
    """A statistic that clips every coordinate and not the whole: the largest coordinate is within
    the bound, the contribution is not.
    """

    def sent(self, user):
        grid = self.bound.grid
        return (
            np.trunc(np.clip(user["vector"], -self.bound.radius, self.bound.radius) / grid) * grid
        )


def test_a_clip_that_is_left_out_is_refused_for_a_single_user():
    """For many users only the largest coordinate of the sum can be checked."""
    ball = L2Ball(2.0, 3)
    sent = Forgetful(ball, {}, None).sent({"vector": np.full(3, 1e9)})
    with pytest.raises(InvalidParameter, match="not in the bound's set"):
        Bounded(sent, ball)
    assert Bounded(sent, ball, 2).users == 2


def test_bounds_are_values(case):
    """Equal where all fields are, and never otherwise: what a counter takes, and what a device was
    told, is compared.
    """
    again = dataclasses.replace(case.bound)
    assert again == case.bound and hash(again) == hash(case.bound)
    for other in CASES.values():
        assert (other.bound == case.bound) == (repr(other.bound) == repr(case.bound))


@pytest.mark.parametrize(
    "request_",
    [CentralDP(1.0, 1e-5), CentralDP(1.0, delta=0.0), CentralDP(1.0, 1e-5, relation="null")],
    ids=str,
)
def test_a_certificate_says_what_the_bound_is_and_is_verified(case, request_, tmp_path):
    privatizer = CentralPrivatizer(
        case.bound,
        every_episode(4),
        privacy=request_,
        noise=noise_source("fast", 0),
        counter=Exact(4),
    )
    certificate = certify(privatizer.guarantee, [privatizer.mechanism()])
    certificate.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded.document["mechanisms"][0]["bound"] == describe(case.bound)
    assert verify(loaded).epsilon == pytest.approx(1.0, rel=1e-6)
    trusted = [
        sentence
        for sentence in taken_on_trust(loaded)
        if "the sensitivity of mechanism" in sentence
    ]
    assert not trusted, (
        "list the bound in _BOUNDS of audit/verify.py, so that its sensitivity can be recomputed"
    )
    lowered = json.loads(json.dumps(loaded.document))
    lowered["mechanisms"][0]["sensitivity"] *= 0.99
    lowered["mechanisms"][0]["scale"] *= 0.99
    with pytest.raises(CertificateError, match="its bound has sensitivity"):
        verify(Certificate(lowered))


class Unclipped:
    """A broken statistic: targets are not clipped."""

    def __init__(self, bound):
        self.bound = bound

    def __call__(self, users):
        values = np.concatenate(
            [np.append(user["rows"] ** 2, user["rows"] * user["targets"]) for user in users]
        )
        grid = self.bound.grid
        unchecked = object.__new__(Bounded)
        for name, value in (
            ("values", np.rint(values / grid) * grid),
            ("bound", self.bound),
            ("users", len(users)),
        ):
            object.__setattr__(unchecked, name, value)
        return unchecked


def test_the_search_catches_a_clip_that_is_left_out():
    honest = rows(RegressionRows(1, 1))
    broken = dataclasses.replace(honest, contribution=Unclipped(honest.bound))
    assert min(*shares(broken, 2), *shares(broken, 1)) > 1
