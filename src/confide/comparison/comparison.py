"""A comparison: the results of a sweep, with their statistics, figures and page."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide._extras import need
from confide.arguments import flag, shown
from confide.comparison.group import Group
from confide.comparison.study import Study, study_of
from confide.comparison.table import (
    failures_of,
    groups_of_table,
    name_of,
    read_table,
    tidy,
    write_table,
)
from confide.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow

    from confide.runs.run_sweep import Watch
    from confide.runs.sweep import Sweep


@dataclass(frozen=True, eq=False)
class Comparison:
    """A sweep's results. `table` is tidy: a row per run and checkpoint; a run that failed is one row that says why."""

    name: str
    table: "pyarrow.Table" = field(repr=False)

    @cached_property
    def study(self) -> Study:
        return study_of(self.groups, name=self.name, failures=self.failures)

    @property
    def groups(self) -> list[Group]:
        """The results, one group of seeds each, in the order of the sweep. The same seed of the same problem means the same users."""
        return groups_of_table(self.table)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The runs that failed: cell, error, and a command that reproduces the failure."""
        return failures_of(self.table)

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(self.table.column("problem").to_pylist()))

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys(self.table.column("agent").to_pylist()))

    def summary(self) -> list[dict[str, Any]]:
        """One row per group: mean regret with its interval, its ratio to no privacy, and the number of users to 90 % of optimal."""
        return [row.plain() for row in self.study.rows]

    def plot(self, what: str = "regret", **options: Any) -> Any:
        """A matplotlib figure: "regret" or "value" (curves, a panel per problem), "privacy" (regret against epsilon) or "ladder" (a bar per
        calibration). `problems`, `agents` and `epsilons` choose some; see `confide.report.plot_study`."""
        from confide.comparison.plots import plot_study

        return plot_study(self.study, what, **options)

    def report(self, path: str | Path, *, command: str = "") -> Path:
        """Write the report as one self-contained HTML file."""
        from confide.comparison.page import write_study

        return write_study(self.study, path, command=command)

    def save(self, path: str | Path) -> Path:
        """Write the table as a Parquet file."""
        return write_table(self.table, path)

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """A table that `save` wrote, or the folder of a sweep."""
        table = read_table(path)
        return cls(name_of(table), table)


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
    return Comparison(chosen.name, tidy(chosen.name, results.items()))
