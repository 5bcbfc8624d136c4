"""Public parameters and arguments: refused in words, before anything is paid.

And what estimators say of themselves.
"""

import numpy as np
import pytest

import confide
from confide.errors import InvalidParameter, LogError, StateError
from confide.evaluation import (
    DPLSL,
    DPLSW,
    LSL,
    LSW,
    CountsAndSums,
    ImportanceSampling,
    PrivateLSTD,
    SufficientStatistics,
    ValueEstimate,
    WeightedImportanceSampling,
)
from confide.logs import in_memory
from confide.logs.columns import Caps
from confide.release.charge import release_id

S = 8
PRIVATE = confide.CentralDP(1.0, 1e-6)
TARGET = np.full((S, 2), 0.5)
MAKES = {
    CountsAndSums: {"states": S},
    DPLSW: {"states": S},
    DPLSL: {"states": S, "ridge": 1.0},
    LSW: {"states": S},
    LSL: {"states": S, "ridge": 1.0},
    SufficientStatistics: {"features": np.eye(S)},
    PrivateLSTD: {"features": np.eye(S)},
    ImportanceSampling: {"target": TARGET},
    WeightedImportanceSampling: {"target": TARGET},
}
MAKES = {kind: given | {"return_bound": 1.0} for kind, given in MAKES.items()}
EACH = pytest.mark.parametrize("kind", MAKES, ids=lambda kind: kind.__name__)


def each_option(*names):
    """Every estimator with those of its options that have these names."""
    cases = [(kind, name) for kind in MAKES for name in names if name in kind.__dataclass_fields__]
    return pytest.mark.parametrize(
        ("kind", "name"), cases, ids=[f"{kind.__name__}-{name}" for kind, name in cases]
    )


@each_option("discount", "return_bound", "states")
@pytest.mark.parametrize(
    "wrong", ["1", None, True, -1.0, 1e300, np.nan, 10**400], ids=lambda value: str(value)[:8]
)
def test_discount_range_and_states_are_checked_when_an_estimator_is_made(kind, name, wrong):
    with pytest.raises(InvalidParameter, match=f"^{name} must be .*, got {name}="):
        kind(**MAKES[kind] | {name: wrong})


@each_option(
    "features", "weights", "components", "target", "clip", "ridge", "centre", "interval_share"
)
def test_text_and_nan_are_no_numbers(kind, name):
    parameters = MAKES[kind] | ({"shrink": "empirical-bayes"} if name == "components" else {})
    for wrong in ("much", [[np.nan]] * S, *([None] if name in MAKES[kind] else [])):
        with pytest.raises(InvalidParameter, match=f"^{name} must be"):
            kind(**parameters | {name: wrong})


def test_yes_and_no_are_true_and_false():
    with pytest.raises(InvalidParameter, match="per_decision must be True or False"):
        ImportanceSampling(**MAKES[ImportanceSampling] | {"per_decision": "no"})


@EACH
def test_numbers_of_numpy_are_numbers_and_make_the_same_question(kind):

    plain = MAKES[kind] | {"discount": 1.0, "return_bound": 2.0}
    numpys = plain | {"discount": np.float32(1), "return_bound": np.int64(2)}
    if "states" in plain:
        numpys["states"] = np.int64(S)
    one, other = kind(**plain), kind(**numpys)
    assert release_id(one.identity(), PRIVATE, []) == release_id(other.identity(), PRIVATE, [])
    assert repr(one) == repr(other)


def test_numbers_of_numpy_in_logs_and_plans(chain):
    assert repr(Caps(np.int64(2), np.int32(3))) == repr(Caps(2, 3))
    CountsAndSums(states=S, visits=np.int64(3), return_bound=1.0).plan(
        np.int64(100), PRIVATE, trajectories=np.int64(2)
    )
    assert chain.log(10).on("local", workers=np.int64(1)).check(states=np.int64(S)).users == 10


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rng": 0}, "rng must be a NumPy generator"),
        ({"noise": "secure", "rng": None}, "noise must be a source"),
        ({"progress": 3}, "progress must be a function"),
        ({"id": 7}, "id must be text"),
        ({"ledger": "budget.sqlite"}, "ledger must be a Ledger"),
        ({"logs": "stays.parquet"}, r"logs must be a log, as confide.logs.open\(path\)"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind", [kind for kind in MAKES if kind not in (LSW, LSL)], ids=lambda kind: kind.__name__
)
def test_arguments_of_the_wrong_type_are_not_paid_for(kind, wrong, message, tmp_path, chain):
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-4)
    arguments = {
        "logs": chain.log(10),
        "privacy": PRIVATE,
        "ledger": ledger,
        "rng": np.random.default_rng(0),
    } | wrong
    with pytest.raises(InvalidParameter, match=message):
        kind(**MAKES[kind]).release(arguments.pop("logs"), **arguments)
    assert not ledger.spends


def test_the_plain_estimators_check_their_log_too():
    with pytest.raises(InvalidParameter, match="logs must be a log"):
        LSW(states=S, return_bound=1.0).release("stays.parquet")


def test_many_states_take_no_table_of_all_pairs():
    DPLSW(states=200_000, return_bound=1.0)
    assert (
        len(
            DPLSL(states=200_000, ridge=1.0, return_bound=1.0).solve(
                np.ones(200_000), np.ones(200_000)
            )
        )
        == 200_000
    )


@pytest.mark.parametrize("kind", [ImportanceSampling, WeightedImportanceSampling])
def test_a_target_that_is_shorter_than_trajectories_may_be_is_refused(kind, tmp_path):
    from confide.trajectory import LoggedUsers

    one = np.arange(2)
    user = LoggedUsers(
        np.zeros(1, np.int64),
        np.ones(1),
        one,
        one,
        np.ones(1, bool),
        np.zeros(1, np.int64),
        np.full(1, 0.5),
    )
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-4)
    short = kind(np.tile(TARGET, (5, 1, 1)), return_bound=1.0)
    with pytest.raises(InvalidParameter, match=r"has 5 steps, and up to 6 steps .*--max-steps 5"):
        short.release(
            in_memory(user, max_steps=6),
            privacy=PRIVATE,
            ledger=ledger,
            rng=np.random.default_rng(0),
        )
    assert not ledger.spends
    short.release(in_memory(user, max_steps=5), privacy=PRIVATE, rng=np.random.default_rng(0))
    # The same at every step.
    same = kind(TARGET, return_bound=1.0)
    same.release(in_memory(user, max_steps=6), privacy=PRIVATE, rng=np.random.default_rng(0))


class Broken:
    """A log that is found to be damaged when it is read."""

    assumptions = ()

    def __init__(self, error):
        self.error = error

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        raise self.error


@pytest.mark.parametrize("error", [LogError("damaged"), KeyboardInterrupt(), ZeroDivisionError()])
def test_an_error_after_the_charge_says_that_it_was_charged(error, tmp_path):
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-4)
    with pytest.raises(type(error)) as caught:
        CountsAndSums(states=S, return_bound=1.0).release(
            Broken(error), privacy=PRIVATE, ledger=ledger, rng=np.random.default_rng(0)
        )
    assert any(
        "charged before this error" in note and "at no further cost" in note
        for note in caught.value.__notes__
    )
    assert len(ledger.spends) == 1


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (
            CountsAndSums(states=S, return_bound=1.0),
            "the first 2 trajectories of each user are used, and the first 9 steps of each; "
            "all different states",
        ),
        (
            CountsAndSums(states=S, visits=3, return_bound=1.0),
            "the first 3 different states of a trajectory count, and values and intervals refer to",
        ),
        (
            CountsAndSums(states=S, centre=0.0, return_bound=1.0),
            "returns are clipped to [-0.5, 0.5]",
        ),
        (
            DPLSW(states=S, return_bound=1.0),
            "the first trajectory of each user is used, and its first 9 steps",
        ),
        (DPLSL(states=S, ridge=1.0, return_bound=1.0), "the first trajectory of each user is used"),
        (
            SufficientStatistics(np.eye(S), visits=3, return_bound=1.0),
            "the first 3 different states of a user count, once each",
        ),
        (
            PrivateLSTD(np.eye(S), return_bound=1.0),
            "a user's steps count while their sum is sure to stay within a norm of",
        ),
        (
            ImportanceSampling(TARGET, clip=4.0, return_bound=1.0),
            "weights above 4 are clipped to 4, and the intervals cover the resulting bias",
        ),
        (
            WeightedImportanceSampling(TARGET, return_bound=1.0),
            "a state of 8 or more or an action of 2 or more, outside the target's table, "
            "or with a missing outcome, contributes zero",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_counts_in_words(estimator, words):
    counted = estimator.counted(2, 9)
    assert words in counted
    assert "a user with a state of 8 or more" in counted and "contributes zero" in counted


def test_reprs_are_short_and_say_shapes(chain):
    assert "features=array[8, 8]" in repr(SufficientStatistics(np.eye(S), return_bound=1.0))
    assert "target=array[1, 8, 2], discount=1.0" in repr(
        ImportanceSampling(TARGET, return_bound=1.0)
    )
    estimate = CountsAndSums(states=S, return_bound=1.0).release(
        chain.log(300), privacy=PRIVATE, rng=np.random.default_rng(0)
    )
    assert str(estimate) == repr(estimate) and len(repr(estimate)) < 200
    assert repr(estimate).startswith("ValueEstimate(8 values from 0.")
    assert "replace one user, 300 users, fast noise" in repr(estimate)


def test_estimates_from_folders_files_and_damaged_bytes(chain, tmp_path):
    estimate = CountsAndSums(states=S, return_bound=1.0).release(
        chain.log(300), privacy=PRIVATE, rng=np.random.default_rng(0)
    )
    estimate.save(tmp_path)
    for path in (tmp_path, tmp_path / "estimate.npz"):
        assert (ValueEstimate.load(path).values == estimate.values).all()
    data = estimate.to_bytes()
    for damaged in (b"", data[:50], data[: len(data) // 2], data[:-5], data[10:], None, "text"):
        with pytest.raises(StateError, match="not a saved estimate"):
            ValueEstimate.from_bytes(damaged)
    with pytest.raises(StateError, match="No such file"):
        ValueEstimate.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"return_std": np.nan}, "return_std must be finite, got NaN"),
        ({"return_std": -0.1}, "return_std must be between 0 and"),
        ({"return_std": np.ones(3)}, "return_std must be one number, or 8"),
        ({"spread": np.nan}, "spread must be between 0 and return_bound = 1"),
        ({"spread": -1.0}, "spread"),
        ({"spread": 1.5}, "spread"),
        ({"spread": "much"}, "spread"),
        ({"visit_shares": np.ones((S, 1))}, r"visit_shares .* got shape \(8, 1\)"),
        ({"visit_shares": np.full(S, np.nan)}, "visit_shares must be finite"),
        ({"trajectories": 0}, "trajectories"),
        ({"users": "many"}, "users"),
    ],
    ids=str,
)
def test_plans_refuse_what_cannot_be(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        CountsAndSums(states=S, return_bound=1.0).plan(**{"users": 100, "privacy": PRIVATE} | wrong)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in MAKES if "centre" in kind.__dataclass_fields__],
    ids=lambda kind: kind.__name__,
)
def test_a_centre_that_floating_point_cannot_tell_from_the_range_is_refused(kind):
    with pytest.raises(
        InvalidParameter,
        match="centre must be finite, and at most 1e\\+09 times return_bound from zero",
    ):
        kind(**MAKES[kind], centre=1e20)
    assert kind(**MAKES[kind] | {"return_bound": 1e12}, centre=1e20).centre == 1e20
