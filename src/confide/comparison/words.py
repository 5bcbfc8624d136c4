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
_LEVEL_IN_WORDS = f"{100 * LEVEL:g}\u202f%"


def headline(comparison: "Comparison") -> str:
    """The main result, at the guarantee that is shown first."""
    if not comparison.rows:
        return "There are no results: every run failed."
    if not comparison.learners:
        return _without_learners(comparison)
    sentences = (
        _where_nobody_learned(comparison),
        _best_learners(comparison),
        _not_ranked(comparison),
        _cost_of_privacy(comparison),
        significance(comparison),
    )
    return " ".join(sentence for sentence in sentences if sentence)


def nobody_learned(comparison: "Comparison") -> list[str]:
    """For tables: one sentence for each problem on which nobody learned."""
    one_seed = " (with one seed this cannot be tested)" if comparison.seeds == 1 else ""
    return [
        f"{problem}: no agent learned: none is significantly better than uniform play{one_seed}"
        for problem in comparison.problems
        if comparison.nobody_learned(problem)
    ]


def _where_nobody_learned(comparison: "Comparison") -> str:
    problems = [problem for problem in comparison.problems if comparison.nobody_learned(problem)]
    if not problems:
        return ""
    better = "better" if comparison.seeds == 1 else "significantly better"
    return (
        f"No agent learned on {listed(problems)}: after {count(comparison.users)} users "
        f"no learner is {better} than uniform play."
    )


def _rankings(comparison: "Comparison") -> dict[str, list[Row]]:
    """By problem on which somebody learned: the learners under the chosen guarantee, best first."""
    rankings = {
        problem: comparison.ranking(problem, comparison.chosen)
        for problem in comparison.problems
        if not comparison.nobody_learned(problem)
    }
    return {problem: ranking for problem, ranking in rankings.items() if ranking}


def _best_learners(comparison: "Comparison") -> str:
    rankings = _rankings(comparison)
    if not rankings:
        return ""
    is_alone = max(len(ranking) for ranking in rankings.values()) == 1
    verb = "lost" if comparison.known(next(iter(rankings))) else "earned"
    problems_by_best: dict[str, list[str]] = {}
    for problem, ranking in rankings.items():
        best = [row.agent for row in ranking if _final(row) == _final(ranking[0])]
        all_alike = len(best) == len(ranking) and len(ranking) > 1
        name = listed(best) + (" alike" if all_alike else "")
        problems_by_best.setdefault(name, []).append(problem)
    start = f"At {comparison.chosen}" if comparison.chosen.private else "Without privacy"
    of_uniform = _of_uniform_play([ranking[0] for ranking in rankings.values()])
    if is_alone:
        figures = [
            f"{number(_final(ranking[0]))} on {problem}" for problem, ranking in rankings.items()
        ]
        agents = " and ".join(problems_by_best)
        return f"{start}, {agents} {verb} {listed(figures)}{of_uniform}."
    if len(problems_by_best) == 1:
        problems = f"all {len(rankings)} problems" if len(rankings) > 2 else listed(list(rankings))
        superlative = "least" if verb == "lost" else "most"
        agent = next(iter(problems_by_best))
        return f"{start}, {agent} {verb} {superlative} on {problems}{of_uniform}."
    places = [f"{agent} on {listed(problems)}" for agent, problems in problems_by_best.items()]
    return f"{start}, the best was {listed(places)}{of_uniform}."


def _of_uniform_play(rows: list[Row]) -> str:
    """Which share of the regret of uniform play the rows have, as the end of a sentence."""
    shares = [row.of_uniform.estimate for row in rows if row.of_uniform is not None]
    if not shares:
        return ""
    span = _span(shares, lambda share: in_words(percent(share)))
    return f": {span} of what uniform play loses"


def _not_ranked(comparison: "Comparison") -> str:
    """Agents with failed runs at the guarantee that is shown first."""
    epsilons = {row.epsilon for row in comparison.rows if row.promise == comparison.chosen}
    failures = Counter(
        (failure["agent"], failure["problem"])
        for failure in comparison.failures
        if failure["epsilon"] in epsilons
    )
    if not failures:
        return ""
    clauses = [
        f"{agent} failed in {runs} of {comparison.seeds} runs on {problem}"
        for (agent, problem), runs in failures.items()
    ]
    return f"{listed(clauses)}, and is not ranked there."


def _cost_of_privacy(comparison: "Comparison") -> str:
    """What privacy cost the best learner of each problem."""
    best = [ranking[0] for ranking in _rankings(comparison).values()]
    costs = [row.of_no_privacy for row in best if row.of_no_privacy is not None]
    if not costs:
        return ""
    times = _span([cost.estimate for cost in costs], lambda cost: number(cost, 2))
    if all(_includes_one(cost) for cost in costs):
        return (
            "The cost of privacy is not statistically significant "
            f"({times} times the regret without privacy)."
        )
    whom = "it" if len({row.agent for row in best}) == 1 else "the best"
    return f"Privacy cost {whom} {times} times the regret without privacy."


def _includes_one(cost: Interval) -> bool:
    return cost.low is not None and cost.high is not None and cost.low <= 1 <= cost.high


def _without_learners(comparison: "Comparison") -> str:
    """What uniform play loses, where only reference policies were run."""
    users = f"{count(comparison.users)} users"
    losses = []
    for problem in comparison.problems:
        gap = comparison.gap(problem)
        if gap is not None:
            losses.append(f"{number(gap * comparison.users, 4)} on {problem}")
    if not losses:
        return f"No learner took part: reference policies only, for {users}."
    loss = listed(losses)
    return f"No learner took part. Uniform play loses {loss} to optimal play over {users}."


def significance(comparison: "Comparison") -> str:
    """How many of the differences between agents are significant, or could be."""
    pairs = comparison.pairs
    if comparison.seeds == 1:
        return "With one seed nothing can be said about statistical significance."
    if not pairs:
        return ""
    if not any(pair.compared.possible for pair in pairs):
        start = f"With {comparison.seeds} seeds"
        enough = f"{seeds_needed(len(pairs))} seeds could show one"
        if len(pairs) == 1:
            return f"{start} the one difference between agents cannot be significant; {enough}."
        return (
            f"{start} none of {len(pairs)} differences between agents can be significant "
            f"after correction for their number; {enough}."
        )
    significant = sum(pair.compared.significant for pair in pairs)
    verb = "is" if significant in (0, 1) else "are"
    return (
        f"{significant or 'None'} of {len(pairs)} differences between agents {verb} statistically "
        f"significant ({_LEVEL_IN_WORDS}, corrected for {len(pairs)} comparisons)."
    )


def details(comparison: "Comparison", row: Row) -> list[str]:
    """The details on a learner's card."""
    lines = []
    if row.final is not None:
        measure = "Regret" if row.regret is not None else "Average return"
        line = f"{measure} {interval(row.final)}"
        if row.of_uniform is not None:
            line += f", {percent(row.of_uniform.estimate)} of uniform play’s"
        lines.append(line)
    if row.of_no_privacy is not None:
        lines.append(f"{interval(row.of_no_privacy, 2)} times its regret without privacy")
    if row.learned is False:
        significantly = "Not significantly better" if comparison.seeds > 1 else "No better"
        lines.append(f"{significantly} than uniform play")
    if row.stricter:
        lines.append(really(row))
    return lines


def best_details(comparison: "Comparison", problem: str) -> list[str]:
    """The details on a problem's card, below its best learner."""
    best, *others = comparison.ranking(problem, comparison.chosen)
    lines = details(comparison, best)
    if others:
        second = others[0]
        difference = _compare_in_words(comparison, best, second)
        lines.append(f"Next: {second.agent}, {number(_final(second))}; {difference}")
    return lines


def _compare_in_words(comparison: "Comparison", first: Row, second: Row) -> str:
    agents = {first.agent, second.agent}
    for pair in comparison.pairs:
        is_here = (pair.problem, pair.promise) == (first.problem, first.promise)
        if is_here and {pair.compared.first, pair.compared.second} == agents:
            return f"the difference is {verdict(pair)}"
    return "not compared"


def verdict(pair: Pair) -> str:
    p = probability(pair.compared.adjusted)
    if pair.compared.significant:
        return f"significant, p = {p}"
    return f"not significant, p = {p}" if pair.compared.possible else "not tested: too few seeds"


def remarks(comparison: "Comparison") -> list[str]:
    """Remarks that limit how the figures may be read."""
    lines = [_interruption(row) for row in comparison.rows if row.stopped]
    without_noise = [
        row.label
        for row in comparison.rows
        if "noise_std" in row.curves and not row.noisy and not row.reference
    ]
    if without_noise:
        lines.append(
            f"{', '.join(without_noise)}: no noise was added to the statistics from which the "
            "policy was planned, so no noise is shown."
        )
    return lines


def _interruption(row: Row) -> str:
    stops = ", ".join(
        f"seed {run.seed} after {count(run.users)} of {count(run.planned)} users"
        for run in row.stopped
    )
    is_shown = {run.seed for run in row.stopped} & set(row.seeds)
    effect = f"the figures stop at {count(row.users)} users"
    if not is_shown:
        effect = "excluded from all figures"
    return f"{row.label} was interrupted ({stops}): {effect}."


def really(row: Row) -> str:
    """A remark if the noise gives a much smaller epsilon than requested.

    The constants of a paper often do.
    """
    if not row.stricter:
        return ""
    return f"Requested ε = {row.epsilon:.3g}; the noise gives ε = {row.true_epsilon:.3g}"


def interval(figure: Interval, digits: int = 3) -> str:
    between = ends(figure, digits)
    estimate = number(figure.estimate, digits)
    return f"{estimate} ({between})" if between else estimate


def ends(figure: Interval, digits: int = 3) -> str:
    """The ends of an interval; empty if there is none, or none that so many digits show."""
    return _ends_in_words(figure, lambda end: number(end, digits))


def share_ends(figure: Interval) -> str:
    """The same in percent."""
    return _ends_in_words(figure, percent)


def _ends_in_words(figure: Interval, say: Callable[[float], str]) -> str:
    if figure.low is None or figure.high is None:
        return ""
    low = say(figure.low)
    high = say(figure.high)
    return "" if low == high else f"{low} to {high}"


def reached(figure: Reached) -> tuple[str, str]:
    """The median number of users, and its interval or how many seeds are missing."""
    median = _users(figure.median)
    missing = figure.seeds - figure.reached
    if missing:
        return median, f"not reached in {missing} of {figure.seeds}"
    if figure.low is None or figure.high is None:
        return median, ""
    return median, f"{_users(figure.low)} to {_users(figure.high)}"


def grown(row: Row) -> tuple[str, str]:
    """The measured exponent, and the theorem's."""
    growth = row.growth
    if growth is None:
        return "–", ""
    measured = f"{growth.slope:.2f}"
    if growth.error is not None:
        measured += f" ± {growth.error:.2f}"
    if row.theorem is None:
        return measured, ""
    relation = {
        "below": "below",
        "above": "above",
        "compatible": "compatible with",
        "unknown": "bound:",
    }[row.verdict]
    return measured, f"{relation} {row.theorem.exponent:.3g} {row.theorem.locator}"


def _final(row: Row) -> float:
    return math.nan if row.final is None else row.final.estimate


def _users(value: float) -> str:
    return count(value) if value < math.inf else "never"


def _span(values: list[float], say: Callable[[float], str]) -> str:
    low = say(min(values))
    high = say(max(values))
    return low if low == high else f"{low} to {high}"
