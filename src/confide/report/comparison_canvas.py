"""A matplotlib figure that is saved as papers want it; imports matplotlib, so it is imported where something is drawn."""

from typing import Any

import matplotlib
from matplotlib.figure import Figure


class PaperFigure(Figure):
    """A figure without a display and without global state, whatever the settings of the process that saves it."""

    def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
        # TrueType, which publishers take (type 3 they refuse) and editors can change; the same figure gives the same SVG
        with matplotlib.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "confide"}):
            super().savefig(fname, transparent=transparent, **kwargs)
