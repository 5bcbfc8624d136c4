"""The public API under hostile arguments: a bounded part of what benchmarks/fuzz_api.py does."""

import math
import os

import numpy as np
import pytest
from calls import cases, fuzz, public_names
from data import fuzz_data
from hostile import VALUES
from methods import fuzz_methods

import confide
from confide import arguments, offline, problems
from confide.errors import InvalidParameter
from confide.evaluation import DPLSL
from confide.identity import Identity
from confide.mechanisms import FastSource, noise_source
from confide.privatizers import SharedBudget
from confide.statistics.bounds import RegressionRows


def test_every_public_name_has_a_case(tmp_path):
    assert public_names() <= {name.split(",")[0].split(".")[0] for name in cases(tmp_path)}


def test_no_call_ends_in_a_raw_error(tmp_path, monkeypatch):
    # A text is a valid name of a file, so files may be written.
    monkeypatch.chdir(tmp_path)
    counts, failures = fuzz(tmp_path, calls=600, seed=5, seconds=60)
    raw = [one for one in failures if one[0].kind == "raw"]
    assert counts["endless"] == 0
    assert raw == []
    # Otherwise the fuzzer has lost its teeth.
    assert counts["refused"] > 300


@pytest.mark.parametrize(
    ("called", "message"),
    [
        (lambda: problems.lock(states=0), "states must be at least 2, got states=0"),
        (lambda: problems.lock(states=10**6), "do not fit into memory"),
        (lambda: problems.make("lock", horizon=-1), "horizon must be at least 1, got horizon=-1"),
        (lambda: confide.GaussianDP(True), "mu must be a number, non-negative, got mu=True"),
        (lambda: confide.JointDP(1e-320, delta=0.0), "epsilon must be at least 1e-30"),
        (lambda: confide.JointDP(10**400, delta=0.0), "epsilon must be positive and finite"),
        (lambda: agent(episodes=math.nan), "episodes must be a whole number, got episodes=nan"),
        (
            lambda: confide.run(agent(), problems.lock(), seed=1.5),
            "seed must be a whole number, got seed=1.5",
        ),
        (lambda: FastSource(0), "rng must be a numpy.random.Generator, got rng=0"),
        (lambda: questions(episodes="x"), "episodes must be a whole number, got episodes='x'"),
        (lambda: questions(privacy=1), "privacy must be JointDP, LocalDP or NoPrivacy, got int"),
        (
            lambda: problems.lock().optimal_policy.act("x", None, 1),
            "step must be a whole number, got step='x'",
        ),
        (
            lambda: problems.lock().optimal_policy.act(0, 99, 1),
            "state must be at most 19, got state=99",
        ),
        (lambda: offline.PrivateModel(*range(12)), "table must be LoggedTable, got table=0"),
        (
            lambda: optimisation(regularizer=1),
            "regularizer must be a function of a regression, got regularizer=1",
        ),
        (
            lambda: optimisation(regularizer=id),
            "regularizer.regression. must be what the regularizer of a regression has",
        ),
        (lambda: budget(()), "shares must contain at least one share, got none"),
        (
            lambda: observing(iter([])),
            "users must be Trajectories or TransitionCounts, got a value of type list_iterator",
        ),
        (
            lambda: confide.agents.Round(1, None),
            "policies must be a tuple of at least one policy, got 1",
        ),
        (
            lambda: confide.agents.Learner(
                confide.agents.Calibration(1, 2), privacy=PRIVACY, identity=Identity("none")
            ),
            "schedule must be Schedule or AtMost",
        ),
        (
            lambda: DPLSL(states=2, ridge=1.0, return_bound=1.0, calibration=np.zeros(2)),
            "calibration must be one of tight, paper, supplement",
        ),
        (
            lambda: RegressionRows(2, 2).l1_sensitivity(np.zeros(2)),
            "relation must be",
        ),
        (
            lambda: confide.explain(agent(), problem=3),
            "problem must be a problem, such as confide.problems.lock",
        ),
    ],
)
def test_the_argument_is_named(called, message):
    with pytest.raises(InvalidParameter, match=message):
        called()


def test_no_method_of_a_public_object_ends_in_a_raw_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts, failures = fuzz_methods(tmp_path, calls=500, seed=5, seconds=60)
    assert [one for one in failures if one[0].kind in ("raw", "endless")] == []
    assert counts["refused"] > 150


@pytest.mark.filterwarnings("ignore")
def test_hostile_users_data_end_in_no_raw_error_and_no_crash():
    totals, defects = fuzz_data(objects=100, seed=5)
    assert defects == []
    assert totals["refused"] > 15
    assert totals["returned"] > 30


PRIVACY = confide.JointDP(1.0, 1e-5)


def agent(episodes=50, **options):
    return confide.agents.UCRLVTR(
        problems.lock().public, episodes=episodes, privacy=PRIVACY, **options
    )


def questions(*, episodes=50, privacy=PRIVACY):
    return confide.agents.QuestionsVI(problems.lock().public, episodes=episodes, privacy=privacy)


def optimisation(**options):
    return confide.agents.LinOptPO(problems.lock().public, episodes=50, privacy=PRIVACY, **options)


def budget(shares):
    return SharedBudget(
        shares, privacy=confide.CentralDP(1.0, 1e-6), noise=noise_source("fast", 0), users=3
    )


def observing(users):
    one = agent(noise=noise_source("fast", 0))
    one.next_batch()
    one.observe(users)


def test_numbers_are_not_names_of_files():
    """open(1, "wb") would write to standard output, and close it."""
    problem = problems.riverswim()
    for wrong in (1, True, 1.5, None, b"x", ""):
        for called in (
            problem.save,
            problems.load_problem,
            problem.optimal_policy.save,
            confide.Run.load,
            confide.Ledger,
        ):
            with pytest.raises(InvalidParameter, match="must be"):
                called(wrong)
    # The standard output is still open.
    os.fstat(1)


CHECKS = {
    "whole": lambda value: arguments.whole("x", value, at_least=0),
    "real": lambda value: arguments.real("x", value, above=0, below=1),
    "choice": lambda value: arguments.choice("x", value, ("a", "b")),
    "flag": lambda value: arguments.flag("x", value),
    "text": lambda value: arguments.text("x", value),
    "path": lambda value: arguments.path("x", value),
    "kind": lambda value: arguments.kind("x", value, complex),
    "has": lambda value: arguments.has("x", value, ("no_such_member",), "something"),
    "listed": lambda value: arguments.listed("x", value, str),
    "array": lambda value: arguments.array("x", value, ndim=2),
    "integers": lambda value: arguments.integers("x", value),
    "generator": lambda value: arguments.generator("x", value),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_checks_take_anything(check):
    """A value is returned, or refused in one short line that names the argument; most hostile
    values are refused.
    """
    refused = []
    for value in [*VALUES, 10**5000]:
        try:
            check(value)
        except InvalidParameter as error:
            refused.append(str(error))
    assert len(refused) > len(VALUES) / 3
    assert all(
        text.startswith("x must be ") and len(text) < 250 and text.isprintable() for text in refused
    )


def test_whole_numbers_of_numpy_are_whole_numbers():
    import numpy as np

    assert (
        arguments.whole("x", np.int8(3), at_least=1) == 3
        and type(arguments.whole("x", np.int8(3))) is int
    )
    assert arguments.real("x", np.float32(0.5), at_least=0, at_most=1) == 0.5
    assert arguments.real("x", math.inf, at_least=0, finite=False) == math.inf
