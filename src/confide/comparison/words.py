"""Sentences about a comparison."""

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from confide.comparison.intervals import Interval, Reached
from confide.comparison.pairs import LEVEL, Pair, seeds_needed
from confide.comparison.row import Row
from confide.privacy import words
from confide.report.words import count, in_words, listed, number, percent, probability

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

# How the rungs of a ladder are called.
RUNGS = {"paper": "paper constants", "tight": "tight", "none": words.NO_PRIVACY_LABEL}
_SURE = f"{100 * LEVEL:g}\u202f%"


def headline(comparison: "Comparison") -> str:
    """The main result, at the guarantee that is shown first."""
    if not comparison.rows:
        return "There are no results: every run failed."
    if not comparison.learners:
        return _room(comparison)
    return " ".join(
        part
        for part in (
            _nobody(comparison),
            _best_where(comparison),
            _unranked(comparison),
            _cost(comparison),
            significance(comparison),
        )
        if part
    )


def nobody_learned(comparison: "Comparison") -> list[str]:
    """One sentence per problem: for tables."""
    few = " (with one seed this cannot be tested)" if comparison.seeds == 1 else ""
    return [
        f"{problem}: no agent learned: none is significantly better than uniform play{few}"
        for problem in comparison.problems
        if comparison.nobody_learned(problem)
    ]


def _nobody(comparison: "Comparison") -> str:
    found = [problem for problem in comparison.problems if comparison.nobody_learned(problem)]
    if not found:
        return ""
    better = "better" if comparison.seeds == 1 else "significantly better"
    return f"No agent learned on {listed(found)}: after {count(comparison.users)} users no learner is {better} than uniform play."


def _best_where(comparison: "Comparison") -> str:
    tried = {
        problem: comparison.ranking(problem, comparison.chosen)
        for problem in comparison.problems
        if not comparison.nobody_learned(problem)
    }
    ranked = {problem: order for problem, order in tried.items() if order}
    if not ranked:
        return ""
    alone = max(len(order) for order in ranked.values()) == 1
    does = (
        ("lost" if alone else "lost least")
        if comparison.known(next(iter(ranked)))
        else ("earned" if alone else "earned most")
    )
    places: dict[str, list[str]] = {}
    for problem, order in ranked.items():
        first = [row.agent for row in order if _final(row) == _final(order[0])]
        every = len(first) == len(order) and len(order) > 1
        places.setdefault(listed(first) + (" alike" if every else ""), []).append(problem)
    start = "Without privacy" if not comparison.chosen.private else f"At {comparison.chosen}"
    shares = [row.of_uniform.estimate for row, *_ in ranked.values() if row.of_uniform is not None]
    of_uniform = (
        f": {_between(shares, lambda one: in_words(percent(one)))} of what uniform play loses"
        if shares
        else ""
    )
    if alone:
        figures = [f"{number(_final(order[0]))} on {problem}" for problem, order in ranked.items()]
        return f"{start}, {' and '.join(places)} {does} {listed(figures)}{of_uniform}."
    if len(places) == 1:
        everywhere = f"all {len(ranked)} problems" if len(ranked) > 2 else listed(list(ranked))
        return f"{start}, {next(iter(places))} {does} on {everywhere}{of_uniform}."
    return f"{start}, the best was {listed([f'{agent} on {listed(there)}' for agent, there in places.items()])}{of_uniform}."


def _unranked(comparison: "Comparison") -> str:
    """Agents with failed runs at the guarantee that is shown first."""
    chosen = {row.epsilon for row in comparison.rows if row.promise == comparison.chosen}
    failed = Counter(
        (one["agent"], one["problem"]) for one in comparison.failures if one["epsilon"] in chosen
    )
    said = [
        f"{agent} failed in {runs} of {comparison.seeds} runs on {problem}"
        for (agent, problem), runs in failed.items()
    ]
    return f"{listed(said)}, and is not ranked there." if said else ""


def _cost(comparison: "Comparison") -> str:
    """Of the best learner of each problem."""
    tried = [problem for problem in comparison.problems if not comparison.nobody_learned(problem)]
    best = [
        order[0] for problem in tried if (order := comparison.ranking(problem, comparison.chosen))
    ]
    costs = [row.of_no_privacy for row in best if row.of_no_privacy is not None]
    if not costs:
        return ""
    who = "it" if len({row.agent for row in best}) == 1 else "the best"
    times = _between([cost.estimate for cost in costs], lambda one: number(one, 2))
    if all(
        cost.low is not None and cost.high is not None and cost.low <= 1 <= cost.high
        for cost in costs
    ):
        return f"The cost of privacy is not statistically significant ({times} times the regret without privacy)."
    return f"Privacy cost {who} {times} times the regret without privacy."


def _room(comparison: "Comparison") -> str:
    gaps = [
        (problem, gap)
        for problem in comparison.problems
        if (gap := comparison.gap(problem)) is not None
    ]
    if not gaps:
        return (
            f"No learner took part: reference policies only, for {count(comparison.users)} users."
        )
    said = [f"{number(gap * comparison.users, 4)} on {problem}" for problem, gap in gaps]
    return f"No learner took part. Uniform play loses {listed(said)} to optimal play over {count(comparison.users)} users."


def significance(comparison: "Comparison") -> str:
    """How many of the differences between agents are significant, or could be."""
    pairs = comparison.pairs
    if comparison.seeds == 1:
        return "With one seed nothing can be said about statistical significance."
    if not pairs:
        return ""
    if not any(pair.compared.possible for pair in pairs):
        enough = f"{seeds_needed(len(pairs))} seeds could show one"
        if len(pairs) == 1:
            return f"With {comparison.seeds} seeds the one difference between agents cannot be significant; {enough}."
        what = f"none of {len(pairs)} differences between agents"
        return f"With {comparison.seeds} seeds {what} can be significant after correction for their number; {enough}."
    shown = sum(pair.compared.significant for pair in pairs)
    corrected = f"statistically significant ({_SURE}, corrected for {len(pairs)} comparisons)"
    many = f"{shown or 'None'} of {len(pairs)} differences between agents"
    return f"{many} {'is' if shown in (0, 1) else 'are'} {corrected}."


def details(comparison: "Comparison", row: Row) -> list[str]:
    """The details on a learner's card."""
    said = []
    if row.final is not None:
        said.append(
            f"{'Regret' if row.regret is not None else 'Average return'} {interval(row.final)}"
        )
    if row.of_uniform is not None:
        said[0] += f", {percent(row.of_uniform.estimate)} of uniform play’s"
    if row.of_no_privacy is not None:
        said.append(f"{interval(row.of_no_privacy, 2)} times its regret without privacy")
    if row.learned is False:
        said.append(
            "Not significantly better than uniform play"
            if comparison.seeds > 1
            else "No better than uniform play"
        )
    if row.stricter:
        said.append(really(row))
    return said


def best_details(comparison: "Comparison", problem: str) -> list[str]:
    """The details on a problem's card, below its best learner."""
    best, *others = comparison.ranking(problem, comparison.chosen)
    said = details(comparison, best)
    if others:
        said.append(
            f"Next: {others[0].agent}, {number(_final(others[0]))}; {_tested(comparison, best, others[0])}"
        )
    return said


def _tested(comparison: "Comparison", first: Row, second: Row) -> str:
    names = {first.agent, second.agent}
    same = (
        pair
        for pair in comparison.pairs
        if (pair.problem, pair.promise) == (first.problem, first.promise)
    )
    pair = next(
        (pair for pair in same if {pair.compared.first, pair.compared.second} == names), None
    )
    return "not compared" if pair is None else f"the difference is {verdict(pair)}"


def verdict(pair: Pair) -> str:
    if pair.compared.significant:
        return f"significant, p = {probability(pair.compared.adjusted)}"
    return (
        f"not significant, p = {probability(pair.compared.adjusted)}"
        if pair.compared.possible
        else "not tested: too few seeds"
    )


def remarks(comparison: "Comparison") -> list[str]:
    """Remarks that limit how the figures may be read."""
    said = []
    for row in comparison.rows:
        if not row.stopped:
            continue
        stops = ", ".join(
            f"seed {one.seed} after {count(one.users)} of {count(one.planned)} users"
            for one in row.stopped
        )
        cut = {one.seed for one in row.stopped} & set(row.seeds)
        kept = (
            f"the figures stop at {count(row.users)} users" if cut else "excluded from all figures"
        )
        said.append(f"{row.label} was interrupted ({stops}): {kept}.")
    silent = [
        row.label
        for row in comparison.rows
        if "noise_std" in row.curves and not row.noisy and not row.reference
    ]
    if silent:
        said.append(
            f"{', '.join(silent)}: no noise was added to the statistics from which the policy was planned, so no noise is shown."
        )
    return said


def really(row: Row) -> str:
    """A remark if the noise gives a much smaller epsilon than requested, as printed constants do."""
    return (
        f"Requested ε = {row.epsilon:.3g}; the noise gives ε = {row.true_epsilon:.3g}"
        if row.stricter
        else ""
    )


def interval(figure: Interval, digits: int = 3) -> str:
    between = ends(figure, digits)
    return (
        f"{number(figure.estimate, digits)} ({between})"
        if between
        else number(figure.estimate, digits)
    )


def ends(figure: Interval, digits: int = 3) -> str:
    """Of the interval; nothing where there is none, or none that these digits show."""
    if figure.low is None or figure.high is None:
        return ""
    low, high = number(figure.low, digits), number(figure.high, digits)
    return "" if low == high else f"{low} to {high}"


def share_ends(figure: Interval) -> str:
    if figure.low is None or figure.high is None:
        return ""
    low, high = percent(figure.low), percent(figure.high)
    return "" if low == high else f"{low} to {high}"


def reached(found: Reached) -> tuple[str, str]:
    """The median, and what else is to be said."""
    missing = found.seeds - found.reached
    if missing:
        return _users(found.median), f"not reached in {missing} of {found.seeds}"
    return (
        _users(found.median),
        ""
        if found.low is None or found.high is None
        else f"{_users(found.low)} to {_users(found.high)}",
    )


def grown(row: Row) -> tuple[str, str]:
    """The measured exponent, and the theorem's."""
    growth = row.growth
    if growth is None:
        return "–", ""
    measured = (
        f"{growth.slope:.2f}"
        if growth.error is None
        else f"{growth.slope:.2f} ± {growth.error:.2f}"
    )
    if row.theorem is None:
        return measured, ""
    against = {
        "below": "below",
        "above": "above",
        "compatible": "compatible with",
        "unknown": "bound:",
    }[row.verdict]
    return measured, f"{against} {row.theorem.exponent:.3g} {row.theorem.locator}"


def _final(row: Row) -> float:
    return math.nan if row.final is None else row.final.estimate


def _users(value: float) -> str:
    return count(value) if value < math.inf else "never"


def _between(values: list[float], say: Callable[[float], str]) -> str:
    low, high = say(min(values)), say(max(values))
    return low if low == high else f"{low} to {high}"
