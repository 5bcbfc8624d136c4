"""DP-APVI with the paper's constants: golden values, true epsilon, and what it learns."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

import confide
from confide.audit.verify import verify
from confide.errors import ConfideWarning, InvalidParameter, StateError
from confide.logs import in_memory
from confide.trajectory import LoggedUsers
from papers.qiao22 import DPAPVI, PessimisticPlan
from papers.qiao22.planning import consistent, steps_of
from papers.qiao22.printed import APVISetting

pytestmark = pytest.mark.long

PRIVATE = confide.CentralDP(1.0, 1e-6)


def logged(trajectories, users=None, gaps=None):
    """Trajectories of (state, action), each of a user of their own."""
    ends = np.cumsum([0, *map(len, trajectories)])
    rows = np.array([row for one in trajectories for row in one])
    count = len(trajectories)
    users = np.arange(count + 1) if users is None else np.asarray(users)
    valid = np.ones(len(users) - 1, bool)
    return LoggedUsers(rows[:, 0], np.zeros(len(rows)), ends, users, valid, rows[:, 1], gaps=gaps)


# Two states, two actions, two steps. Action 1 in state 1 pays 1, and nothing else pays.
PAYS = np.array([[0.0, 0.0], [0.0, 1.0]])
TINY = [[(0, 0), (0, 0)]] * 20 + [[(0, 1), (1, 1)]] * 60 + [[(0, 1), (0, 0)]] * 20


def test_without_noise_it_is_pessimistic_value_iteration_on_counts():
    """Computed by hand, with iota = log(2 * 2 * 2 / .1).

    In the last step (1, 1) is worth 1, without a variance. In the first step action 1 in state 0
    leads to state 1 in 60 of 80 cases, so it is worth 3/4 - sqrt(2) sqrt(3/16 iota / 80). State 1
    was never seen there, and is worth nothing.
    """
    question = DPAPVI(states=2, actions=2, horizon=2, rewards=PAYS)
    plan = question.release(in_memory(logged(TINY)), privacy=confide.NoPrivacy())
    iota = math.log(80)
    lower = 0.75 - math.sqrt(2) * math.sqrt(3 / 16 * iota / 80)
    assert plan.values == pytest.approx(np.array([[lower, 0.0], [0.0, 1.0]]))
    assert plan.visits.tolist() == [[[20, 80], [0, 0]], [[40, 0], [0, 60]]]
    assert plan.policy.actions.tolist() == [[1, 0], [0, 1]]
    assert plan.penalties[0, 1].tolist() == [2, 2]  # H where nobody was
    assert plan.learned == 0.5


def test_golden_values_with_known_counts():
    """Computed by hand for given noisy counts, with the paper's E at rho of epsilon = 1e6."""
    setting = APVISetting(2, 2, 2, 1e6, 1e-6)
    E = setting.threshold
    iota = math.log(80)
    assert pytest.approx(4 * math.sqrt(2 * math.log(4 * 2 * 4 * 2 / 0.1) / setting.rho)) == E
    question = DPAPVI(states=2, actions=2, horizon=2, rewards=PAYS)
    exact = question.release(in_memory(logged(TINY)), privacy=confide.NoPrivacy())
    guarantee = question.release(
        in_memory(logged(TINY)), privacy=confide.CentralDP(1e6, 1e-6), rng=np.random.default_rng(0)
    ).guarantee
    plan = PessimisticPlan(setting, exact.rewards, exact.counts, exact.totals, guarantee, None)
    last = 1 - 16 * 2 * 2 * E * iota / 60
    first = (
        0.75 * last
        - math.sqrt(2) * math.sqrt(3 / 16 * last**2 * iota / (80 - E))
        - 16 * 2 * 2 * E * iota / 80
    )
    assert 0 < E < 0.1 and plan.values[1, 1] == pytest.approx(last)
    assert plan.values[0, 0] == pytest.approx(max(first, 0.0))


def deviation(counts, total, width):
    """The least largest deviation, by the paper's linear program."""
    n = counts.size
    objective = np.append(np.zeros(n), 1.0)
    near = np.vstack(
        [np.column_stack([np.eye(n), -np.ones(n)]), np.column_stack([-np.eye(n), -np.ones(n)])]
    )
    sums = np.append(np.ones(n), 0.0)
    limits = np.concatenate([counts, -counts, [total + width, width - total]])
    return linprog(objective, np.vstack([near, sums, -sums]), limits, method="highs").fun


def test_consistent_counts_solve_the_printed_program():
    rng = np.random.default_rng(0)
    for total, width in [(10.0, 2.0), (0.0, 0.5), (40.0, 3.0), (12.0, 30.0), (-5.0, 1.0)]:
        noisy = rng.normal(3, 5, 6)
        nearest = consistent(noisy, np.array([total]), np.array([0, 6]), 2 * width)
        kept = np.maximum(noisy, 0)
        total = max(total, 0.0)
        assert (nearest >= 0).all() and abs(nearest.sum() - total) <= width + 1e-9
        assert np.abs(nearest - kept).max() == pytest.approx(
            deviation(kept, total, width), abs=1e-7
        )


@pytest.mark.parametrize(("calibration", "epsilon"), [("paper", 0.776), ("tight", 1.0)])
def test_the_guarantee_states_the_true_epsilon_and_the_ledger_pays_it_once(
    tmp_path, calibration, epsilon
):
    question = DPAPVI(states=2, actions=2, horizon=2, rewards=PAYS, calibration=calibration)
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=1.2, delta=1.5e-6)
    log = in_memory(logged(TINY))
    with pytest.warns(ConfideWarning, match="nothing is learned"):
        one, same = (question.release(log, privacy=PRIVATE, ledger=ledger) for _ in range(2))
    assert one.guarantee.loss.epsilon_at(1e-6) == pytest.approx(epsilon, rel=2e-3)
    assert verify(one.certificate).epsilon == pytest.approx(epsilon, rel=2e-3)
    assert one.to_bytes() == same.to_bytes() and len(ledger.spends) == 1 and one.learned == 0
    assert one.guarantee.source != "fast"  # no seed was given


def test_noise_has_the_printed_size():
    question = DPAPVI(states=8, actions=4, horizon=6, rewards=np.ones(8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = question.release(
            in_memory(logged([[(0, 0)] * 6])), privacy=PRIVATE, rng=np.random.default_rng(0)
        )
    assert plan.counts.std() == pytest.approx(question.setting(PRIVATE).noise_std, rel=0.1)
    assert question.setting(PRIVATE).noise_std == pytest.approx(
        math.sqrt(2 * 6 / 0.01746), rel=1e-3
    )


def test_what_counts_of_a_user():
    """The first trajectory counts, up to the horizon and before the first gap.

    A user with a state that does not exist is left out.
    """
    statistic = DPAPVI(states=2, actions=2, horizon=2, rewards=PAYS).statistic()
    long = [(0, 0), (1, 1), (0, 0), (0, 0)]
    other = [(1, 0), (1, 0)]

    def cells(log):
        return statistic.contribution(log).values[: statistic.bound.cells].sum()

    assert cells(logged([long])) == 2
    assert cells(logged([long, other], users=[0, 2])) == 2
    assert cells(logged([long, other])) == 4
    assert cells(logged([long, [(2, 0), (0, 0)]])) == 2
    assert cells(logged([[(0, 0)]])) == 0  # what followed is not known
    assert cells(logged([other], users=[0, 0, 1, 1])) == 2  # users without trajectories
    assert cells(logged([long], gaps=np.array([False, True, False, False]))) == 0


def test_the_sensitivity_is_attained():
    question = DPAPVI(states=2, actions=2, horizon=3, rewards=np.ones(2))
    statistic = question.statistic()
    one, other = (statistic.contribution(logged([[(s, s)] * 3])) for s in (0, 1))
    assert one.bound.contains(one.values)
    assert np.linalg.norm(one.values - other.values) == pytest.approx(
        statistic.bound.sensitivity("replace")
    )
    assert statistic.bound.sensitivity("replace") == pytest.approx(math.sqrt(4 * 3))
    assert question.loss(confide.CentralDP(1.0, 1e-6, "null")).mu == pytest.approx(
        question.loss(PRIVATE).mu / math.sqrt(2)
    )


def test_steps_are_one_table():
    support = steps_of(2, 3, 4)
    assert support.cells == 3 * 6 * 2 + 6 and support.pairs == (4 * 2 + 1) * 3
    assert support.successors[support.indptr[6] :][:2].tolist() == [4, 5]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rewards": np.ones((3, 2))}, "rewards must have shape"),
        ({"rewards": np.full((2, 2), 1.5)}, r"rewards must be in \[0, 1\]"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"calibration": "loose"}, "calibration must be"),
    ],
)
def test_what_is_refused(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        DPAPVI(**({"states": 2, "actions": 2, "horizon": 2, "rewards": PAYS} | wrong))


def test_pure_privacy_and_damaged_bytes_are_refused():
    question = DPAPVI(states=2, actions=2, horizon=2, rewards=PAYS)
    with pytest.raises(InvalidParameter, match="delta must be above 0"):
        question.release(in_memory(logged(TINY)), privacy=confide.CentralDP(1.0, 0.0))
    plan = question.release(in_memory(logged(TINY)), privacy=confide.NoPrivacy())
    with pytest.raises(StateError, match="not a saved plan"):
        PessimisticPlan.from_bytes(dataclasses.replace(plan, counts=plan.counts).to_bytes()[:-30])
