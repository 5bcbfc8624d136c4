"""Colours, dashes and markers of agents, the same in all figures."""

from confide.drawing import DARK, LIGHT, MARKERS, NEUTRAL, Look
from confide.experiments.study import Study
from confide.experiments.summary import Row


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


def palette() -> str:
    """The custom properties of the style sheet, for light and for dark screens."""
    light = (
        "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(LIGHT))
        + f"--neutral:{NEUTRAL[0]};"
    )
    dark = (
        "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(DARK))
        + f"--neutral:{NEUTRAL[1]};"
    )
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
