"""Draw the figures of docs/results from the raw tables in benchmarks/results.

python scripts/result_figures.py

The numbers are read from the tables, so a figure cannot say anything else than its table.
"""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = ROOT / "docs" / "assets"
BLUE = "#0b5cad"
ORANGE = "#c4580a"
GREEN = "#0a6b4f"
GREY = "#6b7683"
# Figures are drawn for a page of 360 points, so that their text can be read on a phone.
SIZE = (5.0, 3.4)


def main() -> None:
    plt.rcParams.update(
        {
            "font.size": 12,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.hashsalt": "confide",
            "svg.fonttype": "path",
        }
    )
    draw_price_of_privacy()
    draw_coverage()


def rows(page: str) -> list[list[str]]:
    """The cells of all rows of all tables of a page."""
    lines = (RESULTS / f"{page}.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]


def draw_price_of_privacy() -> None:
    """Regret of tabular-psrl, relative to uniform play, for several levels of privacy."""
    problems = {
        "riverswim": (BLUE, "o"),
        "FrozenLake 4x4, H = 20": (ORANGE, "s"),
        "garnet, five instances": (GREEN, "^"),
    }
    levels = ["epsilon = 1", "epsilon = 10", "none"]
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    table = rows("tables")
    for problem, (color, marker) in problems.items():
        regret = []
        for level in levels:
            match = [row for row in table if row[:4] == [problem, "", level, "100,000"]]
            regret.append(float(match[0][4].split(" ")[0]))
        axes.plot(range(3), regret, color=color, marker=marker, label=problem.split(",")[0])
    axes.set_yscale("log")
    axes.set_xticks(range(3), ["ε = 1", "ε = 10", "no privacy"])
    axes.set_ylabel("regret / uniform play")
    axes.legend(frameon=False)
    save(figure, "price_of_privacy")


def draw_coverage() -> None:
    """Coverage of the 90 % intervals of learn, at epsilon 1 and 10."""
    kinds = {"logged value": 3, "worst state": 8}
    settings = ["grid", "riverswim", "garnet", "clinic", "trial"]
    table = [row for row in rows("values_learn") if len(row) == 13]
    figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
    for shift, (kind, column), color in zip(
        (-0.12, 0.12), kinds.items(), (BLUE, ORANGE), strict=True
    ):
        for epsilon, marker in (("1", "o"), ("10", "s")):
            heights = []
            for setting in settings:
                match = [row for row in table if row[0] == setting and row[1] == epsilon]
                heights.append(float(match[0][column]))
            places = [place + shift for place in range(len(settings))]
            label = f"{kind}, ε = {epsilon}"
            axes.plot(places, heights, linestyle="", marker=marker, color=color, label=label)
    axes.axhline(0.9, color=GREY, linestyle="--", linewidth=1)
    axes.set_xticks(range(len(settings)), settings)
    axes.set_ylim(0.85, 1.0)
    axes.set_ylabel("share of intervals that hold")
    axes.legend(frameon=False, fontsize=10, ncols=2)
    save(figure, "coverage")


def save(figure: plt.Figure, name: str) -> None:
    path = FIGURES / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    # Trailing blanks differ between versions of the library.
    path.write_text(re.sub(r"[ \t]+$", "", path.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    main()
