import json
import math

import pytest

from confide.agents.catalogue import AGENTS, agent_class
from confide.comparison.comparison import Comparison, compare
from confide.comparison.pairs import paired_test, pairs_of, seeds_needed
from confide.comparison.table import tidy
from confide.comparison.theorems import THEOREMS
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import loss_for
from confide.privacy.request import JointDP, LocalDP
from confide.runs.spec import RunSpec
from confide.runs.sweep import Sweep

USERS = [1, 10, 100, 1000, 10_000]


def guarantee_of(trust, epsilon, delta):
    if epsilon is None:
        return no_guarantee(USERS[-1])
    request = {"joint": JointDP, "local": LocalDP}[trust](epsilon, delta)
    return Guarantee(loss_for(request), request, request.trust, USERS[-1], "fast")


def cell(
    agent,
    epsilon,
    seed,
    *,
    power=0.5,
    scale=1.0,
    problem="lock",
    delta=1e-5,
    trust="joint",
    known=True,
    reached=50,
    earned=1.0,
):
    """A run that never happened: its regret is scale * users ** power."""
    facts = {
        "problem": problem,
        "agent": agent,
        "variant": agent.replace(" paper", "").removesuffix(" tight"),
        "calibration": "paper" if " paper" in agent else "tight",
        "trust": "none" if epsilon is None else trust,
        "epsilon": epsilon,
    }
    lost = [scale * users**power for users in USERS]
    return {
        "cell": facts
        | {"delta": None if epsilon is None else delta, "seed": seed, "episodes": USERS[-1]},
        **{
            "status": "done",
            "command": f"confide run --seed {seed}",
            "guarantee": json.dumps(guarantee_of(trust, epsilon, delta).to_json()),
            "true_epsilon": epsilon,
            "users": USERS,
        },
        **{"optimal_value": 2.0 if known else None, "uniform_value": 1.0 if known else None},
        **{
            "episodes_to_90": reached if known else None,
            "regret": lost if known else [None] * len(USERS),
        },
        **{"value": [1.5] * len(USERS), "mean_return": None if known else [earned] * len(USERS)},
    }


def made(cells):
    table = tidy("made up", ((str(i), one) for i, one in enumerate(cells)))
    return Comparison.of_table(table).rows


def row_of(rows, label):
    return next(row for row in rows if row.label == label)


@pytest.fixture(scope="module")
def rows():
    scales = (0.8, 1.0, 1.2, 1.1)
    cells = [cell("ucrl-vtr", None, seed, scale=scale) for seed, scale in enumerate(scales)]
    cells += [cell("ucrl-vtr", 1.0, seed, scale=3 * scale) for seed, scale in enumerate(scales)]
    cells += [cell("ucrl-vtr", 5.0, seed, power=0.5 + (seed - 1.5) / 50) for seed in range(4)]
    cells += [cell("ucrl-vtr", 10.0, seed, power=0.3 + (seed - 1.5) / 50) for seed in range(4)]
    cells += [
        cell("mine:Agent", 1.0, seed, scale=2.0, power=0.9, reached=50 if seed else None)
        for seed in range(4)
    ]
    cells += [cell("uniform", None, seed, scale=1.0, power=1.0, reached=None) for seed in range(4)]
    return made(cells)


def test_regret_with_its_interval_and_beside_uniform_play(rows):
    row = row_of(rows, "ucrl-vtr, ε = 1")
    mean = 3 * 1.025 * 100
    assert row.regret.estimate == pytest.approx(mean) and row.regret.low < mean < row.regret.high
    assert row.of_uniform.estimate == pytest.approx(mean / 10_000)
    assert row.of_uniform.high / row.of_uniform.low == pytest.approx(
        row.regret.high / row.regret.low
    )
    assert row_of(rows, "uniform").of_uniform.estimate == pytest.approx(1.0)


def test_cost_of_privacy_is_against_the_same_agent_seed_by_seed(rows):
    cost = row_of(rows, "ucrl-vtr, ε = 1").of_no_privacy
    assert cost.estimate == pytest.approx(3.0)
    assert cost.low == pytest.approx(3.0) and cost.high == pytest.approx(
        3.0
    )  # three times in every seed: paired, no doubt is left
    # its own runs without privacy are missing
    assert row_of(rows, "mine:Agent, ε = 1").of_no_privacy is None
    assert row_of(rows, "ucrl-vtr, no privacy").of_no_privacy is None


def test_growth_stands_beside_the_theorem(rows):
    agent = "ucrl-vtr paper"
    compatible = [cell(agent, 5.0, seed, power=0.5 + (seed - 1.5) / 50) for seed in range(4)]
    below = [cell(agent, 10.0, seed, power=0.3 + (seed - 1.5) / 50) for seed in range(4)]
    papers = made([*compatible, *below])
    row = row_of(papers, "ucrl-vtr paper, ε = 5")
    assert row.growth.slope == pytest.approx(0.5, abs=0.02)
    assert (row.theorem.locator, row.verdict) == ("[Luyo21, Cor. 5]", "compatible")
    assert row.plain()["theorem_exponent"] == 0.5
    assert row_of(papers, "ucrl-vtr paper, ε = 10").verdict == "below"
    for name, slope in (("mine:Agent, ε = 1", 0.9), ("ucrl-vtr, ε = 5", 0.5)):
        own = row_of(rows, name)
        assert own.growth.slope == pytest.approx(slope, abs=0.02)
        assert (own.theorem, own.verdict) == (None, "")


def test_seeds_that_never_arrive_are_counted(rows):
    row = row_of(rows, "mine:Agent, ε = 1")
    assert (row.reached.median, row.reached.reached, row.plain()["not_reached"]) == (50, 3, 1)
    assert row.plain()["episodes_to_90_high"] is None  # infinite: JSON has no word for it
    never = row_of(rows, "uniform").plain()
    assert never["episodes_to_90"] is None and never["not_reached"] == 4


def test_plain_is_json_with_the_names_that_the_command_line_reads(rows):
    plain = json.loads(json.dumps([row.plain() for row in rows], allow_nan=False))
    read = {
        "problem",
        "agent",
        "epsilon",
        "seeds",
        "regret",
        "regret_low",
        "regret_high",
        "of_uniform",
        "of_no_privacy",
    }
    assert read | {"episodes_to_90", "growth", "theorem", "theorem_exponent"} <= set(plain[0])
    assert (plain[1]["seeds"], plain[1]["users"]) == (4, 10_000)


def test_one_seed_has_no_interval():
    agent = "ucrl-vtr paper"
    row = made([cell(agent, 1.0, 0), cell(agent, None, 0, scale=0.5)])[0]
    assert (row.regret.estimate, row.regret.low, row.of_uniform.low) == (100.0, None, None)
    assert row.of_no_privacy.estimate == pytest.approx(2.0) and row.of_no_privacy.low is None
    assert row.verdict == "unknown" and row.plain()["regret_low"] is None


def test_where_regret_is_not_known_there_are_returns():
    found = made([cell("a", 1.0, seed, known=False, earned=1.0 + seed) for seed in range(3)])
    row = found[0]
    assert (
        row.regret is None
        and row.growth is None
        and row.reached is None
        and row.mean_return.estimate == pytest.approx(2.0)
    )
    assert row.plain()["mean_return"] == pytest.approx(2.0)


def test_whether_anybody_learned_is_a_matter_of_significance():
    def rows(*values):
        cells = [
            cell("a", None, seed, power=1.0, scale=2.0 - value) for seed, value in enumerate(values)
        ]
        for one, value in zip(cells, values, strict=True):
            one["value"] = [value] * len(USERS)
        return made(cells)[0]

    assert rows(1.5, 1.6, 1.55).learned is True
    assert rows(0.99, 1.01, 1.02).learned is False  # as good as uniform play, which is worth 1
    assert rows(0.4, 0.5).learned is False
    # one seed can only be looked at
    assert rows(1.5).learned is True and rows(1.0).learned is False
    assert made([cell("a", None, 0, known=False)])[0].learned is None


def test_a_curve_ends_with_the_interval_of_its_last_number():
    """The same seeds, the same statistic: in a table, a figure and a page."""
    scales = enumerate((1.0, 1.5, 1.2))
    (row,) = made([cell("a", 1.0, seed, scale=scale) for seed, scale in scales])
    curve = row.curve("regret")
    assert (curve.mean[-1], curve.low[-1], curve.high[-1]) == (
        row.regret.estimate,
        row.regret.low,
        row.regret.high,
    )
    assert row.curve("noise_std") is None and row.curve("regret") is curve


def test_optimal_play_loses_nothing_up_to_rounding():
    row = made([cell("oracle", None, seed, scale=-1e-12) for seed in range(3)])[0]
    assert row.regret.estimate == 0 and row.of_uniform.estimate == 0 and row.growth is None


def test_failed_seeds_leave_fewer():
    broken = {
        "cell": cell("ucrl-vtr", 1.0, 2)["cell"],
        "status": "failed",
        "error": "no",
        "command": "confide run",
    }
    cells = [cell("ucrl-vtr", 1.0, 0, scale=2.0), cell("ucrl-vtr", 1.0, 1, scale=2.5), broken]
    cells += [cell("ucrl-vtr", None, seed, scale=1.0 + seed / 10) for seed in range(3)]
    row = made(cells)[0]
    # on the seeds that both have
    assert row.plain()["seeds"] == 2 and row.of_no_privacy.estimate == pytest.approx(2.25 / 1.05)


@pytest.mark.parametrize(
    ("agent", "epsilon", "more", "exponent"),
    [
        ("ucrl-vtr paper", 1.0, {}, 1 / 2),
        ("ucrl-vtr paper", 1.0, {"trust": "local"}, 3 / 4),
        ("ucrl-vtr paper", 1.0, {"trust": "local", "delta": 0.0}, 3 / 4),
        ("ucrl-vtr-plus paper", 1.0, {"trust": "local"}, 3 / 4),
        ("lsvi-ucb paper", 1.0, {}, 3 / 5),
        ("lsvi-ucb paper", 1.0, {"delta": 0.0}, 2 / 3),
        ("ofu-lq paper", 1.0, {}, 1 / 2),
        ("linopt-po paper", None, {}, 1 / 2),
        # With another option it is another algorithm than the theorem's.
        ("lsvi-ucb paper schedule=every", 1.0, {}, None),
        ("ucrl-vtr paper bonus_scale=0.1", 1.0, {}, None),
        # The paper leaves local privacy to the reader.
        ("linopt-vi paper", 1.0, {"trust": "local"}, None),
        ("ofu-lq paper", 1.0, {"delta": 0.0}, None),
        ("likelihood-vi", 1.0, {}, None),
        ("my.module:UCRL", 1.0, {}, None),
    ],
)
def test_theorems_are_those_of_the_papers(agent, epsilon, more, exponent):
    theorem = made([cell(agent, epsilon, 0, **more)])[0].theorem
    assert (None if theorem is None else theorem.exponent) == exponent


@pytest.mark.parametrize(("agent", "kind"), THEOREMS)
def test_no_theorem_stands_beside_runs_in_the_tight_form(agent, kind):
    epsilon = None if kind == "none" else 1.0
    trust = "local" if kind.endswith("local") else "joint"
    delta = 0.0 if kind.startswith("pure") else 1e-5
    options = {} if epsilon is None else {"trust": trust, "delta": delta}
    for tight in (agent, f"{agent} tight"):
        row = made([cell(tight, epsilon, 0, **options)])[0]
        assert (row.theorem, row.verdict, row.plain()["theorem"]) == (None, "", None)
    assert made([cell(f"{agent} paper", epsilon, 0, **options)])[0].theorem == THEOREMS[agent, kind]


def test_theorems_are_about_agents_that_there_are_and_their_own_papers():
    for (agent, _), theorem in THEOREMS.items():
        assert agent_class(agent) and theorem.locator.startswith(
            f"[{AGENTS[agent].profile.paper}, "
        )


def test_titles():
    def named(**options):
        spec = RunSpec(agent="ucrl-vtr", problem="", episodes=1, options=tuple(options.items()))
        return spec.title, spec.variant, spec.calibration

    assert named() == ("ucrl-vtr", "ucrl-vtr", "tight")
    assert named(calibration="tight") == ("ucrl-vtr tight", "ucrl-vtr", "tight")
    assert named(calibration="paper", bonus_scale=0.1) == (
        "ucrl-vtr paper bonus_scale=0.1",
        "ucrl-vtr bonus_scale=0.1",
        "paper",
    )
    rows = made(
        [cell(agent, None, 0) for agent in ("uniform", "oracle", "no-data", "ucrl-vtr", "m:A")]
    )
    assert [row.reference for row in rows] == [True, True, True, False, False]


def test_pairs_are_within_problem_and_promise_without_reference_play():
    cells = [
        cell(agent, epsilon, seed, problem=problem, scale=scale * (1 + seed / 20))
        for problem in ("x", "y")
        for epsilon in (1.0, None)
        for agent, scale in (("a", 1.0), ("b", 1.5), ("c", 1.5001))
        for seed in range(8)
    ]
    cells += [cell("uniform", None, seed, problem="x", power=1.0) for seed in range(8)]
    found = pairs_of(made(cells))
    assert len(found) == 2 * 2 * 3
    assert {(one.problem, str(one.promise)) for one in found} == {
        ("x", "ε = 1"),
        ("x", "no privacy"),
        ("y", "ε = 1"),
        ("y", "no privacy"),
    }
    clear = [one for one in found if (one.compared.first, one.compared.second) == ("a", "b")]
    assert all(one.better == "a" and one.compared.difference.estimate < 0 for one in clear)
    assert found[0].plain()["measure"] == "regret" and found[0].plain()["significant"]


def test_more_return_is_better_where_regret_is_not_known():
    cells = [
        cell(agent, 1.0, s, known=False, earned=e + s / 100)
        for agent, e in (("a", 1.0), ("b", 2.0))
        for s in range(8)
    ]
    (pair,) = pairs_of(made(cells))
    assert pair.measure == "return" and pair.better == "b"


def test_nothing_is_significant_where_seeds_are_too_few():
    cells = [
        cell(agent, 1.0, seed, scale=scale + seed / 50)
        for agent, scale in (("a", 1.0), ("b", 9.0))
        for seed in range(3)
    ]
    (pair,) = pairs_of(made(cells))
    assert not pair.compared.possible and pair.better is None
    assert pairs_of(made([cell("a", 1.0, 0)])) == []


@pytest.mark.parametrize(
    ("seeds", "count", "paired"),
    [(6, 1, True), (8, 6, True), (8, 7, False), (6, 30, True), (7, 30, False), (12, 30, True)],
)
def test_the_test_is_chosen_by_the_design(seeds, count, paired):
    """Six seeds and thirty pairs show nothing either way, so the better intervals win."""
    assert paired_test([seeds] * 4, count) is paired


@pytest.mark.parametrize("count", [1, 6, 30, 60, 1000])
def test_as_many_seeds_as_needed_are_enough_and_one_less_is_not(count):
    enough = seeds_needed(count)
    smallest = {n: min(2 / 2**n, 2 / math.comb(2 * n, n)) * count for n in (enough - 1, enough)}
    assert smallest[enough] <= 0.05 < smallest[enough - 1]


def test_a_real_sweep(tmp_path):
    sweep = Sweep(
        agents=["ucrl-vtr", "uniform"], problems=["lock"], epsilons=[5.0], episodes=300, seeds=2
    )
    found = compare(sweep, store=tmp_path / "store", workers=1)
    found.save(tmp_path / "x.parquet")
    rows = Comparison.load(tmp_path / "x.parquet").summary()
    assert [(row["agent"], row["epsilon"], row["seeds"]) for row in rows] == [
        ("ucrl-vtr", 5.0, 2),
        ("ucrl-vtr", None, 2),
        ("uniform", None, 2),
    ]
    assert rows == found.summary() and rows[2]["of_uniform"] == pytest.approx(1.0)
    assert 0 < rows[1]["regret"] < rows[2]["regret"]
