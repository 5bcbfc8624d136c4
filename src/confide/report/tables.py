"""Tables, as cells: text, small print and sort key."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confide.report.charts import Look


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    small: str = ""
    key: float | str | None = None  # None: unknown, sorted last
    hint: str = ""  # shown under the pointer


@dataclass(frozen=True, slots=True)
class TableRow:
    cells: Sequence[Cell]
    anchor: str = ""
    promise: str = ""  # empty: reference policies, which are always shown
    look: Look | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    heads: Sequence[str]
    rows: Sequence[TableRow]
    plain: Sequence[dict[str, Any]] = field(repr=False)

    @property
    def copies(self) -> dict[str, Any]:
        """CSV is for machines: all digits, a column per number. Markdown is for people: the table as it looks."""
        said = [
            [f"{cell.text} ({cell.small})" if cell.small else cell.text for cell in row.cells]
            for row in self.rows
        ]
        columns = list(self.plain[0]) if self.plain else []
        return {
            "markdown": {"heads": list(self.heads), "rows": said},
            "csv": {
                "heads": columns,
                "rows": [[row[column] for column in columns] for row in self.plain],
            },
        }
