"""Tables, as cells: text, small print and sort key."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confide.report.charts import Look


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell of a table on a page."""

    text: str
    # Small print below the text, such as the ends of an interval.
    small: str = ""
    # What the column is sorted by. None: unknown, and sorted last.
    key: float | str | None = None
    # Shown under the pointer.
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table on a page."""

    cells: Sequence[TableCell]
    # The id that links lead to.
    anchor: str = ""
    # The guarantee that shows and hides the row. Empty: it is always shown.
    promise: str = ""
    look: Look | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table on a page, with what its buttons copy."""

    name: str
    heads: Sequence[str]
    rows: Sequence[TableRow]
    # The rows for machines, in the same order.
    plain: Sequence[dict[str, Any]] = field(repr=False)

    @property
    def copies(self) -> dict[str, Any]:
        """What the buttons copy.

        CSV is for machines: all digits, and a column per number. Markdown is for people: the table
        as it looks.
        """
        columns = list(self.plain[0]) if self.plain else []
        csv_rows = [[row[column] for column in columns] for row in self.plain]
        markdown_rows = [[_as_text(cell) for cell in row.cells] for row in self.rows]
        return {
            "markdown": {"heads": list(self.heads), "rows": markdown_rows},
            "csv": {"heads": columns, "rows": csv_rows},
        }


def _as_text(cell: TableCell) -> str:
    return f"{cell.text} ({cell.small})" if cell.small else cell.text
