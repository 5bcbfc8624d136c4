"""`confide.explain`: guarantee, noise and release schedule of agents, side by side. The numbers are from `agents/facts.py`."""

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
_NO_RULE = "no estimate"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The facts about several agents, side by side; `print` shows a table. Names in `agents` are unique."""

    agents: tuple[Facts, ...]

    def to_json(self) -> dict[str, Any]:
        return {"agents": [one.to_json() for one in self.agents], "in_words": self.sentences()}

    def rows(self) -> list[tuple[str, list[str]]]:
        """The rows of the table: a heading, and a cell per agent."""
        cells = [_cells(one) for one in self.agents]
        rows = [(heading, [said[heading] for said in cells]) for heading in cells[0]]
        return [(heading, texts) for heading, texts in rows if set(texts) - {"", _NO_RULE}]

    def sentences(self) -> list[str]:
        return _comparison(self.agents)

    def __str__(self) -> str:
        """A table as wide as the terminal; rows that are the same for all agents are printed once, below."""
        import io
        import shutil

        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        width = min(max(shutil.get_terminal_size((100, 24)).columns, 20), 140)
        rows, together, said = self.rows(), max(1, (width - 20) // 26), io.StringIO()
        console = Console(
            file=said, width=width, color_system=None, force_terminal=False, force_jupyter=False
        )
        common = [row for row in rows if len(self.agents) > 1 and len(set(row[1])) == 1]
        for start in range(0, len(self.agents), together):
            shown, table = slice(start, start + together), Table("")
            for one in self.agents[shown]:
                table.add_column(Text(one.name))
            for heading, texts in (row for row in rows if row not in common):
                table.add_row(heading, *map(Text, texts[shown]))
            console.print(table)
        if common:
            table = Table.grid(padding=(0, 2))
            for heading, texts in common:
                table.add_row(Text(f"  {heading}"), Text(texts[0]))
            console.print(
                "the same for " + ("both" if len(self.agents) == 2 else "all"), table, sep="\n"
            )
        console.print(*map(Text, self.sentences()), sep="\n")
        return "\n".join(line.rstrip() for line in said.getvalue().splitlines())

    def _repr_html_(self) -> str:
        from html import escape

        def line(cell: str, heading: str, texts: list[str]) -> str:
            return f"<tr><th>{escape(heading)}</th>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"

        head = line("th", "", [one.name for one in self.agents])
        body = "".join(line("td", heading, texts) for heading, texts in self.rows())
        return f"<table>{head}{body}</table>" + "".join(
            f"<p>{escape(sentence)}</p>" for sentence in self.sentences()
        )


def explain(*agents: Learner, problem: Problem | ProblemSizes | None = None) -> Explanation:
    """Explain the guarantee, noise, release schedule and planning of agents, without running or changing them.

    With a `problem` it also estimates the peak memory of a run on it, and the planning time of each release.
    """
    if not agents:
        raise InvalidParameter("explain needs at least one agent")
    return Explanation(_told_apart([facts(agent, problem) for agent in agents]))


def _calibration(one: Facts) -> str:
    """An algorithm of a paper is another one in the tight form, which is said here."""
    if one.constants:
        return "paper: the printed algorithm"
    words = _CALIBRATION.get(one.calibration, one.calibration)
    if one.calibration == "tight" and of_a_paper(one.name):
        words += "; some users explore, bonus and schedule are ours, no proof of regret"
    return words


def _cells(one: Facts) -> dict[str, str]:
    """The cells of one agent, by heading; an empty text where a row does not apply."""
    noise, private, users = one.noise, one.trust is not Trust.NONE, one.schedule.users
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
    first, last = _number(one.noise.first), _number(one.noise.last)
    stds = f"standard deviation {first} at the first release, {last} at the last"
    if one.trust is Trust.LOCAL and one.schedule.first is None:
        stds = f"standard deviation {first} on one message, {last} on the sum of all"
    return f"{stds}; at most {_number(one.relative_noise)} times the L{one.noise.norm} sensitivity"


def _releases(schedule: Schedule | AtMost) -> str:
    first = schedule.first
    if first is None:
        return f"at most {schedule.leaves:,} rounds, whose sizes are decided from releases, for {schedule.users:,} users"
    late = ": TOO LATE to learn from" if schedule.leaves == 1 else ""
    return f"{schedule.leaves:,}, the first after {first:,} user{'s' if first > 1 else ''}, for {schedule.users:,} users{late}"


def _mechanism(noise: ExpectedNoise, schedule: Schedule | AtMost) -> str:
    kind = _kind(noise)
    if noise.mechanism == "rounds":
        return f"{kind} noise on each round, which has users of its own"
    if noise.mechanism == "distributed":
        return f"discrete {kind} noise in shares, one from each device: {schedule.leaves:,} sums of batches, each seen once"
    if noise.mechanism == "local":
        return f"{kind}{'' if noise.distribution == 'signs' else ' noise'} on the device: one message per user"
    return f"{kind} noise through a counter: {_COUNTERS.get(noise.mechanism, noise.mechanism)}, {schedule.leaves:,} leaves"


def _signal(one: Facts, users: int) -> str:
    needed = one.users_until_signal
    if needed is None:
        return _NO_RULE
    return f"after {_number(needed)} users at best" + (
        f": MORE than these {users:,}" if needed > users else ""
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:.3g}"


def _told_apart(facts: list[Facts]) -> tuple[Facts, ...]:
    """Make names unique: add the calibration, the privacy request or a number."""
    for extra in ("calibration", "request"):
        said = [(one.name, str(getattr(one, extra))) for one in facts]
        facts = [
            replace(one, name=" ".join(own))
            if len({other for name, other in said if name == one.name}) > 1
            else one
            for one, own in zip(facts, said, strict=True)
        ]
    names = [one.name for one in facts]
    twice = [
        f"{name} ({names[:i].count(name) + 1})" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
    return tuple(replace(one, name=name) for one, name in zip(facts, twice, strict=True))


def _comparison(agents: tuple[Facts, ...]) -> list[str]:
    """Sentences that compare each agent with the first; agents with the same result share a sentence."""
    open_, private = [
        [one for one in agents if (one.trust is Trust.NONE) is none] for none in (True, False)
    ]
    said = (
        [f"{_names(open_)} {_verb('add', open_)} no noise: users are not protected."]
        if open_
        else []
    )
    if len(private) == 1:
        said.append(_alone(private[0]))
    elif private:
        first, *others = private
        groups: dict[tuple[str, str, bool], list[Facts]] = {}
        for one in others:
            groups.setdefault((*_compared(one, first), one.request == first.request), []).append(
                one
            )
        said += [_against(members, first, *key) for key, members in groups.items()]
        said += [_really(one) for one in private if one.epsilon < 0.95 * one.request.epsilon]
    return said + [_broken(one) for one in private if not one.kept]


def _alone(one: Facts) -> str:
    reader = "a user's message" if one.trust is Trust.LOCAL else "all releases together"
    return (
        f"An observer of {reader} learns no more about any single user than epsilon = {one.epsilon:.3g} allows. The standard "
        f"deviation of the noise on a number is at most {_number(one.relative_noise)} times the L{one.noise.norm} sensitivity."
    )


def _compared(one: Facts, first: Facts) -> tuple[str, str]:
    """How the noise of one compares with that of the first, and by which factor; Gaussian and Laplace noise use different norms."""
    if one.noise.distribution != first.noise.distribution:
        return "other", ""
    ratio = one.relative_noise / first.relative_noise
    if 1 / 1.05 < ratio < 1.05:
        return "same", ""
    return ("more", _number(ratio)) if ratio > 1 else ("less", _number(1 / ratio))


def _against(
    members: list[Facts], first: Facts, relation: str, factor: str, same_promise: bool
) -> str:
    measure = f"relative to the L{first.noise.norm} sensitivity"
    if relation == "other":
        return (
            f"{_names(members)} {_verb('add', members)} {_kind(members[0].noise)} noise, {first.name} {_kind(first.noise)} noise: "
            f"the first depends on the L{members[0].noise.norm} sensitivity and the second on the L{first.noise.norm} sensitivity, "
            "so they are not compared."
        )
    if relation == "same":
        together = [first, *members]
        sizes = [str(one.bound.size) for one in together]
        numbers = sizes[0] if len(set(sizes)) == 1 else f"{', '.join(sizes[:-1])} and {sizes[-1]}"
        return f"{_names(together)} add the same noise to each number, {measure}; a user contributes {numbers} numbers."
    more, less = (members, [first]) if relation == "more" else ([first], members)
    promise = " for the same privacy request" if same_promise else ""
    return f"{_names(more)} {_verb('add', more)} {factor} times as much noise as {_names(less)}{promise}, {measure}."


def _really(one: Facts) -> str:
    return f"{one.name} gives epsilon = {one.epsilon:.3g}; the requested epsilon is {one.request.epsilon:g}."


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
    epsilon, asked = one.epsilon, one.request.epsilon
    return (
        f"{one.name} does not give the requested guarantee: its noise gives epsilon = {epsilon:.3g}, more than {asked:g}. A run "
        "is refused."
    )
