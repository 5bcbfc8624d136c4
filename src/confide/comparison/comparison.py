"""A comparison: what several runs say together, with their statistics, figures and page."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide import arguments
from confide._extras import need
from confide.arguments import flag, listed, shown
from confide.comparison.pairs import Pair, pairs_of
from confide.comparison.promise import OPEN, Promise, tell_apart
from confide.comparison.row import Row, Stopped
from confide.errors import InvalidParameter
from confide.privacy.guarantee import Guarantee
from confide.runs.run import CURVES, Run, checkpoint_grid

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.figure import Figure

    from confide.runs.run_sweep import Watch
    from confide.runs.sweep import Sweep


@dataclass(frozen=True, eq=False)
class Comparison:
    """The common results of several runs: a row per problem, agent and guarantee, over its seeds.

    `Comparison.of_runs(runs)` compares runs, and `confide.compare` those of a sweep. The `table` of
    a sweep is tidy: it has a row per run and checkpoint, and one row for a run that failed, which
    says why. `save` writes it, so its columns stay.
    """

    name: str
    rows: tuple[Row, ...]
    # Cell, error, and a command that reproduces the failure.
    failures: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    table: "pyarrow.Table | None" = field(default=None, repr=False)

    @classmethod
    def of_runs(cls, runs: Sequence[Run], *, name: str = "What privacy cost") -> "Comparison":
        """Compare these runs, in their order."""
        return cls(arguments.text("name", name), _name_rows(_rows_of(runs)))

    @classmethod
    def of_table(cls, table: "pyarrow.Table") -> "Comparison":
        from confide.comparison.table import failures_of, name_of, rows_of_table

        return cls(
            name_of(table), _name_rows(rows_of_table(table)), tuple(failures_of(table)), table
        )

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """A table that `save` wrote, or the folder of a sweep."""
        from confide.comparison.table import read_table

        return cls.of_table(read_table(path))

    def save(self, path: str | Path) -> Path:
        """Write the table as a Parquet file."""
        from confide.comparison.table import write_table

        if self.table is None:
            raise InvalidParameter("only a sweep has a table: save each run to a folder of its own")
        return write_table(self.table, path)

    def summary(self) -> list[dict[str, Any]]:
        """One entry per row, with its figures and their intervals.

        Among them are mean regret, its ratio to no privacy, and the number of users to 90 % of
        optimal.
        """
        return [row.plain() for row in self.rows]

    def plot(
        self,
        what: str | Sequence[str] = "regret",
        *,
        problems: Sequence[str] | None = None,
        agents: Sequence[str] | None = None,
        epsilons: Sequence[float] | None = None,
        figsize: tuple[float, float] | None = None,
        columns: int | None = None,
    ) -> "Figure":
        """A matplotlib figure with a chart per problem. It saves as SVG or PDF with its fonts.

        `what` is one of these, or several of them for a figure with a row per problem:

        - `regret`, `value`: curves over users, means over seeds and their 95 % bands. A chart that
          would have more than eight curves has those of the epsilon nearest to 1 and of no privacy
          only, unless `epsilons` says which.
        - `noise`: noise against signal.
        - `privacy`: regret against epsilon, with no privacy dashed.
        - `ladder`: from the paper's constants to tight ones to no privacy, for agents that were run
          with both, at the epsilon nearest to 1 unless `epsilons` says which.

        Where regret is not known, figures show what users earned. `problems` and `agents` restrict
        the figure to some of them.
        """
        from confide.comparison.figures import side_by_side
        from confide.report.picture import draw

        kinds = [what] if isinstance(what, str) else listed("what", what, str)
        if not kinds:
            raise InvalidParameter("what must name at least one figure, got none of them")
        charts = side_by_side(self.restrict(problems, agents), kinds, epsilons)
        if not columns and len(kinds) > 1:
            columns = len(kinds)
        if columns:
            columns = min(columns, len(charts))
        return draw(charts, figsize=figsize, columns=columns or None)

    def save_figures(self, folder: str | Path) -> list[Path]:
        """Save each figure that there is as SVG, PDF and PNG, and return the files.

        Figures are regret, value, noise, privacy and ladder. Where regret is not known on any
        problem, the file of returns is named after them.
        """
        from confide.comparison.figures import all_figures
        from confide.report.picture import draw
        from confide.report.picture import save as save_figure

        target = Path(arguments.path("folder", folder))
        target.mkdir(parents=True, exist_ok=True)
        written = []
        for name, charts in all_figures(self).items():
            figure = draw(charts)
            endings = (".svg", ".pdf", ".png")
            written += [save_figure(figure, target / f"{name}{ending}") for ending in endings]
        return written

    def report(self, path: str | Path, *, command: str = "") -> Path:
        """Write the report as one self-contained HTML file, and return its path.

        `command` is what reproduces it. If it is not given, the page has the commands of the runs.
        A content security policy ensures that the page loads nothing from anywhere and runs no
        script but its own.
        """
        from confide.comparison.page import write_comparison

        return write_comparison(self, path, command=arguments.text("command", command))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pairs_of(self.rows))

    @property
    def problems(self) -> list[str]:
        """The problems on which a run has a result."""
        return list(dict.fromkeys(row.problem for row in self.rows))

    @property
    def agents(self) -> list[str]:
        """Learners, then reference policies."""
        agents = dict.fromkeys(row.agent for row in self.rows)
        return sorted(agents, key=lambda agent: agent not in self.learners)

    @cached_property
    def learners(self) -> list[str]:
        return list(dict.fromkeys(row.agent for row in self.rows if not row.reference))

    @property
    def promises(self) -> list[Promise]:
        """The guarantees of learners: the strictest first, and no privacy last."""
        promises = dict.fromkeys(row.promise for row in self.rows if not row.reference)
        return sorted(promises, key=lambda promise: promise.epsilon or math.inf)

    @property
    def chosen(self) -> Promise:
        """The guarantee to look at first: the one whose epsilon is nearest to 1."""
        private = dict.fromkeys(row.promise for row in self.rows if row.private)
        return min(
            private,
            key=lambda promise: abs(math.log(promise.epsilon or 1.0)),
            default=next(iter(self.promises), OPEN),
        )

    @property
    def epsilons(self) -> list[float]:
        return sorted({row.epsilon for row in self.rows if row.epsilon})

    @property
    def seeds(self) -> int:
        return max((len(row.seeds) for row in self.rows), default=0)

    @property
    def users(self) -> int:
        return max((row.users for row in self.rows), default=0)

    def on(self, problem: str) -> list[Row]:
        return [row for row in self.rows if row.problem == problem]

    def known(self, problem: str) -> bool:
        """Whether regret is known."""
        return all(row.known for row in self.on(problem))

    def gap(self, problem: str) -> float | None:
        """What uniform play loses per user; None where it loses nothing, or nothing is known."""
        return self.on(problem)[0].gap

    def ranking(self, problem: str, promise: Promise) -> list[Row]:
        """Learners under one guarantee, the best first.

        The best has the least regret, or the largest return where regret is not known. An agent
        that failed with some seeds is left out if others did not fail, because the remaining seeds
        may be the easy ones.
        """
        learners = [row for row in self.on(problem) if not row.reference and row.promise == promise]
        most_seeds = max((len(row.seeds) for row in learners), default=0)
        sign = 1 if self.known(problem) else -1
        keyed = [
            (sign * row.final.estimate, row)
            for row in learners
            if len(row.seeds) == most_seeds and row.final is not None
        ]
        return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]

    def nobody_learned(self, problem: str) -> bool:
        """Whether learners took part, and none was significantly better than uniform play."""
        learned = [row.learned for row in self.on(problem) if not row.reference]
        return bool(learned) and all(each is False for each in learned)

    def ladders(self, promise: Promise) -> list[dict[str, Row]]:
        """Rows of one agent on one problem under one guarantee, if both calibrations were run.

        A ladder has the row `paper` with the paper's constants, `tight` with tight ones, and `none`
        without privacy.
        """
        learners = {
            (row.problem, row.variant, row.calibration, row.promise): row
            for row in self.rows
            if not row.reference
        }
        variants = dict.fromkeys(row.variant for row in self.rows if row.calibration == "paper")
        ladders = []
        for problem in self.problems if promise.private else []:
            for variant in variants if self.known(problem) else []:
                rungs = {
                    "paper": learners.get((problem, variant, "paper", promise)),
                    "tight": learners.get((problem, variant, "tight", promise)),
                    "none": learners.get((problem, variant, "tight", OPEN)),
                }
                if rungs["paper"] is not None and rungs["tight"] is not None:
                    ladders.append({name: row for name, row in rungs.items() if row is not None})
        return ladders

    def restrict(
        self, problems: Sequence[str] | None, agents: Sequence[str] | None
    ) -> "Comparison":
        """The same comparison with these problems and agents only."""
        _check_names("problem", problems, self.problems)
        _check_names("agent", agents, self.agents)
        rows = tuple(
            row
            for row in self.rows
            if (problems is None or row.problem in problems)
            and (agents is None or row.agent in agents)
        )
        return replace(self, rows=rows)


def _check_names(kind: str, names: Sequence[str] | None, known_names: Sequence[str]) -> None:
    for name in names or ():
        if name not in known_names:
            raise InvalidParameter(
                f"no {kind} {name!r} in this comparison; choose one of {', '.join(known_names)}"
            )


def compare(
    sweep: "Sweep | str | Path",
    *,
    backend: str = "local",
    workers: int | None = None,
    store: str | Path | None = None,
    again: bool = False,
    progress: "Watch | None" = None,
) -> Comparison:
    """Run every cell of a sweep that is not in the store yet, and put all cells into one table.

    `sweep` may also be a TOML file. The table does not depend on the backend, the number of
    workers, or on how often the sweep was interrupted. A cell that fails is a row of the table that
    says why, and is tried again the next time. `store` is a folder, by default `.confide-store`
    here, and `again` recomputes what is in it. After an interruption only the cells that were
    running are lost.
    """
    from confide.comparison.table import tidy
    from confide.runs.run_sweep import STORE, run_cells
    from confide.runs.store import Store
    from confide.runs.sweep import Sweep
    from confide.runs.sweep_file import read_sweep

    need("compare", "a comparison")
    plan = sweep if isinstance(sweep, Sweep) else read_sweep(sweep)
    flag("again", again)
    if progress is not None and not callable(progress):
        raise InvalidParameter.of("progress", "must be a function", got=shown(progress))
    results = run_cells(
        plan.cells(),
        backend=backend,
        workers=workers,
        store=Store(STORE if store is None else store),
        again=again,
        progress=progress,
    )
    return Comparison.of_table(tidy(plan.name, results.items()))


def _name_rows(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows with the fields that a comparison sets.

    These are what distinguishes rows, a name for links, and the same agent without privacy after
    as many users. Another agent would not do, because a difference need not be that of privacy.
    """
    promises = tell_apart([(row.problem, row.agent, row.guarantee) for row in rows])
    without_privacy: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        if not row.private:
            without_privacy.setdefault((row.problem, row.agent, row.users), row)
    named_rows = []
    for row, promise, anchor in zip(rows, promises, _anchors(rows), strict=True):
        free = without_privacy.get((row.problem, row.agent, row.users)) if row.private else None
        named_rows.append(replace(row, promise=promise, anchor=anchor, free=free))
    return tuple(named_rows)


def _anchors(rows: Sequence[Row]) -> list[str]:
    """Names for links, which are the same the next time.

    A number distinguishes names that differ in other characters than letters and digits only.
    """
    uses = Counter[str]()
    anchors = []
    for row in rows:
        promise = f"{row.trust}-{row.epsilon:g}" if row.epsilon is not None else "no-privacy"
        name = f"{row.problem}-{row.agent}-{promise}".lower()
        anchor = re.sub(r"[^a-z0-9.]+", "-", name).strip("-")[:80]
        uses[anchor] += 1
        anchors.append(anchor if uses[anchor] == 1 else f"{anchor}--{uses[anchor]}")
    return anchors


def _rows_of(runs: Sequence[Run]) -> list[Row]:
    """A row per problem, agent and guarantee, in the order of the runs.

    A number distinguishes instances of a problem that share a name.
    """
    runs = listed("runs", runs, Run)
    if not runs:
        raise InvalidParameter("a report needs at least one run, got none")
    runs_by_instance: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        instance = (run.problem, _nine_digits(run.optimal_value), _nine_digits(run.uniform_value))
        runs_by_instance.setdefault(instance, []).append(run)
    instances = Counter(name for name, _, _ in runs_by_instance)
    numbers = Counter[str]()
    rows = []
    for (name, _, _), runs_of_instance in runs_by_instance.items():
        numbers[name] += 1
        title = name if instances[name] == 1 else f"{name} (instance {numbers[name]})"
        runs_by_agent: dict[tuple[str, Guarantee], list[Run]] = {}
        for run in runs_of_instance:
            runs_by_agent.setdefault((run.agent, run.guarantee), []).append(run)
        served = [own for own in runs_by_agent.values() if any(run.segments for run in own)]
        rows += [_row(title, own) for own in served]
    if not rows:
        raise InvalidParameter(
            "there is nothing to report: every run was interrupted before its first user"
        )
    return rows


def _row(problem: str, runs: Sequence[Run]) -> Row:
    """The row of the complete runs.

    If none is complete, it is that of all runs, up to the number of users that each of them served.
    """
    stopped = tuple(
        Stopped(run.seed, run.episodes, run.planned_episodes) for run in runs if not run.complete
    )
    kept = [run for run in runs if run.complete] or [run for run in runs if run.segments]
    kept = sorted(kept, key=lambda run: run.seed)
    first = kept[0]
    users = checkpoint_grid(min(run.episodes for run in kept))
    curves = {name: np.stack([run.curve(name, users) for run in kept]) for name in CURVES}
    has_values = (
        first.optimal_value is not None
        and first.uniform_value is not None
        and bool(np.isfinite(curves["value"]).all())
    )
    users_to_goal = [run.episodes_to(0.9) if has_values else math.nan for run in kept]
    return Row(
        problem=problem,
        agent=first.agent,
        variant=first.variant or first.agent,
        calibration=first.calibration,
        guarantee=first.guarantee,
        optimal_value=first.optimal_value,
        uniform_value=first.uniform_value,
        seeds=tuple(run.seed for run in kept),
        commands=tuple(run.command for run in kept),
        checkpoints=users,
        curves=curves,
        episodes_to_90=np.array(
            [math.inf if users is None else users for users in users_to_goal], dtype=float
        ),
        certificates=tuple(run.certificate for run in kept),
        questions=tuple(run.questions for run in kept),
        last_returns=tuple(run.last_return for run in kept),
        stopped=stopped,
        seconds=tuple(run.seconds for run in kept),
        versions=tuple(dict.fromkeys(item for run in kept for item in run.versions.items())),
    )


def _nine_digits(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.9g}"
