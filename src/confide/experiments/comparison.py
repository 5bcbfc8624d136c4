"""The results of a sweep: one tidy table, and the curves that it holds."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow

Array = npt.NDArray[np.float64]

_FORMAT = "confide-comparison/1"
_NAMES = ("problem", "agent", "trust", "guarantee", "status", "error", "command", "key")
_NUMBERS = ("epsilon", "delta", "true_epsilon", "regret", "value", "mean_return", "optimal_value", "uniform_value")
_COUNTS = ("seed", "episodes", "users", "episodes_to_90")
COLUMNS = (
    *("problem", "agent", "trust", "epsilon", "delta", "true_epsilon", "seed", "episodes", "users"),
    *("regret", "value", "mean_return", "optimal_value", "uniform_value", "episodes_to_90"),
    *("guarantee", "status", "error", "command", "key"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Runs that differ in their seed only, in the order of their seeds."""

    problem: str
    agent: str
    trust: str  # none, joint or local
    epsilon: float | None  # what was asked for
    delta: float | None
    true_epsilon: float | None  # what the noise gives
    guarantee: str
    optimal_value: float | None
    uniform_value: float | None
    seeds: tuple[int, ...]
    commands: tuple[str, ...] = field(repr=False)
    users: npt.NDArray[np.int64] = field(repr=False)  # checkpoints
    regret: Array = field(repr=False)  # [seed, checkpoint]; NaN where values are not known
    value: Array = field(repr=False)  # [seed, checkpoint]
    mean_return: Array = field(repr=False)
    episodes_to_90: Array = field(repr=False)  # [seed]; infinity where it was not reached, NaN where it is not known

    @property
    def private(self) -> bool:
        return self.trust != "none"

    @property
    def known(self) -> bool:
        """Whether regret is."""
        return self.optimal_value is not None

    @property
    def promise(self) -> str:
        """What was asked for, in short."""
        return f"ε = {self.epsilon:g}" if self.epsilon is not None else "no privacy"

    @property
    def label(self) -> str:
        return f"{self.agent}, {self.promise}"

    @property
    def final_regret(self) -> Array:
        """[seed]"""
        return self.regret[:, -1]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A sweep's results. `table` is tidy: a row per run and checkpoint; a run that failed is one row that says why."""

    name: str
    table: "pyarrow.Table" = field(repr=False)

    @property
    def groups(self) -> list[Group]:
        """What came out, in the order of the sweep; the same seeds of the same problem are the same users."""
        columns = {
            name: self.table.column(name).to_pylist() for name in COLUMNS if name not in ("regret", "value", "mean_return")
        }
        curves = {
            name: np.array(self.table.column(name).to_numpy(zero_copy_only=False), float)
            for name in ("regret", "value", "mean_return")
        }
        runs: dict[tuple[Any, ...], dict[int, list[int]]] = {}
        for row, status in enumerate(columns["status"]):
            if status == "done":
                kind = tuple(columns[name][row] for name in ("problem", "agent", "trust", "epsilon", "delta", "episodes"))
                runs.setdefault(kind, {}).setdefault(columns["seed"][row], []).append(row)
        return [_group(columns, curves, seeds) for seeds in runs.values()]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """What did not run: its cell, its error, and the command that shows it again."""
        import pyarrow.compute as pc

        shown = ("problem", "agent", "trust", "epsilon", "seed", "error", "command")
        return list(self.table.filter(pc.equal(self.table.column("status"), "failed")).select(shown).to_pylist())

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(self.table.column("problem").to_pylist()))

    @property
    def agents(self) -> list[str]:
        return list(dict.fromkeys(self.table.column("agent").to_pylist()))

    def summary(self) -> list[dict[str, Any]]:
        """A row per group: mean regret with its interval, against no privacy, how soon 90 % was reached."""
        from confide.experiments.summary import summarised

        return [row.plain() for row in summarised(self)]

    def plot(self, what: str = "regret", **options: Any) -> Any:
        """A matplotlib figure: "regret" (curves, a panel per problem), "privacy" (regret against epsilon) or "ladder" (a bar per agent)."""
        from confide.report.comparison_plots import plot_comparison

        return plot_comparison(self, what, **options)

    def report(self, path: str | Path, *, command: str = "") -> Path:
        """One HTML file that needs nothing else."""
        from confide.report.comparison_page import write_comparison

        written: Path = write_comparison(self, path, command=command)
        return written

    def save(self, path: str | Path) -> Path:
        """The table, as Parquet that opens anywhere."""
        import pyarrow.parquet as pq

        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(self.table, target, compression="zstd")
        return target

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """A table that `save` wrote, or the folder of a sweep."""
        import pyarrow
        import pyarrow.parquet as pq

        source = Path(path) / "results.parquet" if Path(path).is_dir() else Path(path)
        try:
            table = pq.read_table(source)
            facts = json.loads((table.schema.metadata or {}).get(b"confide", b"{}"))
        except (OSError, ValueError, pyarrow.ArrowInvalid) as error:
            raise InvalidParameter(f"{source} does not hold a comparison: {error}") from None
        if facts.get("format") != _FORMAT or tuple(table.column_names) != COLUMNS:
            raise InvalidParameter(f"{source} does not hold a comparison that this version of confide reads ({_FORMAT})")
        return cls(facts["name"], table)


def tidy(name: str, results: Iterable[tuple[str, dict[str, Any]]]) -> Comparison:
    """From (key, result) of every cell, in the order of the sweep. It says nothing of how long anything took, and where."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    for key, result in results:
        users = result.get("users") or [None]
        size = len(users)
        said = {**result["cell"], **{part: result.get(part) for part in COLUMNS if part not in result["cell"]}, "key": key}
        for column in COLUMNS:
            value = said[column]
            if column in ("users", "regret", "value", "mean_return"):
                columns[column] += value if isinstance(value, list) else [None] * size
            else:
                columns[column] += [value] * size
    kinds = {**dict.fromkeys(_NUMBERS, pa.float64()), **dict.fromkeys(_COUNTS, pa.int64()), **dict.fromkeys(_NAMES, pa.string())}
    facts = json.dumps({"format": _FORMAT, "name": name})
    schema = pa.schema([(column, kinds[column]) for column in COLUMNS], metadata={"confide": facts})
    columns["users"] = [None if value is None else int(value) for value in columns["users"]]
    return Comparison(name, pa.table(columns, schema=schema))


def _group(columns: dict[str, list[Any]], curves: dict[str, Array], seeds: dict[int, list[int]]) -> Group:
    firsts = {seed: rows[0] for seed, rows in sorted(seeds.items())}
    first = next(iter(firsts.values()))
    rows = [seeds[seed] for seed in firsts]
    unknown = columns["optimal_value"][first] is None or columns["uniform_value"][first] is None
    never = math.nan if unknown else math.inf
    reached = [columns["episodes_to_90"][row] for row in firsts.values()]
    names = ("problem", "agent", "trust", "epsilon", "delta", "true_epsilon", "guarantee", "optimal_value", "uniform_value")
    facts: dict[str, Any] = {name: columns[name][first] for name in names}
    facts |= {name: np.stack([curve[each] for each in rows]) for name, curve in curves.items()}
    return Group(
        **facts,
        seeds=tuple(firsts),
        commands=tuple(columns["command"][row] for row in firsts.values()),
        users=np.array([columns["users"][row] for row in rows[0]], dtype=np.int64),
        episodes_to_90=np.array([never if value is None else value for value in reached], dtype=float),
    )


def of_problem(groups: Sequence[Group], problem: str) -> list[Group]:
    return [group for group in groups if group.problem == problem]
