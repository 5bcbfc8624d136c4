"""Colours, dashes and markers of agents, the same in all charts."""

from dataclasses import replace
from typing import TYPE_CHECKING

from confide.comparison.row import Row
from confide.report.charts import LIGHT, MARKERS, Look

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

_DASHES = {"uniform": "dot", "oracle": "dashdot"}


def agent_looks(comparison: "Comparison") -> dict[str, Look]:
    """A colour and a marker per learner; reference policies are neutral."""
    learners = {
        agent: Look(i % len(LIGHT), "solid", i % len(MARKERS))
        for i, agent in enumerate(comparison.learners)
    }
    return {
        agent: learners.get(agent, Look(None, _DASHES.get(agent, "dash")))
        for agent in (*learners, *(one for one in comparison.agents if one not in learners))
    }


def look_of(row: Row, agents: dict[str, Look]) -> Look:
    """Solid means private."""
    own = agents[row.agent]
    return own if own.tone is None or row.private else replace(own, dash="dash")
