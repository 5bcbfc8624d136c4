"""Logs of other kinds: simulated, raw tables, Minari."""

import gzip
import hashlib
import json
import re
import stat
import threading

import numpy as np
import pandas
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from confide.errors import InvalidParameter, LogError
from confide.logs import Labels, from_minari, import_log, in_memory, raw, simulate, sorting, write
from confide.logs import open as open_logs
from confide.policy import uniform_policy
from confide.problems import chain, riverswim


def test_simulated_chain(rng, tmp_path):
    problem = chain(states=5)
    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    blocks = list(simulate(problem, policy, 12_000, rng, end={4}))
    assert [block.count for block in blocks] == [5000, 5000, 2000]
    for block in blocks:
        last = block.trajectories[1:] - 1
        # that step is included
        assert (block.states[last] == 4).all() and (block.rewards[last] == 1).all()
        # and ends the trajectory
        assert block.rewards.sum() == block.count == (block.states == 4).sum()
    write(tmp_path / "chain.parquet", blocks)
    logs = open_logs(tmp_path / "chain.parquet", action="action", probability="probability")
    check = logs.check(states=5)
    assert (check.users, check.zero, check.gaps, check.over_steps) == (12_000, 0, 0, 0)
    again = list(logs.blocks(10**6))
    assert np.array_equal(
        np.concatenate([b.states for b in again]), np.concatenate([b.states for b in blocks])
    )


def test_simulated_without_an_end(rng):
    problem = riverswim()
    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    (block,) = in_memory(simulate(problem, policy, 30, rng)).blocks()
    assert (np.diff(block.trajectories) == problem.horizon).all()
    assert (block.probabilities == 0.5).all()
    with pytest.raises(InvalidParameter, match="end"):
        next(simulate(problem, policy, 3, rng, end={99}))


HEAD = "patient,stay,at,condition,dose,reward\n"
NAMES = {"user": "patient", "stay": "stay", "time": "at", "state": "condition", "action": "dose"}
LABELS = {"states": ["mild", "severe"], "actions": ["low", "high"]}


@pytest.fixture
def imported(tmp_path):
    """Lines of a CSV file as a log: what was done, and its rows by id, in order."""

    def done(*lines, head=HEAD, check=True, **options):
        (tmp_path / "raw.csv").write_text(head + "".join(f"{line}\n" for line in lines))
        report = import_log(
            tmp_path / "raw.csv", tmp_path / "log.parquet", **{**NAMES, **LABELS, **options}
        )
        return report, _by_user(tmp_path / "log.parquet", tmp_path / "confide.key") if check else {}

    return done


def _number(key, text):
    digest = hashlib.blake2b(
        text.encode(), key=bytes.fromhex(key.read_text()), digest_size=8
    ).digest()
    return int.from_bytes(digest) >> 1


def _by_user(path, key):
    rows = pq.read_table(path).to_pylist()
    assert [row["user"] for row in rows] == sorted(row["user"] for row in rows)
    names = {_number(key, text): text for text in "abcdefgh"} | {
        _number(key, str(n)): n for n in range(20)
    }
    rows_of_users = {}
    for row in rows:
        user = names[row.pop("user")]
        rows_of_users.setdefault(user, []).append(tuple(row[name] for name in row))
    return rows_of_users


def test_rows_in_any_order_become_stays_in_the_order_of_time(imported):
    report, rows = imported(
        "a,s2,2020-01-09 00:00:00,mild,low,1",
        # The same name of a stay of somebody else.
        "b,s1,2020-01-01 00:00:00,severe,high,0.5",
        "a,s1,2020-01-02 00:00:00,severe,high,0.25",
        "a,s1,2020-01-01 00:00:00,mild,low,0",
    )
    # trajectory, step, state, reward, action
    assert rows == {
        "a": [(0, 0, 0, 0.0, 0), (0, 1, 1, 0.25, 1), (1, 0, 0, 1.0, 0)],
        "b": [(0, 0, 1, 0.5, 1)],
    }
    assert (report.counts["users"], report.counts["stays"], report.counts["steps"]) == (2, 3, 4)
    assert report.to_dict()["label"] == "NOT PRIVATE: for the data holder only" and str(
        report
    ).startswith("NOT PRIVATE")


def test_duplicates_and_several_rows_of_a_time(imported):
    lines = [
        "a,s,2020-01-01,mild,low,1",
        # Twice.
        "a,s,2020-01-01,mild,low,1",
        # And the same with a cell less.
        "a,s,2020-01-01,mild,,1",
        "a,s,2020-01-02,mild,low,1",
        # Another reading of the same time.
        "a,s,2020-01-02,severe,,0.5",
        "a,s,2020-01-02,,high,",
    ]
    report, rows = imported(*lines)
    assert rows["a"] == [(0, 0, 0, 1.0, 0), (0, 1, 1, 1.5, 1)]
    assert (report.counts["duplicates"], report.counts["merged"]) == (2, 2)
    assert imported(*lines, rows="first", rewards="mean")[1]["a"][1] == (0, 1, 0, 0.75, 0)
    assert imported(*lines, rewards="last")[1]["a"][1] == (0, 1, 1, 0.5, 1)
    assert imported(*lines, rewards="first")[1]["a"][1] == (0, 1, 1, 1.0, 1)


def test_what_is_missing_is_lost_and_said_and_everybody_stays(imported):
    """The number of users is that of ids, whatever is in anybody's cells.

    It is public under `replace`.
    """
    lines = [
        "a,s,2020-01-01,mild,low,1",
        "a,s,2020-01-02,,low,1",
        "a,s,2020-01-03,mild,low,1",
        "b,s,2020-01-01,mild,low,",
        "c,s,yesterday,mild,low,1",
        ",s,2020-01-01,mild,low,1",
        "d,,2020-01-01,mild,low,1",
        "e,s,2020-01-01,severe,low,inf",
        "f,s,2020-01-01,severe,high,0",
        "g,s,2020-01-01,severe,high,0",
        "h,s,2020-01-01,severe,high,0",
    ]
    report, rows = imported(*lines)
    zero = [(0, 0, None, 0.0, None)]
    assert {user: rows[user] for user in "bcde"} == dict.fromkeys("bcde", zero)
    # A gap where a step was lost.
    assert [row[1] for row in rows["a"]] == [0, 2]
    counts = report.counts
    assert (
        counts["users"],
        counts["zero"],
        counts["nobody"],
        counts["unplaced"],
        counts["incomplete"],
    ) == (8, 4, 1, 2, 3)
    by_role = {column["role"]: column for column in report.columns}
    assert [
        by_role[role]["missing"] for role in ("user", "stay", "time", "state", "reward", "action")
    ] == [1, 1, 0, 1, 1, 0]
    assert (by_role["time"]["unreadable"], by_role["reward"]["unreadable"]) == (1, 1)
    report, rows = imported(*lines, fill_reward=0.5)
    assert rows["b"] == [(0, 0, 0, 0.5, 0)] and report.counts["filled"] == 2
    report, _ = imported(*lines, drop="person")
    assert (
        "MOST USERS CONTRIBUTE ZERO: 5 of 8" in report.warnings[0]
        and "use --drop row" in report.warnings[0]
    )
    assert (
        imported(*lines, *(f"{n},s,2020-01-01,mild,low,1" for n in range(9)), drop="person")[1]["a"]
        == zero
    )


@pytest.mark.parametrize(
    ("line", "options", "match"),
    [
        (
            "a,s,2020-01-01,,low,1",
            {},
            "column 'condition' is empty: every cell is missing; give another column for --state",
        ),
        ("a,s,,mild,low,1", {}, "column 'at' is empty"),
        (
            "a,s,1 Jan 2020,mild,low,1",
            {},
            "1 of 1 cells of column 'at' cannot be read: .*--time-format",
        ),
        (
            "a,s,2020-01-01,SECRET,low,1",
            {},
            "1 of 1 cells of column 'condition' are not among the declared states",
        ),
        (
            "a,s,2020-01-01,Mild,low,1",
            {},
            "not among the declared states.*upper and lower case only: write them alike",
        ),
        (
            "a,s,2020-01-01,mild,low,",
            {},
            "column 'reward' is empty: every cell is missing; give another column for --reward",
        ),
        (
            "a,s,2020-01-01,mild,low,1",
            {"states": None},
            "column 'condition' cannot be read: .*--states-file",
        ),
        (
            "a,s,2020-01-01,7,low,1",
            {"states": 7},
            "column 'condition' are not among the declared states",
        ),
        ("a,s,2020-01-01,mild,low,SECRET", {}, "column 'reward' cannot be read: write numbers"),
        (
            "a,s,2020-01-01,mild,low,1,SECRET\nb,s,2020-01-01,mild,low,1",
            {},
            "1 rows have another number of cells than the header",
        ),
        (
            ",s,2020-01-01,mild,low,1\nb,s,2020-01-01,mild,low,1",
            {},
            "1 of 2 rows have no id in column 'patient', and were lost",
        ),
    ],
)
def test_what_is_wrong_in_cells_is_said_and_never_refused(imported, line, options, match):
    """Whether a command fails must not depend on what is in one person's cells."""
    report, _ = imported(line, **options)
    words = str(report)
    assert re.search(match, words) and "SECRET" not in words and words.startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    ("line", "options", "match"),
    [
        (",s,2020-01-01,mild,low,1", {}, "column 'patient' has no id"),
        (
            "a,s,2020-01-01,mild,low,1",
            {"time": "when"},
            "column 'when' is missing, the file has 'patient', 'stay'",
        ),
        ("a,s,2020-01-01,mild,low,1", {"delimiter": ";"}, "--delimiter"),
    ],
)
def test_refused_with_the_column_and_the_fix(imported, tmp_path, line, options, match):
    with pytest.raises(LogError, match=match) as caught:
        imported(line, **options)
    assert "SECRET" not in str(caught.value)
    # nothing is left behind
    assert not list(tmp_path.glob("*.parquet*")) and not list(tmp_path.glob(".*"))


def test_texts_with_ends_of_lines_at_the_end_of_a_block(imported, monkeypatch):
    monkeypatch.setattr(raw, "BLOCK", 1 << 10)
    lines = [f'a,s,{n},mild,low,1,"said: {"x" * 40}\n{"y" * 40}\n"' for n in range(100)]
    assert len(imported(*lines, head=HEAD.replace("\n", ",note\n"))[1]["a"]) == 100


def test_states_that_are_clusters_of_labels(imported, tmp_path):
    clusters = {"shock": "bad", "mild": "fair", "severe": "bad"}
    lines = (
        "a,s,2020-01-01,mild,low,1",
        "a,s,2020-01-02,severe,high,0",
        "a,s,2020-01-03,shock,low,0",
    )
    report, rows = imported(*lines, states=clusters)
    assert [row[2] for row in rows["a"]] == [1, 0, 0]
    expected = Labels(("bad", "fair"), ("low", "high"), members=(("shock", "severe"), ("mild",)))
    assert report.labels == open_logs(tmp_path / "log.parquet").labels == expected
    assert "the states are clusters of 3 declared labels; the log has the clusters only" in str(
        report
    )
    # the name of a cluster is no label
    report, _ = imported("a,s,2020-01-01,bad,low,1", states=clusters)
    assert report.counts["zero"] == 1
    for wrong in ({"mild": 1}, {"mild": " "}, {1: "bad"}, {}, {"mild": ["bad"]}):
        with pytest.raises(InvalidParameter):
            imported(*lines, states=wrong)
    with pytest.raises(InvalidParameter, match="actions must be a list"):
        imported(*lines, actions={"low": "any", "high": "any"})
    with pytest.raises(InvalidParameter, match="members"):
        Labels(("bad", "fair"), members=(("shock",),))


def test_labels(imported, tmp_path):
    line = "a,s,2020-01-01, severe ,low,1"
    report, _ = imported(line, states=["NA", "mild", "severe", "dead"])
    assert report.warnings[-2:] == (
        "3 declared states are never found: NA, mild, dead; check the spelling",
        "1 declared action is never found: high; check the spelling",
    )
    logs = open_logs(tmp_path / "log.parquet", action="action")
    assert logs.labels == Labels(("NA", "mild", "severe", "dead"), ("low", "high"))
    metadata = pq.read_schema(tmp_path / "log.parquet").metadata
    assert json.loads(metadata[b"confide.labels"]) == {
        "state": ["NA", "mild", "severe", "dead"],
        "action": ["low", "high"],
    }
    assert "2  severe" in str(logs.check())
    # a label, not a missing cell
    assert imported("a,s,2020-01-01,NA,low,1", states=["NA"])[1]["a"] == [(0, 0, 0, 1.0, 0)]


@pytest.mark.parametrize("labels", [["a", "a"], [""], [" a"], ["a\n"], [1], "abc", [], ["x" * 201]])
def test_labels_that_are_none(imported, labels):
    with pytest.raises(InvalidParameter):
        imported("a,s,2020-01-01,mild,low,1", states=labels)


def test_undeclared_values_count_as_missing(imported):
    report, rows = imported("a,s,2020-01-01,other,low,1", "a,s,2020-01-02,mild,low,1")
    assert rows["a"] == [(0, 1, 0, 1.0, 0)]
    assert next(column["outside"] for column in report.columns if column["role"] == "state") == 1


@pytest.mark.parametrize(
    ("first", "second", "form"),
    [
        ("9", "10", None),
        ("9.5", "10", None),
        ("9", "9.5", None),
        ("-1e3", "-0.5", None),
        ("2020-01-01", "2020-01-02T10:00", None),
        ("2020-01-01T10:00:00Z", "2020-01-01T10:00:00-01:00", None),
        ("02/01/2020 10:00", "01/02/2020 09:00", "%d/%m/%Y %H:%M"),
    ],
)
def test_times(imported, first, second, form):
    lines = [
        f"a,s,{second},severe,low,1",
        f"a,s,{first},mild,low,0",
        "b,s,?,mild,low,1",
        *(f"{n},s,{first},mild,low,0" for n in range(9)),
    ]
    report, rows = imported(*lines, time_format=form)
    assert [row[2] for row in rows["a"]] == [0, 1] and report.counts["unplaced"] == 1


def test_steps_of_a_fixed_length(imported):
    """Of 4 hours, counted from the first row of a stay.

    Duplicates of one time go before rows are put together.
    """
    lines = [
        "a,s,2020-01-01 01:00,mild,low,1",
        # Twice.
        "a,s,2020-01-01 01:00,mild,low,1",
        # Still in the first four hours.
        "a,s,2020-01-01 04:59,severe,high,0.5",
        # The second four.
        "a,s,2020-01-01 05:00,mild,low,0",
        # The fourth: the third has no row, and leaves a gap.
        "a,s,2020-01-01 13:00,mild,low,0.25",
        "a,t,2020-02-01 03:00,mild,low,2",
    ]
    report, rows = imported(*lines, every="4h")
    assert rows["a"] == [
        (0, 0, 1, 1.5, 1),
        (0, 1, 0, 0.0, 0),
        (0, 3, 0, 0.25, 0),
        (1, 0, 0, 2.0, 0),
    ]
    assert (report.counts["duplicates"], report.counts["merged"]) == (1, 1)
    assert "steps: of 4h each by" in str(report)
    assert [row[1] for row in imported(*lines, every="240 min")[1]["a"]] == [0, 1, 3, 0]


@pytest.mark.parametrize(
    ("times", "every"), [(("10", "13", "14", "22"), "4"), (("0.1", "0.3", "0.5", "1.3"), "0.4")]
)
def test_numbers_are_steps_of_a_fixed_length_too(imported, times, every):
    _, rows = imported(*(f"a,s,{time},mild,low,1" for time in times), every=every)
    assert [row[1] for row in rows["a"]] == [0, 1, 3]


@pytest.mark.parametrize(("time", "every"), [("2020-01-01", "4"), ("17", "4h")])
def test_a_length_says_of_which_kind_times_are(imported, time, every):
    report, _ = imported(f"a,s,{time},mild,low,1", every=every)
    assert report.counts["unplaced"] == 1 and "column 'at' cannot be read" in str(report)


@pytest.mark.parametrize("every", ["4 weeks", "0h", "-1h"])
def test_what_is_no_length_is_refused(imported, every):
    with pytest.raises(InvalidParameter, match="every must be a length such as 4h"):
        imported("a,s,2020-01-01,mild,low,1", every=every)


def test_a_length_needs_times_and_rows_that_are_too_far_away_are_lost(imported):
    with pytest.raises(InvalidParameter, match="every needs times"):
        imported("a,s,2020-01-01,mild,low,1", time=None, in_order=True, every="4h")
    lines = [
        "a,s,2020-01-01,mild,low,1",
        "a,s,2020-01-02,mild,low,1",
        "b,s,2020-01-02,severe,low,1",
    ]
    report, rows = imported(*lines, every="1us")
    assert (
        report.counts["unplaced"] == 1 and len(rows["a"]) == 1 and rows["b"] == [(0, 0, 1, 1.0, 0)]
    )


def test_days_and_weeks_are_those_of_the_calendar(imported):
    """Decisions in the evening and on the next morning are two, although less than a day apart."""
    # the last one is a Monday
    times = ("2020-01-01 22:00", "2020-01-02 06:00", "2020-01-05 23:59", "2020-01-06 00:00")
    lines = [f"a,s,{time},mild,low,{place}" for place, time in enumerate(times)]
    assert [row[1] for row in imported(*lines, every="1d")[1]["a"]] == [0, 1, 4, 5]
    assert [row[1] for row in imported(*lines, every="1w")[1]["a"]] == [0, 1]
    report, rows = imported(*lines, every="24h")
    assert [row[1] for row in rows["a"]] == [0, 4] and report.counts["decisions"] == 0
    lines[1] = lines[1].replace("low", "high")
    assert "1 steps hold rows with different actions" in str(imported(*lines, every="24h")[0])


def test_several_files_are_one_table(imported, tmp_path):
    """Rows of one person in several files give the log of all rows in one file."""
    lines = [
        "17,s1,2020-01-02,severe,high,0.25",
        "b,s1,2020-01-01,severe,high,0.5",
        "17,s1,2020-01-01,mild,low,0",
    ]
    whole = imported(*lines)[1]
    for name, some in (("first", lines[:2]), ("second", lines[2:])):
        (tmp_path / f"{name}.csv").write_text(HEAD + "".join(f"{line}\n" for line in some))
    seen = []
    files = [tmp_path / "second.csv", tmp_path / "first.csv"]
    options = {
        **NAMES,
        **LABELS,
        "progress": lambda what, done, total: (
            seen.append(done / total) if what == "reading" else None
        ),
    }
    report = import_log(files, tmp_path / "log.parquet", **options)
    assert (
        _by_user(tmp_path / "log.parquet", tmp_path / "confide.key") == whole
        and report.counts["users"] == 2
    )
    assert seen == sorted(seen) and seen[-1] == 1.0
    (tmp_path / "third.csv").write_text("other\n1\n")
    with pytest.raises(LogError, match=r"third\.csv: column"):
        import_log([*files, tmp_path / "third.csv"], tmp_path / "log.parquet", **options)
    numbered = {
        "patient": ["c"],
        "stay": ["s1"],
        "at": [12],
        "condition": ["mild"],
        "dose": ["low"],
        "reward": [0.0],
    }
    pq.write_table(pa.table(numbered), tmp_path / "fourth.parquet")
    report = import_log([*files, tmp_path / "fourth.parquet"], tmp_path / "log.parquet", **options)
    assert "column 'at' holds 3 dates and 1 numbers" in str(report)
    with pytest.raises(InvalidParameter, match="another file than the source"):
        import_log([*files, tmp_path / "log.parquet"], tmp_path / "log.parquet", **options)
    with pytest.raises(InvalidParameter, match="the list is empty"):
        import_log([], tmp_path / "log.parquet", **options)


def test_a_day_that_is_none_is_unreadable(imported):
    report, rows = imported(
        "a,s,2020-02-30,mild,low,1", "a,s,2020-02-28,mild,low,1", "a,s,2020-02-27 ,severe,low,1"
    )
    assert [row[2] for row in rows["a"]] == [1, 0] and report.counts["unplaced"] == 1


def test_without_times_and_stays_rows_are_in_order(tmp_path):
    (tmp_path / "raw.csv").write_text("user,state,reward\na,3,1\nb,1,1\na,2.0,1\n")
    report = import_log(tmp_path / "raw.csv", tmp_path / "log.parquet", in_order=True)
    rows = _by_user(tmp_path / "log.parquet", tmp_path / "confide.key")
    assert rows == {"a": [(0, 0, 3, 1.0), (0, 1, 2, 1.0)], "b": [(0, 0, 1, 1.0)]}
    assert any("as --in-order says" in text for text in report.did)


def test_the_order_of_rows_is_never_guessed(tmp_path):
    (tmp_path / "raw.csv").write_text("user,state,reward\na,3,1\n")
    with pytest.raises(InvalidParameter, match=r"--time.*--in-order"):
        import_log(tmp_path / "raw.csv", tmp_path / "log.parquet")
    with pytest.raises(InvalidParameter, match="omit it"):
        import_log(tmp_path / "raw.csv", tmp_path / "log.parquet", time="when", in_order=True)


def test_ids_are_hashed_with_the_holders_key(imported, tmp_path):
    line = "a,s,2020-01-01,mild,low,1"
    imported(line)
    key = tmp_path / "confide.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(bytes.fromhex(key.read_text())) == 32
    assert stat.S_IMODE((tmp_path / "log.parquet").stat().st_mode) == 0o600
    first = pq.read_table(tmp_path / "log.parquet")
    # Spaces are no part of an id.
    imported(" a ,s,2020-01-01,mild,low,1")
    assert pq.read_table(tmp_path / "log.parquet").equals(first)
    import_log(
        tmp_path / "raw.csv",
        tmp_path / "log.parquet",
        **NAMES,
        **LABELS,
        key=tmp_path / "other.key",
    )
    assert pq.read_table(tmp_path / "log.parquet") != first
    assert b"2020" not in (tmp_path / "log.parquet").read_bytes()
    key.chmod(0o644)
    with pytest.raises(LogError, match="others can read this key: chmod 600"):
        imported(line)
    key.chmod(0o600)
    key.write_text("short")
    with pytest.raises(LogError, match="a key is 64 hexadecimal digits"):
        imported(line)


@pytest.mark.parametrize("spelt", [" 7", "7.0", "\u00a07\u00a0", "\t7.0 "])
def test_one_person_is_not_two_users_because_of_how_an_id_is_written(imported, spelt):
    """Spreadsheets put spaces around ids, also such that do not break.

    Frames write a column of ids with a gap as floats.
    """
    report, rows = imported(
        "7,s,2020-01-01,mild,low,1", f"{spelt},s,2020-01-02,mild,low,1", "a,s,2020-01-02,mild,low,1"
    )
    assert report.counts["users"] == 2 and len(rows[7]) == 2
    assert imported(f"{spelt},s,2020-01-02,mild,low,1")[1].keys() == {7}
    apart = ["1.0.0", "1.05", "x.0", ".0", "10", "1", "-1.0", "1..0"]
    assert imported(*(f"{each},s,2020-01-01,mild,low,1" for each in apart), check=False)[0].counts[
        "users"
    ] == len(apart)


def test_every_kind_of_table_gives_the_same_log(imported, tmp_path):
    lines = [
        f"{n % 7},s{n % 2},{n},{('mild', 'severe')[n % 3 == 0]},low,{n / 8}" for n in range(40)
    ]
    imported(*lines)
    expected = pq.read_table(tmp_path / "log.parquet")
    frame = pandas.read_csv(tmp_path / "raw.csv", dtype={"condition": "category"})
    polars = pl.read_csv(tmp_path / "raw.csv", schema_overrides={"patient": pl.Categorical})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=7)
    feather.write_feather(table, tmp_path / "raw.arrow", compression="uncompressed")
    with gzip.open(tmp_path / "raw.csv.gz", "wb") as file:
        file.write((tmp_path / "raw.csv").read_bytes())
    stamps = table.set_column(2, "at", table["at"].cast(pa.timestamp("s")))
    for source in (
        *(tmp_path / f"raw.{end}" for end in ("parquet", "arrow", "csv.gz")),
        frame,
        polars,
        table,
        stamps,
    ):
        import_log(source, tmp_path / "log.parquet", **NAMES, **LABELS)
        assert pq.read_table(tmp_path / "log.parquet").equals(expected), type(source)


def test_what_is_no_table(tmp_path):
    for source, match in (
        ([1], "source must be"),
        (tmp_path / "no.csv", "No such file"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises((InvalidParameter, LogError), match=match):
            import_log(source, tmp_path / "log.parquet", in_order=True)
    (tmp_path / "raw.csv").write_bytes(b"user,state,rew\xe4rd\nM,1,1\n")
    with pytest.raises(LogError, match="iconv -f WINDOWS-1252 -t UTF-8"):
        import_log(tmp_path / "raw.csv", tmp_path / "log.parquet", in_order=True)
    # and a workbook
    (tmp_path / "raw.csv").write_bytes("user,state,reward\na,1,1\n".encode("utf-16"))
    with pytest.raises(LogError, match="Save a spreadsheet as CSV in UTF-8"):
        import_log(tmp_path / "raw.csv", tmp_path / "log.parquet", in_order=True)
    (tmp_path / "raw.csv").write_bytes(b"user,state,reward\n")
    with pytest.raises(LogError, match="no rows"):
        import_log(tmp_path / "raw.csv", tmp_path / "log.parquet", in_order=True)
    with pytest.raises(InvalidParameter, match="another file than the source"):
        import_log(tmp_path / "raw.csv", tmp_path / "raw.csv", in_order=True)


def test_out_of_core_gives_the_same_log(tmp_path, monkeypatch, rng):
    """Buffers of a few rows.

    Every batch is written to a file of its own, and every partition read back from all of them.
    """
    n = 3000
    rows = {
        "user": rng.integers(0, 300, n),
        "stay": rng.integers(0, 3, n),
        "time": rng.integers(0, 40, n),
    }
    rows |= {"state": rng.integers(0, 5, n), "reward": rng.integers(0, 8, n) / 8}
    table = pa.table(rows)
    options = {"stay": "stay", "time": "time", "states": 5, "key": tmp_path / "key"}
    import_log(table, tmp_path / "one.parquet", **options)
    for module, name, size in ((raw, "ROWS", 64), (sorting, "BUFFER", 100), (sorting, "GROUP", 50)):
        monkeypatch.setattr(module, name, size)
    report = import_log(table, tmp_path / "many.parquet", **options)
    assert pq.read_table(tmp_path / "many.parquet").equals(pq.read_table(tmp_path / "one.parquet"))
    check = open_logs(tmp_path / "many.parquet").check(states=5)
    assert (check.users, check.rows, check.zero, check.duplicates, check.disorder) == (
        300,
        report.counts["steps"],
        0,
        0,
        0,
    )
    # the same by pandas
    frame = table.to_pandas().drop_duplicates(["user", "stay", "time", "state", "reward"])
    assert (
        report.counts["steps"] == len(frame.drop_duplicates(["user", "stay", "time"]))
        and report.counts["rows"] == n
    )
    assert np.isclose(
        pq.read_table(tmp_path / "many.parquet")["reward"].to_numpy().sum(), frame["reward"].sum()
    )


def test_an_import_that_was_killed_leaves_nothing_to_the_next(imported, tmp_path):
    """Its folder has a random name that the next import to the same file knows."""
    left = tmp_path / "log.parquet.0123456789abcdef.part"
    left.mkdir()
    (left / "0.rows").write_text("rows of people")
    other = tmp_path / "other.parquet.0123456789abcdef.part"
    other.mkdir()
    imported("a,s,2020-01-01,mild,low,1")
    assert not left.exists() and other.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "confide.key",
        "log.parquet",
        other.name,
        "raw.csv",
    ]


def test_an_error_keeps_the_log_that_was_there(imported, tmp_path, monkeypatch):
    imported("a,s,2020-01-01,mild,low,1")
    before = (tmp_path / "log.parquet").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sorting.Spill, "_write", full)
    with pytest.raises(OSError, match="No space"):
        imported("b,s,2020-01-01,mild,low,1")
    assert (tmp_path / "log.parquet").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "confide.key",
        "log.parquet",
        "raw.csv",
    ]


@pytest.fixture
def minari_set(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    minari = pytest.importorskip("minari")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    def make(observations, space):
        ends = {"terminations": [False, True], "truncations": [False, False], "infos": {}}
        episodes = [
            EpisodeBuffer(
                id=i, seed=0, observations=seen, actions=[0, 1], rewards=[0.5, 1.0], **ends
            )
            for i, seen in enumerate(observations)
        ]
        about = dict.fromkeys(
            ("algorithm_name", "author", "author_email", "code_permalink", "description"), "test"
        )
        return minari.create_dataset_from_buffers(
            "test/log-v0",
            episodes,
            observation_space=space,
            action_space=spaces.Discrete(2),
            data_format="arrow",
            **about,
        )

    return make, spaces


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_minari(minari_set, tmp_path):
    make, spaces = minari_set
    data = make([[3, 4, 5], [5, 4, 3], [3, 3, 3]], spaces.Discrete(4, start=3))
    from_minari(data, tmp_path / "log.parquet")
    rows = {
        n: [row[2:] for row in rows]
        for n, rows in _by_user(tmp_path / "log.parquet", tmp_path / "confide.key").items()
    }
    assert rows == {
        n: [(a, 0.5, 0), (b, 1.0, 1)] for n, (a, b) in enumerate([(0, 1), (2, 1), (0, 0)])
    }
    from_minari("test/log-v0", tmp_path / "log.parquet", user=lambda episode: episode.id % 2)
    rows = _by_user(tmp_path / "log.parquet", tmp_path / "confide.key")
    # the third episode is a second stay
    assert [row[:3] for row in rows[0]] == [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 0)]
    import_log(
        "minari:test/log-v0", tmp_path / "log.parquet", stay="trajectory", time="step", states=3
    )
    assert len(_by_user(tmp_path / "log.parquet", tmp_path / "confide.key")) == 3


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_minari_with_vectors(minari_set, tmp_path):
    make, spaces = minari_set
    data = make([[np.zeros(2, np.float32)] * 3], spaces.Box(-1, 1, (2,)))
    with pytest.raises(InvalidParameter, match="must be Discrete to be states, got Box"):
        from_minari(data, tmp_path / "log.parquet")


def test_a_day_that_no_month_has_is_unreadable(imported):
    lines = [f"a,s,{day}.2020,mild,low,1" for day in ("31.02", "29.02", "01.03", "03.03", "31.04")]
    report, rows = imported(*lines, time_format="%d.%m.%Y")
    assert len(rows["a"]) == 3
    assert report.counts["unplaced"] == 2
    with pytest.raises(InvalidParameter, match="format of dates"):
        imported(*lines, time_format="dmY")


def test_a_terminal_state_needs_no_action(imported):
    lines = [
        f"{user},s,2020-01-0{day},{rest}"
        for user in "ab"
        for day, rest in ((1, "mild,low,0"), (2, "severe,,1"))
    ]
    lines.append("b,s,2020-01-03,mild,high,0")
    lost, rows = imported(*lines)
    assert [row[2:] for row in rows["a"]] == [(0, 0.0, 0)]
    assert lost.warnings == (
        "2 of 2 rows of state 'severe' have no action, and were lost: "
        "a learned policy would not know what leads there. If trajectories "
        "end there, import again with --terminal 'severe'",
    )
    for given in ("severe", 1, "1"):
        kept, rows = imported(*lines, terminal=[given])
        assert [row[2:] for row in rows["a"]] == [(0, 0.0, 0), (1, 1.0, 0)]
        assert (kept.counts["ended"], kept.counts["incomplete"], kept.warnings) == (2, 0, ())
    assert any("trajectories end in severe" in sentence for sentence in kept.did)
    for given in ("mortal", 2, -1):
        with pytest.raises(InvalidParameter, match="one of the declared states"):
            imported(*lines, terminal=[given])
    with pytest.raises(InvalidParameter, match="column of probabilities"):
        imported(*lines, terminal=["severe"], probability="chance")


def test_a_decimal_comma(imported):
    lines = [
        f"a;s;2020-01-0{day};mild;low;{reward}" for day, reward in ((1, "1"), (2, "2"), (3, "0,5"))
    ]
    head = HEAD.replace(",", ";")
    lost, rows = imported(*lines, head=head, delimiter=";")
    assert [row[3] for row in rows["a"]] == [1.0, 2.0]
    assert lost.warnings[0].startswith(
        "1 of 3 cells of column 'reward' cannot be read: "
        "write numbers with a decimal point, or use --decimal ,"
    )
    _, rows = imported(*lines, head=head, delimiter=";", decimal=",")
    assert [row[3] for row in rows["a"]] == [1.0, 2.0, 0.5]
    with pytest.raises(InvalidParameter, match="decimal"):
        imported(*lines, head=head, delimiter=";", decimal="'")


def test_several_formats_of_times(imported):
    times = (
        "2020-01-01 10:00",
        "02.01.2020",
        "2020-01-03T00:00:00",
        "01/04/2020 09:30 PM",
        "5 January",
    )
    lines = [f"a,s,{time},mild,low,{place}" for place, time in enumerate(times)]
    report, rows = imported(*reversed(lines), time_format=["iso", "%d.%m.%Y", "%m/%d/%Y %I:%M %p"])
    assert [row[3] for row in rows["a"]] == [0.0, 1.0, 2.0, 3.0]
    assert report.counts["unplaced"] == 1


def test_an_error_ends_the_thread_that_reads_ahead(imported, monkeypatch):
    """Otherwise the garbage collector ends it, perhaps in a thread that it waits for.

    Both would wait for ever.
    """

    def full(*_):
        raise OSError(28, "No space left on device")

    before = set(threading.enumerate())
    monkeypatch.setattr(sorting.Spill, "add", full)
    # With all that its frames hold.
    with pytest.raises(OSError, match="No space") as held:
        imported("a,s,2020-01-01,mild,low,1")
    assert set(threading.enumerate()) <= before
    assert held.tb is not None


def test_a_missing_state_may_be_a_state_of_its_own(imported):
    lines = ["a,s,2020-01-01,mild,low,1", "a,s,2020-01-02,,,1", "a,s,2020-01-03,severe,high,1"]
    lost, rows = imported(*lines)
    assert [row[1] for row in rows["a"]] == [0, 2] and lost.counts["incomplete"] == 1
    states = ["mild", "severe", "unknown"]
    report, rows = imported(*lines, states=states, fill_state="unknown", fill_action="low")
    assert rows["a"] == [(0, 0, 0, 1.0, 0), (0, 1, 2, 1.0, 0), (0, 2, 1, 1.0, 1)]
    assert (report.counts["filled"], report.counts["incomplete"]) == (2, 0)
    for wrong in (
        {"fill_state": "none"},
        {"fill_state": 2},
        {"fill_action": "none"},
        {"states": None, "fill_state": 1},
    ):
        with pytest.raises(InvalidParameter, match="declared"):
            imported(*lines, **wrong)
