"""A release of a log in files: its id, its budget, and the folder of its answer."""

import numpy as np
import pytest

import confide
from confide.errors import BudgetExceeded, InvalidParameter
from confide.evaluation import CountsAndSums
from confide.logs import write
from confide.release.files import FileRelease
from confide.release.noise import ChosenNoise, choose_noise
from confide.trajectory import LoggedUsers

PRIVATE = confide.CentralDP(1.0, 1e-6)


def asked(files=("a.parquet",), noise="secure", name=None, ledger=None, **layout):
    return FileRelease(
        CountsAndSums(states=6, return_bound=1.0),
        PRIVATE,
        ChosenNoise(noise, "", 0 if noise == "fast" else None),
        list(files),
        {"max_steps": 9} | layout,
        ledger,
        name,
    )


def test_other_files_columns_and_caps_are_other_questions():
    ids = [
        asked().id,
        asked(("b.parquet",)).id,
        asked(noise="fast").id,
        asked(max_steps=10).id,
        asked(max_trajectories=2).id,
        asked(reward="r").id,
    ]
    assert len(set(ids)) == len(ids)
    assert asked().id == asked().id
    assert asked(name="x").id == asked(name="x").id != asked().id
    assert asked(name="x").id != asked(("b.parquet",), name="x").id


def test_a_budget_that_is_too_small_is_refused_with_the_largest_request_that_fits(tmp_path):
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=0.5, delta=1e-6)
    with pytest.raises(
        BudgetExceeded, match=r"epsilon=0\.\d+ at delta=1e-06 is the largest request"
    ):
        asked(ledger=ledger).check_budget("counts-and-sums")
    assert not ledger.spends


def test_the_answer_in_the_ledger_is_released_again_and_other_answers_stay_in_their_folder(
    tmp_path,
):
    places = np.arange(101)
    users = LoggedUsers(np.zeros(100, int), np.ones(100), places, places, np.ones(100, bool))
    write(tmp_path / "log.parquet", users)
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-4)
    files = [str(tmp_path / "log.parquet")]
    this = asked(files, "fast", ledger=ledger)
    assert this.spend() is None
    out = tmp_path / "out"
    with this.folder(out, again=False):
        logs, test = this.open()
        assert test is None
        answer = this.answer(logs, None)
    answer.save(out)
    assert this.spend().released and len(ledger.spends) == 1
    assert this.answer(logs, None).to_bytes() == answer.to_bytes() and len(ledger.spends) == 1
    other = asked(files, "fast", name="other", ledger=ledger)
    with (
        pytest.raises(InvalidParameter, match="already contains an estimate"),
        other.folder(out, again=False),
    ):
        pass
    with pytest.raises(InvalidParameter, match="contains another estimate"):
        this.check_folder(out, other.answer(logs, None))


def test_noise_is_secure_unless_fast_noise_is_requested():
    assert choose_noise(None, None, lattice=True, no_privacy=False).name == "secure"
    assert choose_noise("fast", 1, lattice=True, no_privacy=False).source() is not None
    assert choose_noise(None, None, lattice=True, no_privacy=True).name == "none"
    with pytest.raises(InvalidParameter, match="--seed needs --source fast"):
        choose_noise(None, 1, lattice=True, no_privacy=False)
