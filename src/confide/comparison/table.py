"""The results of a sweep as one tidy table.

The table has a row per run and checkpoint. A run that failed is one row that says why. The table
is saved as Parquet, so names, order and types of the columns stay; a change needs another _FORMAT.
It says nothing of how long anything took, and where.
"""

import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide._durable import make_folder, replace
from confide._extras import need
from confide.comparison.intervals import Array
from confide.comparison.row import Row
from confide.errors import InvalidParameter
from confide.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    import pyarrow

_FORMAT = "confide-comparison/2"
_NAMES = (
    "problem",
    "agent",
    "variant",
    "calibration",
    "trust",
    "guarantee",
    "status",
    "error",
    "command",
    "key",
)
_NUMBERS = (
    "epsilon",
    "delta",
    "true_epsilon",
    "regret",
    "value",
    "mean_return",
    "optimal_value",
    "uniform_value",
)
_COUNTS = ("seed", "episodes", "users", "episodes_to_90")
COLUMNS = (
    *("problem", "agent", "variant", "calibration"),
    *("trust", "epsilon", "delta", "true_epsilon", "seed", "episodes", "users"),
    *("regret", "value", "mean_return", "optimal_value", "uniform_value", "episodes_to_90"),
    *("guarantee", "status", "error", "command", "key"),
)


def tidy(name: str, results: Iterable[tuple[str, dict[str, Any]]]) -> "pyarrow.Table":
    """The table from the (key, result) of every cell, in the order of the sweep."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    for key, result in results:
        users = result.get("users") or [None]
        size = len(users)
        cell = result["cell"]
        values = {column: result.get(column) for column in COLUMNS} | cell | {"key": key}
        for column in COLUMNS:
            value = values[column]
            if column in ("users", "regret", "value", "mean_return"):
                columns[column] += value if isinstance(value, list) else [None] * size
            else:
                columns[column] += [value] * size
    kinds = {
        **dict.fromkeys(_NUMBERS, pa.float64()),
        **dict.fromkeys(_COUNTS, pa.int64()),
        **dict.fromkeys(_NAMES, pa.string()),
    }
    facts = json.dumps({"format": _FORMAT, "name": name})
    schema = pa.schema([(column, kinds[column]) for column in COLUMNS], metadata={"confide": facts})
    columns["users"] = [None if value is None else int(value) for value in columns["users"]]
    return pa.table(columns, schema=schema)


def rows_of_table(table: "pyarrow.Table") -> list[Row]:
    """A row per problem, agent and guarantee, in the order of the sweep.

    The same seed of a problem means the same users.
    """
    curves = ("regret", "value", "mean_return")
    columns = {name: table.column(name).to_pylist() for name in COLUMNS if name not in curves}
    arrays = {
        name: np.array(table.column(name).to_numpy(zero_copy_only=False), float) for name in curves
    }
    runs: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for row, status in enumerate(columns["status"]):
        if status == "done":
            kind = tuple(
                columns[name][row]
                for name in ("problem", "agent", "trust", "epsilon", "delta", "episodes")
            )
            runs.setdefault(kind, {}).setdefault(columns["seed"][row], []).append(row)
    return [_row(columns, arrays, seeds) for seeds in runs.values()]


def failures_of(table: "pyarrow.Table") -> list[dict[str, Any]]:
    """The runs that failed: cell, error, and a command that reproduces the failure."""
    import pyarrow.compute as pc

    names = ("problem", "agent", "trust", "epsilon", "seed", "error", "command")
    failed = table.filter(pc.equal(table.column("status"), "failed"))
    return list(failed.select(names).to_pylist())


def name_of(table: "pyarrow.Table") -> str:
    return str(json.loads(table.schema.metadata[b"confide"])["name"])


def write_table(table: "pyarrow.Table", path: str | Path) -> Path:
    """Write the table as Parquet that opens anywhere."""
    import pyarrow.parquet as pq

    target = Path(path)
    written = io.BytesIO()
    pq.write_table(table, written, compression="zstd")
    make_folder(target.parent)
    replace(target, written.getvalue())
    return target


def read_table(path: str | Path) -> "pyarrow.Table":
    """A table that `write_table` wrote, or the folder of a sweep."""
    need("compare", "a comparison")
    import pyarrow
    import pyarrow.parquet as pq

    source = Path(path) / "results.parquet" if Path(path).is_dir() else Path(path)
    try:
        table = pq.read_table(source)
        facts = json.loads((table.schema.metadata or {}).get(b"confide", b"{}"))
    except (OSError, ValueError, pyarrow.ArrowInvalid) as error:
        raise InvalidParameter(f"{source} is not a comparison: {error}") from None
    if facts.get("format") != _FORMAT or tuple(table.column_names) != COLUMNS:
        raise InvalidParameter(
            f"{source} is not a comparison that this version of confide can read ({_FORMAT})"
        )
    return table


def _row(
    columns: dict[str, list[Any]], curves: dict[str, Array], seeds: dict[int, list[int]]
) -> Row:
    firsts = {seed: places[0] for seed, places in sorted(seeds.items())}
    first = next(iter(firsts.values()))
    places = [seeds[seed] for seed in firsts]
    unknown = columns["optimal_value"][first] is None or columns["uniform_value"][first] is None
    never = math.nan if unknown else math.inf
    reached = [columns["episodes_to_90"][place] for place in firsts.values()]
    names = ("problem", "agent", "variant", "calibration", "optimal_value", "uniform_value")
    facts: dict[str, Any] = {name: columns[name][first] for name in names}
    return Row(
        **facts,
        guarantee=Guarantee.from_json(json.loads(columns["guarantee"][first])),
        seeds=tuple(firsts),
        commands=tuple(columns["command"][place] for place in firsts.values()),
        checkpoints=np.array([columns["users"][place] for place in places[0]], dtype=np.int64),
        curves={name: np.stack([curve[each] for each in places]) for name, curve in curves.items()},
        episodes_to_90=np.array(
            [never if value is None else value for value in reached], dtype=float
        ),
    )
