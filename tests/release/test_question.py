"""One release of a log: a question of a user's own is checked, charged and answered like those of
the package.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import confide
from confide.audit.verify import verify
from confide.errors import BudgetExceeded, InvalidParameter
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.identity import Identity
from confide.logs import in_memory
from confide.mechanisms import noise_source
from confide.privatizers import Share
from confide.release import DeltaWarning, LogQuestion, release
from confide.trajectory import LoggedUsers

PRIVATE = confide.CentralDP(1.0, 1e-6)
STATES = 3


@dataclass(frozen=True)
class Counts:
    """Noisy visits [s]."""

    values: np.ndarray
    certificate: object

    def to_bytes(self):
        return self.values.tobytes()


@dataclass(frozen=True)
class Visits(LogQuestion[Counts]):
    """How many users visit each state."""

    states: int
    refused: bool = False

    def identity(self):
        return Identity("visits", 1, states=self.states, refused=self.refused)

    def _statistic(self):
        return FirstVisitReturns(FirstVisits(self.states, self.states), 1.0, 0.5, 0.5)

    def queries(self, logs, privacy):  # noqa: ARG002
        if self.refused:
            raise InvalidParameter("refused")
        return [Share(self._statistic().bound, 1.0, "visits")]

    def answer(self, sums):
        released = sums.release(self._statistic())
        return Counts(released.values[: self.states], sums.certificate("visits"))

    def read_answer(self, data):
        return Counts(np.frombuffer(data), None)

    def counted(self, trajectories, steps):
        return f"{trajectories} {steps}"


class Untouchable:
    """A log that must not be read."""

    assumptions = ()

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        raise AssertionError("the log was read")


@pytest.fixture
def log():
    places = np.arange(101)
    return in_memory(
        LoggedUsers(np.zeros(100, int), np.zeros(100), places, places, np.ones(100, bool))
    )


@pytest.fixture
def ledger(tmp_path):
    return confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=1.2, delta=1e-5)


def test_a_question_of_ones_own_is_answered_with_a_certificate(log):
    made = release(Visits(STATES), log, privacy=PRIVATE, noise=noise_source("fast", 0))
    assert made.values[0] == pytest.approx(100, abs=30) and abs(made.values[1]) < 30
    assert verify(made.certificate).epsilon == pytest.approx(1.0, rel=1e-5)


def test_the_budget_is_charged_once_and_keeps_the_answer(log, ledger):
    first, same = (
        release(
            Visits(STATES), log, privacy=PRIVATE, budget=ledger, noise=noise_source("fast", seed)
        )
        for seed in (0, 1)
    )
    assert (first.values == same.values).all() and len(ledger.spends) == 1
    with pytest.raises(BudgetExceeded):
        release(Visits(STATES), Untouchable(), privacy=PRIVATE, budget=ledger, id="again")


def test_what_a_question_refuses_is_refused_before_the_charge(ledger):
    with pytest.raises(InvalidParameter, match="refused"):
        release(Visits(STATES, refused=True), Untouchable(), privacy=PRIVATE, budget=ledger)
    assert not ledger.spends


def test_the_charge_is_on_the_disk_before_the_log_is_read(log, ledger):
    class Killed(Exception):
        pass

    class Dying(type(log)):
        __slots__ = ()

        def total(self, statistic, *, progress=None):  # noqa: ARG002
            assert [spend.released for spend in ledger.spends] == [False]
            raise Killed

    dying = Dying(log.caps, log.assumptions, log.parts)
    with pytest.raises(Killed):
        release(Visits(STATES), dying, privacy=PRIVATE, budget=ledger)
    spent = ledger.spent
    release(Visits(STATES), log, privacy=PRIVATE, budget=ledger)
    assert ledger.spent == spent and [spend.released for spend in ledger.spends] == [True]


def test_a_method_and_the_function_are_the_same_release(log):
    one = Visits(STATES).release(log, privacy=PRIVATE, rng=np.random.default_rng(3))
    other = release(Visits(STATES), log, privacy=PRIVATE, noise=noise_source("fast", 3))
    assert (one.values == other.values).all()


def test_a_large_delta_causes_a_warning(log):
    with pytest.warns(DeltaWarning):
        Visits(STATES).release(
            log, privacy=confide.CentralDP(1.0, 0.5), rng=np.random.default_rng(0)
        )
