"""A comparison in plain words: what is best where, what privacy cost, and what of it is more than luck."""

from collections import Counter
from collections.abc import Callable

from confide.experiments.analysis import Growth, Interval, Reached
from confide.experiments.summary import LEVEL, Pair, Row, seeds_needed
from confide.report.comparison_study import OPEN, Curve, Study, final
from confide.report.promises import count
from confide.report.words import in_words, number, percent

_SURE = f"{100 * LEVEL:g}\u202f%"


def headline(found: Study) -> str:
    """In three sentences, at the promise to look at first."""
    if not found.curves:
        return "Nothing came out: every run failed."
    return " ".join(part for part in (_best_where(found), _unranked(found), _cost_where(found), significance(found)) if part)


def ranking(found: Study, problem: str, promise: str) -> list[tuple[Curve, Interval]]:
    """Learners under one promise, the best first: the least regret, or the largest return where regret is not known.

    Whoever failed with some seeds is left out, if anybody did not: the seeds that are left may be the easy ones."""
    own = [curve for curve in found.on(problem) if not curve.reference and curve.group.promise == promise]
    most = max((len(curve.group.seeds) for curve in own), default=0)
    own = [curve for curve in own if len(curve.group.seeds) == most]
    told = [(curve, figure) for curve in own if (figure := final(curve)) is not None]
    return sorted(told, key=lambda one: one[1].estimate * (1 if found.known(problem) else -1))


def _best_where(found: Study) -> str:
    ranked = {problem: order for problem in found.problems if (order := ranking(found, problem, found.chosen))}
    if not ranked:
        return "No learner took part: reference play only."
    alone = max(len(order) for order in ranked.values()) == 1
    does = ("lost" if alone else "lost least") if found.known(next(iter(ranked))) else ("earned" if alone else "earned most")
    places: dict[str, list[str]] = {}
    for problem, order in ranked.items():
        first = [curve.group.agent for curve, figure in order if figure.estimate == order[0][1].estimate]
        places.setdefault(_listed(first) if len(first) < len(order) or len(order) == 1 else f"{_listed(first)} alike", []).append(
            problem
        )
    start = "Without privacy" if found.chosen == OPEN else f"At {found.chosen}"
    shares = [share.estimate for order in ranked.values() if (share := order[0][0].row.of_uniform) is not None]
    of_uniform = f": {_between(shares, lambda one: in_words(percent(one)))} of what uniform play loses" if shares else ""
    if alone:
        figures = [f"{number(order[0][1].estimate)} on {problem}" for problem, order in ranked.items()]
        return f"{start}, {' and '.join(places)} {does} {_listed(figures)}{of_uniform}."
    if len(places) == 1:
        everywhere = f"all {len(ranked)} problems" if len(ranked) > 2 else _listed(list(ranked))
        return f"{start}, {next(iter(places))} {does} on {everywhere}{of_uniform}."
    said = [f"{agent} on {_listed(there)}" for agent, there in places.items()]
    return f"{start}, the best was {_listed(said)}{of_uniform}."


def _unranked(found: Study) -> str:
    """Who failed at the promise to look at first."""
    failed = Counter((one["agent"], one["problem"]) for one in found.failures if _promise(one["epsilon"]) == found.chosen)
    said = [f"{agent} failed in {runs} of {found.seeds} runs on {problem}" for (agent, problem), runs in failed.items()]
    return f"{_listed(said)}, and is not ranked there." if said else ""


def _promise(epsilon: float | None) -> str:
    return OPEN if epsilon is None else f"ε = {epsilon:g}"


def _cost_where(found: Study) -> str:
    """Of the best learner of each problem."""
    best = [order[0][0].row for problem in found.problems if (order := ranking(found, problem, found.chosen))]
    costs = [row.of_no_privacy for row in best if row.of_no_privacy is not None and row.of_no_privacy.low is not None]
    if not costs:
        return ""
    who = "it" if len({row.group.agent for row in best}) == 1 else "the best"
    if all(cost.low is not None and cost.low <= 1 for cost in costs):
        return f"What privacy cost {who} is within what luck could be."
    return f"Privacy cost {who} {_between([cost.estimate for cost in costs], lambda one: number(one, 2))} times the regret without privacy."


def significance(found: Study) -> str:
    """How many of the differences are more than luck, or could be."""
    pairs = found.pairs
    if found.seeds == 1:
        return "With one seed nothing can be said about luck."
    if not pairs:
        return ""
    if not any(pair.compared.possible for pair in pairs):
        enough = f"{seeds_needed(len(pairs))} seeds could show one"
        if len(pairs) == 1:
            return f"With {found.seeds} seeds the one difference between agents cannot be significant; {enough}."
        what = f"none of {len(pairs)} differences between agents"
        return f"With {found.seeds} seeds {what} can be significant after correction for their number; {enough}."
    shown = sum(pair.compared.significant for pair in pairs)
    corrected = f"significant ({_SURE}, corrected for {len(pairs)} comparisons)"
    many = f"{shown} of {len(pairs)} differences between agents" if shown else f"None of {len(pairs)} differences between agents"
    return f"{many} {'is' if shown in (0, 1) else 'are'} {corrected}."


def details(found: Study, problem: str) -> list[str]:
    """What stands on a problem's card below its best learner."""
    order = ranking(found, problem, found.chosen)
    best, figure = order[0]
    said = [f"{'Regret' if found.known(problem) else 'Average return'} {interval(figure)}"]
    if best.row.of_uniform is not None:
        said[0] += f", {percent(best.row.of_uniform.estimate)} of uniform play"
    costs = [
        f"{interval(cost, 2) if promise == found.chosen else number(cost.estimate, 2)} at {promise}"
        for promise in found.promises
        if (curve := found.find(problem, best.group.agent, promise)) and (cost := curve.row.of_no_privacy)
    ]
    if costs:
        said.append(f"Times its regret without privacy: {', '.join(costs)}")
    if len(order) > 1:
        said.append(
            f"Next: {order[1][0].group.agent}, {number(order[1][1].estimate)}; {_luck(found, problem, best, order[1][0])}"
        )
    return said


def _luck(found: Study, problem: str, first: Curve, second: Curve) -> str:
    names = {first.group.agent, second.group.agent}
    same = (pair for pair in found.pairs if (pair.problem, pair.promise) == (problem, first.group.promise))
    pair = next((pair for pair in same if {pair.compared.first, pair.compared.second} == names), None)
    return "not compared" if pair is None else f"the difference is {verdict(pair)}"


def verdict(pair: Pair) -> str:
    if pair.compared.significant:
        return f"significant, p = {probability(pair.compared.adjusted)}"
    return f"not significant, p = {probability(pair.compared.adjusted)}" if pair.compared.possible else "open: too few seeds"


def interval(figure: Interval, digits: int = 3) -> str:
    between = ends(figure, digits)
    return f"{number(figure.estimate, digits)} ({between})" if between else number(figure.estimate, digits)


def ends(figure: Interval, digits: int = 3) -> str:
    """Of the interval; nothing where there is none, or none that these digits show."""
    if figure.low is None or figure.high is None:
        return ""
    low, high = number(figure.low, digits), number(figure.high, digits)
    return "" if low == high else f"{low} to {high}"


def reached(found: Reached) -> tuple[str, str]:
    """The median, and what else is to be said."""
    missing = found.seeds - found.reached
    median = _users(found.median)
    if missing:
        return median, f"not reached in {missing} of {found.seeds}"
    return median, "" if found.low is None or found.high is None else f"{_users(found.low)} to {_users(found.high)}"


def grown(row: Row) -> tuple[str, str]:
    """The measured exponent, and the theorem's."""
    growth: Growth | None = row.growth
    if growth is None:
        return "–", ""
    measured = f"{growth.slope:.2f}" if growth.error is None else f"{growth.slope:.2f} ± {growth.error:.2f}"
    if row.theorem is None:
        return measured, ""
    against = {"below": "below", "above": "above", "compatible": "compatible with", "unknown": "bound:"}[row.verdict]
    return measured, f"{against} {row.theorem.exponent:.3g} {row.theorem.locator}"


def true_epsilon(row: Row) -> str:
    """In words, where the noise gives much less than was asked for: printed constants do."""
    asked, given = row.group.epsilon, row.group.true_epsilon
    return f"really {given:.2g}" if asked is not None and given is not None and given < 0.95 * asked else ""


def probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def unbroken(text: str) -> str:
    """A promise stays on one line."""
    return text.replace("ε = ", "ε\u00a0=\u00a0")


def _users(value: float) -> str:
    return count(value) if value < float("inf") else "never"


def _between(values: list[float], say: Callable[[float], str]) -> str:
    low, high = say(min(values)), say(max(values))
    return low if low == high else f"{low} to {high}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
