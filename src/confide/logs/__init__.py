"""Logged trajectories: opened, checked and summed user by user, in bounded memory."""

from confide.logs.check import Check
from confide.logs.columns import Caps, Columns
from confide.logs.imports import from_minari, import_log
from confide.logs.labels import Labels
from confide.logs.log import Logs, LogStatistic, in_memory, open
from confide.logs.simulate import simulate
from confide.logs.summary import Imported
from confide.logs.writing import write

__all__ = [
    "Logs",
    "from_minari",
    "import_log",
    "in_memory",
    "open",
    "simulate",
    "write",
]
