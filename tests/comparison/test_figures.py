import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from confide.comparison.comparison import Comparison


def plot_runs(runs):
    return Comparison.of_runs(runs).plot(["regret", "value"])


def save_figures(runs, folder):
    return Comparison.of_runs(runs).save_figures(folder)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def axes(figure):
    return figure.axes


def loaded_after(code):
    slow = "('matplotlib', 'matplotlib.pyplot', 'scipy', 'numba')"
    code += f"\nprint([name for name in {slow} if name in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", "import sys\n" + code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_importing_the_report_imports_no_plotting():
    assert (
        loaded_after(
            "import confide.comparison.comparison, confide.comparison.figures, "
            "confide.comparison.page, confide.report.picture"
        )
        == "[]"
    )


def test_drawing_needs_no_display_and_no_global_state():
    one_user = "(Segment(1, 0.5, 0.5),), None, 1.0, 0.0, no_guarantee(1), None, 0.0, {}"
    assert (
        loaded_after(
            "from confide.runs.run import Run, Segment\nfrom confide.comparison.comparison "
            "import Comparison\n"
            "from confide.privacy.guarantee import no_guarantee\n"
            f"Comparison.of_runs([Run('a', 'b', 0, 1, {one_user})]).plot()"
        )
        == "['matplotlib']"
    )


def test_regret_and_value_of_runs(made_up):
    figure = plot_runs(made_up.study())
    regret, value = axes(figure)
    assert (regret.get_xscale(), regret.get_yscale(), value.get_xscale(), value.get_yscale()) == (
        "log",
        "log",
        "log",
        "linear",
    )
    assert legend(figure) == ["ucrl-vtr", "ε = 1", "no privacy", "uniform play"]
    assert len(regret.lines) == 3  # optimal play loses nothing, and zero has no logarithm
    assert len(regret.collections) == 2 and len(value.collections) == 2  # bands where seeds differ
    expected = np.mean([run.regret[-1] for run in made_up.study()[:5]])
    assert regret.lines[0].get_ydata()[-1] == pytest.approx(expected)
    assert len({(line.get_color(), str(line.get_linestyle())) for line in regret.lines}) == 3
    assert [text.get_text() for text in value.texts] == ["optimal play 1.17", "uniform play 0.11"]


def test_one_run(made_up):
    figure = plot_runs([made_up.learner()])
    assert legend(figure) == ["ucrl-vtr", "ε = 1", "uniform play"]
    assert not axes(figure)[0].collections


def test_a_run_plots_itself_as_a_comparison_of_one_run_does(made_up):
    run = made_up.learner()
    alone, compared = run.plot(), plot_runs([run])
    assert (
        [ax.get_ylabel() for ax in alone.axes]
        == [ax.get_ylabel() for ax in compared.axes]
        == ["cumulative regret", "value per user"]
    )
    assert alone.axes[0].lines[0].get_ydata().tolist() == run.regret.tolist()
    # uniform play
    assert (
        alone.axes[0].lines[-1].get_ydata().tolist()
        == compared.axes[0].lines[-1].get_ydata().tolist()
    )
    assert [ax.get_ylabel() for ax in made_up.learner(exact=False).plot().axes] == [
        "average return"
    ]


def test_two_seeds_do_not_blow_up_the_axis(made_up):
    regret = axes(plot_runs([made_up.learner(seed=i) for i in range(2)]))[0]
    low, high = regret.get_ylim()
    assert low > 0.1 and high < 1e6


def test_a_row_per_problem_and_returns_where_values_are_unknown(made_up, tmp_path):
    figure = plot_runs(made_up.everything())
    assert [ax.get_ylabel() for ax in axes(figure)] == [
        "cumulative regret",
        "value per user",
        "average return",
    ]
    assert [ax.get_title() for ax in axes(figure)] == ["lock", "lock", "cartpole"]
    figure.savefig(tmp_path / "x.svg")
    assert ET.parse(tmp_path / "x.svg").getroot().tag.endswith("svg")


def test_an_interrupted_run_ends_early(made_up):
    regret = axes(plot_runs([made_up.learner(stop=500)]))[0]
    assert regret.lines[0].get_xdata()[-1] == 500


def test_names_are_names(made_up, tmp_path):
    """Neither mathematics nor a secret entry."""
    odd = ["$\\frac{", "_hidden", "a_b^c"]
    figure = plot_runs([made_up.learner(agent=name, problem="$x_") for name in odd])
    assert legend(figure)[:3] == odd
    figure.savefig(tmp_path / "x.png")


def test_many_series_are_still_drawn(made_up):
    figure = plot_runs([made_up.learner(agent=f"agent-{i}") for i in range(10)])
    assert len(legend(figure)) == 12


def test_each_figure_is_saved_in_three_formats(made_up, tmp_path):
    written = save_figures(made_up.study(2), tmp_path / "figures")
    names = [
        f"{name}{end}"
        for name in ("regret", "value", "noise", "privacy")
        for end in (".svg", ".pdf", ".png")
    ]
    assert [path.name for path in written] == names
    heads = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    assert all(path.read_bytes().startswith(heads[path.suffix]) for path in written)


def test_the_same_runs_give_the_same_files(made_up, tmp_path):
    once, again = (
        save_figures([made_up.learner(kind="none", exact=False)], tmp_path / name)
        for name in ("once", "again")
    )
    assert [path.name for path in once] == ["return.svg", "return.pdf", "return.png"]
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_figures_that_do_not_exist_are_not_saved(made_up, tmp_path):
    assert {path.stem for path in save_figures([made_up.learner(kind="none")], tmp_path)} == {
        "regret",
        "value",
    }


def test_negative_values_and_costs(made_up):
    """A linear system's value is minus a cost, and may start far below doing nothing."""
    from confide.runs.run import Segment

    run = made_up.learner(
        segments=(Segment(10, -900.0, -900.0), Segment(99_990, -0.6, -0.6)),
        optimal_value=-0.5,
        uniform_value=-1.0,
    )
    value = axes(plot_runs([run]))[1]
    assert value.get_ylim()[0] > -2
