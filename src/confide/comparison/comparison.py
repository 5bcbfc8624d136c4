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
    """What runs say together: a row per problem, agent and guarantee, over its seeds.

    `Comparison.of_runs(runs)` compares runs, and `confide.compare` those of a sweep. Then `table` is tidy: a row per run
    and checkpoint; a run that failed is one row that says why.
    """

    name: str
    rows: tuple[Row, ...]
    # Cell, error, and a command that reproduces the failure.
    failures: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    table: "pyarrow.Table | None" = field(default=None, repr=False)

    @classmethod
    def of_runs(cls, runs: Sequence[Run], *, name: str = "What privacy cost") -> "Comparison":
        """Compare these runs, in their order."""
        return cls(arguments.text("name", name), _named(_rows_of(runs)))

    @classmethod
    def of_table(cls, table: "pyarrow.Table") -> "Comparison":
        from confide.comparison.table import failures_of, name_of, rows_of_table

        return cls(name_of(table), _named(rows_of_table(table)), tuple(failures_of(table)), table)

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
        """One entry per row: mean regret with its interval, its ratio to no privacy, and the number of users to 90 % of optimal."""
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
        """A matplotlib figure with a chart per problem; it saves as SVG or PDF with its fonts.

        `regret`, `value`: curves over users, means over seeds and their 95 % bands. Where a chart would have more than
        eight, those of the epsilon nearest to 1 and of no privacy only, unless `epsilons` says which. `noise`: noise
        against signal. `privacy`: regret against epsilon, with no privacy dashed. `ladder`: from the paper's constants to
        tight ones to no privacy, for agents that were run with both, at the epsilon nearest to 1 unless `epsilons` says
        which. `problems` and `agents` choose some. Where regret is not known, figures show what users earned. Several
        names make one figure, such as `["regret", "value"]`, with a row per problem.
        """
        from confide.comparison.figures import side_by_side
        from confide.report.picture import draw

        chosen = self.some(problems, agents)
        kinds = [what] if isinstance(what, str) else listed("what", what, str)
        charts = side_by_side(chosen, kinds, epsilons)
        wide = columns or (len(kinds) if len(kinds) > 1 else None)
        return draw(
            charts, figsize=figsize, columns=None if wide is None else min(wide, len(charts))
        )

    def save_figures(self, folder: str | Path) -> list[Path]:
        """Each figure that there is (regret, value, noise, privacy, ladder) as SVG, PDF and PNG; the files written.

        Where regret is not known on any problem, the file of returns is named after them.
        """
        from confide.comparison.figures import all_figures
        from confide.report.picture import draw, save

        target = Path(arguments.path("folder", folder))
        target.mkdir(parents=True, exist_ok=True)
        written = []
        for name, charts in all_figures(self).items():
            figure = draw(charts)
            endings = (".svg", ".pdf", ".png")
            written += [save(figure, target / f"{name}{ending}") for ending in endings]
        return written

    def report(self, path: str | Path, *, command: str = "") -> Path:
        """Write the report as one self-contained HTML file, and return its path.

        `command` is what reproduces it; the commands that the runs carry stand in where it is not given. The page may load
        nothing from anywhere and run no script but its own: a content security policy, not care, sees to that.
        """
        from confide.comparison.page import write_comparison

        return write_comparison(self, path, command=arguments.text("command", command))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pairs_of(self.rows))

    @property
    def problems(self) -> list[str]:
        """Those on which anything came out."""
        return list(dict.fromkeys(row.problem for row in self.rows))

    @property
    def agents(self) -> list[str]:
        """Learners, then reference policies."""
        found = dict.fromkeys(row.agent for row in self.rows)
        return sorted(found, key=lambda agent: agent not in self.learners)

    @cached_property
    def learners(self) -> list[str]:
        return list(dict.fromkeys(row.agent for row in self.rows if not row.reference))

    @property
    def promises(self) -> list[Promise]:
        """Of learners: the strictest first, and no privacy last."""
        found = dict.fromkeys(row.promise for row in self.rows if not row.reference)
        return sorted(found, key=lambda promise: promise.epsilon or math.inf)

    @property
    def chosen(self) -> Promise:
        """The guarantee to look at first: the one whose epsilon is nearest to 1."""
        kept = dict.fromkeys(row.promise for row in self.rows if row.private)
        return min(
            kept,
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
        """Whether regret is."""
        return all(row.known for row in self.on(problem))

    def gap(self, problem: str) -> float | None:
        """What uniform play loses per user; None where it loses nothing, or nothing is known."""
        return self.on(problem)[0].gap

    def ranking(self, problem: str, promise: Promise) -> list[Row]:
        """Learners under one guarantee, the best first: the least regret, or the largest return where regret is not known.

        Whoever failed with some seeds is left out, if anybody did not: the seeds that are left may be the easy ones."""
        own = [row for row in self.on(problem) if not row.reference and row.promise == promise]
        most = max((len(row.seeds) for row in own), default=0)
        sign = 1 if self.known(problem) else -1
        told = [
            (row.final.estimate, row)
            for row in own
            if len(row.seeds) == most and row.final is not None
        ]
        return [row for _, row in sorted(told, key=lambda one: sign * one[0])]

    def nobody_learned(self, problem: str) -> bool:
        """Whether learners took part, and none of them did significantly better than uniform play."""
        found = [row.learned for row in self.on(problem) if not row.reference]
        return bool(found) and all(learned is False for learned in found)

    def ladders(self, promise: Promise) -> list[dict[str, Row]]:
        """Rows of one agent on one problem under one guarantee: `paper` with the paper's constants, `tight` with tight ones, and `none`
        without privacy. Where both calibrations were run."""
        learners = {
            (row.problem, row.variant, row.calibration, row.promise): row
            for row in self.rows
            if not row.reference
        }
        variants = dict.fromkeys(row.variant for row in self.rows if row.calibration == "paper")
        made = []
        for problem in self.problems if promise.private else []:
            for variant in variants if self.known(problem) else []:
                rungs = {
                    "paper": learners.get((problem, variant, "paper", promise)),
                    "tight": learners.get((problem, variant, "tight", promise)),
                    "none": learners.get((problem, variant, "tight", OPEN)),
                }
                if rungs["paper"] is not None and rungs["tight"] is not None:
                    made.append({name: row for name, row in rungs.items() if row is not None})
        return made

    def some(self, problems: Sequence[str] | None, agents: Sequence[str] | None) -> "Comparison":
        """Of these problems and agents only."""
        for name, asked, there in (
            ("problem", problems, self.problems),
            ("agent", agents, self.agents),
        ):
            for one in asked or ():
                if one not in there:
                    raise InvalidParameter(
                        f"no {name} {one!r} in this comparison; choose one of {', '.join(there)}"
                    )
        kept = tuple(
            row
            for row in self.rows
            if (problems is None or row.problem in problems)
            and (agents is None or row.agent in agents)
        )
        return replace(self, rows=kept)


def compare(
    sweep: "Sweep | str | Path",
    *,
    backend: str = "local",
    workers: int | None = None,
    store: str | Path | None = None,
    again: bool = False,
    progress: "Watch | None" = None,
) -> Comparison:
    """Run every cell of a sweep (or of a TOML file) that is not in the store yet, and put all of them into one table.

    The table does not depend on the backend, the number of workers, or on how often it was interrupted. A cell that fails is a row of the
    table that says why, and is tried again the next time. `store` is a folder, by default `.confide-store` here; `again` recomputes what
    is in it. After an interruption only the cells that were running are lost.
    """
    from confide.comparison.table import tidy
    from confide.runs.run_sweep import STORE, run_cells
    from confide.runs.store import Store
    from confide.runs.sweep import Sweep
    from confide.runs.sweep_file import read_sweep

    need("compare", "a comparison")
    chosen = sweep if isinstance(sweep, Sweep) else read_sweep(sweep)
    flag("again", again)
    if progress is not None and not callable(progress):
        raise InvalidParameter.of("progress", "must be a function", got=shown(progress))
    results = run_cells(
        chosen.cells(),
        backend=backend,
        workers=workers,
        store=Store(STORE if store is None else store),
        again=again,
        progress=progress,
    )
    return Comparison.of_table(tidy(chosen.name, results.items()))


def _named(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows with what tells them apart, a name for links, and the same agent after as many users without privacy. Beside another agent a
    difference need not be privacy's."""
    promises = tell_apart([(row.problem, row.agent, row.guarantee) for row in rows])
    free: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        if not row.private:
            free.setdefault((row.problem, row.agent, row.users), row)
    return tuple(
        replace(
            row,
            promise=promise,
            anchor=anchor,
            free=free.get((row.problem, row.agent, row.users)) if row.private else None,
        )
        for row, promise, anchor in zip(rows, promises, _anchors(rows), strict=True)
    )


def _anchors(rows: Sequence[Row]) -> list[str]:
    """The same the next time; with a number where names differ in signs only."""
    taken = Counter[str]()
    made = []
    for row in rows:
        promise = f"{row.trust}-{row.epsilon:g}" if row.epsilon is not None else "no-privacy"
        said = f"{row.problem}-{row.agent}-{promise}".lower()
        plain = re.sub(r"[^a-z0-9.]+", "-", said).strip("-")[:80]
        taken[plain] += 1
        made.append(plain if taken[plain] == 1 else f"{plain}--{taken[plain]}")
    return made


def _rows_of(runs: Sequence[Run]) -> list[Row]:
    """By problem, agent and guarantee, in the order of the runs. Instances of a problem that share a name are told apart by a number."""
    runs = listed("runs", runs, Run)
    if not runs:
        raise InvalidParameter("a report needs at least one run, got none")
    worlds: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        world = (run.problem, _rounded(run.optimal_value), _rounded(run.uniform_value))
        worlds.setdefault(world, []).append(run)
    named, seen = Counter(name for name, _, _ in worlds), Counter[str]()
    made = []
    for (name, _, _), members in worlds.items():
        seen[name] += 1
        title = name if named[name] == 1 else f"{name} (instance {seen[name]})"
        kinds: dict[tuple[str, Guarantee], list[Run]] = {}
        for run in members:
            kinds.setdefault((run.agent, run.guarantee), []).append(run)
        made += [_row(title, own) for own in kinds.values() if any(run.segments for run in own)]
    if not made:
        raise InvalidParameter(
            "there is nothing to report: every run was interrupted before its first user"
        )
    return made


def _row(problem: str, runs: Sequence[Run]) -> Row:
    """Over the complete runs; where none is complete, over all of them, up to the users that each of them served."""
    stopped = tuple(
        Stopped(run.seed, run.episodes, run.planned_episodes) for run in runs if not run.complete
    )
    kept = [run for run in runs if run.complete] or [run for run in runs if run.segments]
    kept = sorted(kept, key=lambda run: run.seed)
    first, users = kept[0], checkpoint_grid(min(run.episodes for run in kept))
    curves = {name: np.stack([run.curve(name, users) for run in kept]) for name in CURVES}
    known = (
        first.optimal_value is not None
        and first.uniform_value is not None
        and bool(np.isfinite(curves["value"]).all())
    )
    reached = [run.episodes_to(0.9) if known else math.nan for run in kept]
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
            [math.inf if found is None else found for found in reached], dtype=float
        ),
        certificates=tuple(run.certificate for run in kept),
        questions=tuple(run.questions for run in kept),
        last_returns=tuple(run.last_return for run in kept),
        stopped=stopped,
        seconds=tuple(run.seconds for run in kept),
        versions=tuple(dict.fromkeys(item for run in kept for item in run.versions.items())),
    )


def _rounded(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.9g}"
