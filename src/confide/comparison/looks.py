"""Colours, dashes and markers of agents, the same in all figures."""

from confide.comparison.study import Study
from confide.comparison.summary import Row
from confide.report.drawing import LIGHT, MARKERS, Look


def agent_looks(study: Study) -> dict[str, Look]:
    """A colour and a marker per learner; reference policies are neutral."""
    learners = {
        agent: Look(i % len(LIGHT), "solid", i % len(MARKERS))
        for i, agent in enumerate(study.learners)
    }
    others = [agent for agent in study.agents if agent not in learners]
    return learners | {
        agent: Look(None, {"uniform": "dot", "oracle": "dashdot"}.get(agent, "dash"))
        for agent in others
    }


def look_of(row: Row, agents: dict[str, Look]) -> Look:
    """Solid means private."""
    own = agents[row.group.agent]
    return (
        own
        if own.tone is None
        else Look(own.tone, "solid" if row.group.private else "dash", own.marker)
    )
