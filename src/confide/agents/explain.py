"""`confide.explain`: guarantee, noise and release schedule of agents, side by side.

The numbers are from `facts.py`. This file has only words, which may be changed freely.
"""

from dataclasses import dataclass, replace
from typing import Any

from confide._memory import in_words
from confide.agents.catalogue import of_a_paper
from confide.agents.facts import Facts, facts
from confide.errors import InvalidParameter
from confide.learning.learner import Learner
from confide.privacy import words
from confide.privacy.request import Relation, Trust
from confide.privatizers import AtMost, ExpectedNoise, Schedule
from confide.problems.problem import Problem
from confide.problems.sizes import ProblemSizes

_COUNTERS = {
    "exact": "one sum",
    "tree": "binary tree",
    "honaker": "Honaker's tree",
    "leaves": "each batch separately",
    "toeplitz": "square-root Toeplitz",
    "buffered": "buffered Toeplitz",
    "discounted": "discounted sums",
}
_CALIBRATION = {
    "paper": "paper: the printed constants",
    "tight": "tight: the least noise that the guarantee needs",
}
# The cell of an agent for which there is no rule that estimates a number.
_NO_RULE = "no estimate"
# The width of a column of the table and of its headings, in characters (a matter of taste).
_COLUMN_WIDTH = 26
_HEADING_WIDTH = 20


@dataclass(frozen=True, slots=True)
class Explanation:
    """The facts about several agents, side by side. `print` shows a table.

    Names in `agents` are unique.
    """

    agents: tuple[Facts, ...]

    def to_json(self) -> dict[str, Any]:
        return {"agents": [one.to_json() for one in self.agents], "in_words": self.sentences()}

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return the rows of the table: a heading, and a cell for each agent."""
        cells_of_agents = [_cells(one) for one in self.agents]
        rows = [
            (heading, [cells[heading] for cells in cells_of_agents])
            for heading in cells_of_agents[0]
        ]
        return [(heading, texts) for heading, texts in rows if set(texts) - {"", _NO_RULE}]

    def sentences(self) -> list[str]:
        return _comparison(self.agents)

    def __str__(self) -> str:
        """Return a table as wide as the terminal.

        Rows that are the same for all agents are printed once, below.
        """
        import io
        import shutil

        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        width = min(max(shutil.get_terminal_size((100, 24)).columns, 20), 140)
        columns = max(1, (width - _HEADING_WIDTH) // _COLUMN_WIDTH)
        output = io.StringIO()
        console = Console(
            file=output, width=width, color_system=None, force_terminal=False, force_jupyter=False
        )
        rows = self.rows()
        common = [row for row in rows if len(self.agents) > 1 and len(set(row[1])) == 1]
        for start in range(0, len(self.agents), columns):
            shown = slice(start, start + columns)
            table = Table("")
            for one in self.agents[shown]:
                table.add_column(Text(one.name))
            for heading, texts in (row for row in rows if row not in common):
                table.add_row(heading, *map(Text, texts[shown]))
            console.print(table)
        if common:
            table = Table.grid(padding=(0, 2))
            for heading, texts in common:
                table.add_row(Text(f"  {heading}"), Text(texts[0]))
            everybody = "both" if len(self.agents) == 2 else "all"
            console.print(f"the same for {everybody}", table, sep="\n")
        console.print(*map(Text, self.sentences()), sep="\n")
        return "\n".join(line.rstrip() for line in output.getvalue().splitlines())

    def _repr_html_(self) -> str:
        from html import escape

        def table_row(tag: str, heading: str, texts: list[str]) -> str:
            cells = "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
            return f"<tr><th>{escape(heading)}</th>{cells}</tr>"

        head = table_row("th", "", [one.name for one in self.agents])
        body = "".join(table_row("td", heading, texts) for heading, texts in self.rows())
        sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences())
        return f"<table>{head}{body}</table>{sentences}"


def explain(*agents: Learner, problem: Problem | ProblemSizes | None = None) -> Explanation:
    """Explain the guarantee, noise, release schedule and planning of agents.

    The agents are neither run nor changed. With a `problem` it also estimates the peak memory of a
    run on it, and the planning time of each release.
    """
    if not agents:
        raise InvalidParameter("explain needs at least one agent")
    return Explanation(_make_names_unique([facts(agent, problem) for agent in agents]))


def _calibration(one: Facts) -> str:
    """Say that an algorithm of a paper is another algorithm in the tight form."""
    if one.constants:
        return "paper: the printed algorithm"
    words = _CALIBRATION.get(one.calibration, one.calibration)
    if one.calibration == "tight" and of_a_paper(one.name):
        words += "; some users explore, bonus and schedule are ours, no proof of regret"
    return words


def _cells(one: Facts) -> dict[str, str]:
    """Return the cells of one agent, by heading. A text is empty if the row does not apply."""
    noise = one.noise
    private = one.trust is not Trust.NONE
    users = one.schedule.users
    given = f"epsilon = {one.epsilon:.3g} at delta = {one.request.delta:g}"
    broken = "" if one.kept else ", MORE than requested: a run is refused"
    return {
        "calibration": _calibration(one),
        "constants": one.constants,
        "request": str(one.request) if private else words.NO_PRIVACY_LABEL,
        "guarantee": given + broken if private else words.NO_PRIVACY,
        "unit": words.UNITS[Relation(one.request.relation)] if private else "",
        "trust": words.MODELS[one.trust],
        "contribution": f"{one.bound.size} numbers: {one.bound.about}",
        "sensitivity": f"{noise.sensitivity:.4g} (L{noise.norm} norm)" if private else "",
        "releases": _releases(one.schedule),
        "mechanism": _mechanism(noise, one.schedule) if private else "exact sums",
        "noise per number": _noise(one) if private else "none",
        "signal > noise": _signal(one, users) if private else "",
        "planning": one.planning,
        "peak memory": f"about {in_words(one.resources.memory)}" if one.resources else "",
        "planning time": _planning_time(one) if one.resources else "",
        "warning": f"measured runs on problems with {one.stuck} ended more than 2 % from optimal"
        if one.stuck
        else "",
    }


def _planning_time(one: Facts) -> str:
    assert one.resources is not None
    seconds = one.resources.planning_seconds
    return f"about {seconds:.2g} s for each release, {seconds * one.schedule.leaves:.2g} s for all"


def _noise(one: Facts) -> str:
    first = _number(one.noise.first)
    last = _number(one.noise.last)
    stds = f"standard deviation {first} at the first release, {last} at the last"
    if one.trust is Trust.LOCAL and one.schedule.first is None:
        stds = f"standard deviation {first} on one message, {last} on the sum of all"
    return f"{stds}; at most {_number(one.relative_noise)} times the L{one.noise.norm} sensitivity"


def _releases(schedule: Schedule | AtMost) -> str:
    first = schedule.first
    if first is None:
        return (
            f"at most {schedule.leaves:,} rounds, whose sizes are decided from releases, "
            f"for {schedule.users:,} users"
        )
    plural = "s" if first > 1 else ""
    late = ": TOO LATE to learn from" if schedule.leaves == 1 else ""
    return (
        f"{schedule.leaves:,}, the first after {first:,} user{plural}, "
        f"for {schedule.users:,} users{late}"
    )


def _mechanism(noise: ExpectedNoise, schedule: Schedule | AtMost) -> str:
    kind = _kind(noise)
    if noise.mechanism == "rounds":
        return f"{kind} noise on each round, which has users of its own"
    if noise.mechanism == "distributed":
        return (
            f"discrete {kind} noise in shares, one from each device: "
            f"{schedule.leaves:,} sums of batches, each seen once"
        )
    if noise.mechanism == "local":
        what = kind if noise.distribution == "signs" else f"{kind} noise"
        return f"{what} on the device: one message per user"
    counter = _COUNTERS.get(noise.mechanism, noise.mechanism)
    return f"{kind} noise through a counter: {counter}, {schedule.leaves:,} leaves"


def _signal(one: Facts, users: int) -> str:
    needed = one.users_until_signal
    if needed is None:
        return _NO_RULE
    return f"after {_number(needed)} users at best" + (
        f": MORE than these {users:,}" if needed > users else ""
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:.3g}"


def _make_names_unique(facts: list[Facts]) -> tuple[Facts, ...]:
    """Make names unique: add the calibration, the privacy request or a number."""
    for attribute in ("calibration", "request"):
        named = [(one.name, str(getattr(one, attribute))) for one in facts]
        differing = [
            len({value for other_name, value in named if other_name == name}) > 1
            for name, _ in named
        ]
        facts = [
            replace(one, name=f"{name} {value}") if differs else one
            for one, (name, value), differs in zip(facts, named, differing, strict=True)
        ]
    names = [one.name for one in facts]
    numbered = [
        f"{name} ({names[:i].count(name) + 1})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
    return tuple(replace(one, name=name) for one, name in zip(facts, numbered, strict=True))


def _comparison(agents: tuple[Facts, ...]) -> list[str]:
    """Return sentences that compare each agent with the first one.

    Agents with the same result share a sentence.
    """
    unprotected = [one for one in agents if one.trust is Trust.NONE]
    private = [one for one in agents if one.trust is not Trust.NONE]
    sentences = []
    if unprotected:
        verb = _verb("add", unprotected)
        sentences.append(f"{_names(unprotected)} {verb} no noise: users are not protected.")
    if len(private) == 1:
        sentences.append(_alone(private[0]))
    elif private:
        first, *others = private
        groups: dict[tuple[str, str, bool], list[Facts]] = {}
        for one in others:
            key = (*_compare_noise(one, first), one.request == first.request)
            groups.setdefault(key, []).append(one)
        sentences += [_against(members, first, *key) for key, members in groups.items()]
        sentences += [_really(one) for one in private if one.epsilon < 0.95 * one.request.epsilon]
    return sentences + [_broken(one) for one in private if not one.kept]


def _alone(one: Facts) -> str:
    reader = "a user's message" if one.trust is Trust.LOCAL else "all releases together"
    return (
        f"An observer of {reader} learns no more about any single user than "
        f"epsilon = {one.epsilon:.3g} allows. The standard deviation of the noise on a number "
        f"is at most {_number(one.relative_noise)} times the L{one.noise.norm} sensitivity."
    )


def _compare_noise(one: Facts, first: Facts) -> tuple[str, str]:
    """Say how the noise of one agent compares with that of the first one, and by which factor.

    Noise of different distributions belongs to different norms, and is not compared.
    """
    if one.noise.distribution != first.noise.distribution:
        return "other", ""
    ratio = one.relative_noise / first.relative_noise
    if 1 / 1.05 < ratio < 1.05:
        return "same", ""
    return ("more", _number(ratio)) if ratio > 1 else ("less", _number(1 / ratio))


def _against(
    members: list[Facts], first: Facts, relation: str, factor: str, same_request: bool
) -> str:
    measure = f"relative to the L{first.noise.norm} sensitivity"
    if relation == "other":
        return (
            f"{_names(members)} {_verb('add', members)} {_kind(members[0].noise)} noise, "
            f"{first.name} {_kind(first.noise)} noise: the first depends on the "
            f"L{members[0].noise.norm} sensitivity and the second on the "
            f"L{first.noise.norm} sensitivity, so they are not compared."
        )
    if relation == "same":
        together = [first, *members]
        sizes = [str(one.bound.size) for one in together]
        numbers = sizes[0] if len(set(sizes)) == 1 else f"{', '.join(sizes[:-1])} and {sizes[-1]}"
        return (
            f"{_names(together)} add the same noise to each number, {measure}; "
            f"a user contributes {numbers} numbers."
        )
    more, less = (members, [first]) if relation == "more" else ([first], members)
    request = " for the same privacy request" if same_request else ""
    return (
        f"{_names(more)} {_verb('add', more)} {factor} times as much noise "
        f"as {_names(less)}{request}, {measure}."
    )


def _really(one: Facts) -> str:
    return (
        f"{one.name} gives epsilon = {one.epsilon:.3g}; "
        f"the requested epsilon is {one.request.epsilon:g}."
    )


def _kind(noise: ExpectedNoise) -> str:
    named = {
        "gaussian": "Gaussian",
        "laplace": "Laplace",
        "cube": "K-norm (cube)",
        "ball": "K-norm (ball)",
        "signs": "randomized response",
    }
    return named.get(noise.distribution, noise.distribution)


def _names(members: list[Facts]) -> str:
    *others, last = [one.name for one in members]
    return f"{', '.join(others)} and {last}" if others else last


def _verb(verb: str, members: list[Facts]) -> str:
    return verb if len(members) > 1 else f"{verb}s"


def _broken(one: Facts) -> str:
    return (
        f"{one.name} does not give the requested guarantee: its noise gives "
        f"epsilon = {one.epsilon:.3g}, more than {one.request.epsilon:g}. A run is refused."
    )
