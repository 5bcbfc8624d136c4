"""Colours, dashes and markers of agents, the same in all charts."""

from dataclasses import replace
from typing import TYPE_CHECKING

from confide.comparison.row import Row
from confide.report.charts import LIGHT, MARKERS, Look

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

# Of reference policies.
_DASHES = {"uniform": "dot", "oracle": "dashdot"}


def agent_looks(comparison: "Comparison") -> dict[str, Look]:
    """A colour and a marker per learner; reference policies are neutral."""
    looks = {
        agent: Look(place % len(LIGHT), "solid", place % len(MARKERS))
        for place, agent in enumerate(comparison.learners)
    }
    for agent in comparison.agents:
        looks.setdefault(agent, Look(None, _DASHES.get(agent, "dash")))
    return looks


def look_of(row: Row, agents: dict[str, Look]) -> Look:
    """The look of a row. Solid means private."""
    look = agents[row.agent]
    return look if look.tone is None or row.private else replace(look, dash="dash")
