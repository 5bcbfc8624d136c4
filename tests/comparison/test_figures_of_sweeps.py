import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from confide.comparison.comparison import Comparison
from confide.comparison.table import tidy
from confide.errors import InvalidParameter
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import loss_for
from confide.privacy.request import JointDP
from confide.report.charts import NEUTRAL


def guarantee_of(epsilon, users):
    if epsilon is None:
        return no_guarantee(users)
    request = JointDP(epsilon, 1e-5)
    return Guarantee(loss_for(request), request, request.trust, users, "fast")


def cell(problem, agent, epsilon, seed, *, loss, known=True, spread=1.1):
    """A run that never happened.

    It loses `loss` per user for the first hundred users, and then nothing.
    """
    users = [1, 10, 100, 1000, 10_000]
    lost = [loss * min(n, 100) * spread**seed for n in users]
    return {
        "cell": {
            **{
                "problem": problem,
                "agent": agent,
                "variant": agent.removesuffix(" paper"),
                "calibration": "paper" if agent.endswith(" paper") else "tight",
                "trust": "none" if epsilon is None else "joint",
                "epsilon": epsilon,
            },
            **{"delta": None if epsilon is None else 1e-5, "seed": seed, "episodes": users[-1]},
        },
        **{
            "status": "done",
            "command": "confide run",
            "guarantee": json.dumps(guarantee_of(epsilon, users[-1]).to_json()),
            "true_epsilon": epsilon,
        },
        **{
            "optimal_value": 2.0 if known else None,
            "uniform_value": 1.0 if known else None,
            "episodes_to_90": 100 if known else None,
        },
        **{
            "users": users,
            "regret": lost if known else [None] * 5,
            "value": [1.5] * 5 if known else [None] * 5,
        },
        "mean_return": None if known else [1.0, 1.2, 1.4, 1.5, 1.5 + 0.01 * seed],
    }


def made(
    agents=("a", "a paper", "b"),
    problems=("lock", "rand"),
    epsilons=(0.5, 1.0, 5.0, None),
    seeds=4,
    **more,
):
    losses = {agent: 0.1 * (i + 1) for i, agent in enumerate(agents)}
    cells = [
        cell(
            problem,
            agent,
            epsilon,
            seed,
            loss=losses[agent] * (1 + (1 / epsilon if epsilon else 0)),
            **more,
        )
        for problem in problems
        for agent in agents
        for epsilon in epsilons
        for seed in range(seeds)
    ]
    return Comparison.of_table(tidy("made up", ((str(i), one) for i, one in enumerate(cells))))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture(scope="module")
def many():
    return made()


def test_regret_of_many_is_that_of_the_epsilon_nearest_to_one(many):
    figure = many.plot()
    assert [ax.get_title() for ax in figure.axes] == ["lock", "rand"]
    assert legend(figure) == ["a", "a paper", "b", "ε = 1", "no privacy", "uniform play"]
    lines = figure.axes[0].lines
    assert len(lines) == 3 * 2 + 1
    expected = np.mean(
        [row.last for row in many.rows if row.label == "a, ε = 1" and row.problem == "lock"]
    )
    assert lines[0].get_ydata()[-1] == pytest.approx(expected)
    assert len(figure.axes[0].collections) == 6  # bands
    styles = {(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in lines}
    assert len(styles) == 7
    # told apart in black and white, too
    assert len({(marker, style) for _, marker, style in styles}) == 7


def test_some_of_it(many):
    figure = many.plot(
        "regret", problems=["rand"], agents=["b"], epsilons=[0.5, 5.0], figsize=(5, 3)
    )
    assert legend(figure) == ["b", "ε = 0.5", "ε = 5", "no privacy", "uniform play"]
    assert tuple(figure.get_size_inches()) == (5, 3) and len(figure.axes) == 1
    widths = [line.get_linewidth() for line in figure.axes[0].lines]
    assert widths[0] > widths[1]  # the stricter, the thicker
    few = made(agents=("a",)).plot()
    assert legend(few) == ["a", "ε = 0.5", "ε = 1", "ε = 5", "no privacy", "uniform play"]


def test_regret_against_epsilon(many):
    ax = many.plot("privacy").axes[0]
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel()) == ("log", "log", "requested ε")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0.5", "1", "5"]
    assert len(ax.containers) == 3
    x, y = ax.containers[0].lines[0].get_data()
    assert x.tolist() == [0.5, 1.0, 5.0] and (np.diff(y) < 0).all()
    levels = [
        line for line in ax.lines if line.get_linestyle() == "--" and line.get_color() != NEUTRAL[0]
    ]
    assert len(levels) == 3
    free = next(row for row in many.rows if row.label == "a, no privacy")
    assert levels[0].get_ydata()[0] == pytest.approx(free.last.mean())


def test_intervals_of_three_seeds_do_not_blow_up_the_axis():
    wide = made(seeds=3, spread=20.0)
    assert max(row["regret_high"] for row in wide.summary()) > 1e6
    low, high = wide.plot("privacy").axes[0].get_ylim()
    assert 1.0 < low < 1e3 and 10_000 < high < 1e6  # uniform play is seen


def test_the_ladder_goes_from_paper_to_tight_to_no_privacy(many):
    figure = many.plot("ladder")
    assert [ax.get_title() for ax in figure.axes] == ["lock", "rand"]
    ax = figure.axes[0]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "paper constants",
        "tight",
        "no privacy",
    ]
    ends = [bar.get_x() + bar.get_width() for bar in ax.patches]
    wanted = ["a paper, ε = 1", "a, ε = 1", "a, no privacy"]
    found = {row.label: row.last.mean() for row in many.rows if row.problem == "lock"}
    assert ends == pytest.approx([found[label] for label in wanted])
    assert len({bar.get_hatch() for bar in ax.patches}) == 3
    assert "ε = 5" in many.plot("ladder", epsilons=[5.0]).axes[0].get_xlabel()


@pytest.mark.parametrize(
    ("what", "options", "said"),
    [
        ("regrets", {}, "must be one of regret, value, noise, privacy, ladder, got what='regrets'"),
        ("regret", {"agents": ["c"]}, "no agent 'c'"),
        ("regret", {"problems": ["x"]}, "no problem 'x'"),
        (
            "regret",
            {"epsilons": [2.0]},
            "no epsilon = 2 in this comparison; choose one of 0.5, 1, 5",
        ),
        ("ladder", {"agents": ["b"]}, "needs an agent that was run with"),
    ],
)
def test_what_cannot_be_drawn(many, what, options, said):
    with pytest.raises(InvalidParameter, match=said):
        many.plot(what, **options)


def test_figures_are_saved_with_their_fonts(tmp_path):
    written = made(problems=("lock",), epsilons=(1.0, None), seeds=2).save_figures(tmp_path / "new")
    assert [path.name for path in written] == [
        f"{n}{e}"
        for n in ("regret", "value", "privacy", "ladder")
        for e in (".svg", ".pdf", ".png")
    ]
    for path in written:
        if path.suffix == ".pdf":
            assert b"/Type3" not in path.read_bytes() and b"/FontFile2" in path.read_bytes()
        elif path.suffix == ".svg":
            assert ET.parse(path).getroot().tag.endswith("svg")


def test_a_figure_keeps_its_fonts_when_somebody_else_saves_it(many, tmp_path):
    many.plot("privacy").savefig(tmp_path / "x.pdf")
    assert b"/Type3" not in (tmp_path / "x.pdf").read_bytes()


def test_one_seed_unknown_values_and_odd_names(tmp_path):
    odd = made(agents=("$\\frac{", "_hidden"), problems=("$x_", "y"), seeds=1, known=False)
    written = odd.save_figures(tmp_path)
    assert {path.stem for path in written} == {"return", "privacy"}
    figure = odd.plot()
    assert legend(figure)[:2] == ["$\\frac{", "_hidden"]
    assert [ax.get_ylabel() for ax in figure.axes] == ["average return"] * 2
    assert not figure.axes[0].collections  # one seed has no band


def test_no_privacy_alone_has_no_epsilon_and_the_same_runs_give_the_same_files(tmp_path):
    alone = made(epsilons=(None,), problems=("lock",), seeds=2)
    once, again = (alone.save_figures(tmp_path / name) for name in ("once", "again"))
    assert {path.stem for path in once} == {"regret", "value"}
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
