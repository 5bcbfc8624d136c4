"""The tables of a comparison."""

from collections import Counter
from typing import TYPE_CHECKING

from confide.comparison.intervals import Interval
from confide.comparison.looks import agent_looks, look_of
from confide.comparison.pairs import LEVEL, Pair
from confide.comparison.row import Row
from confide.comparison.words import ends, grown, interval, reached, share_ends
from confide.report.tables import ReportTable, TableCell, TableRow
from confide.report.words import count, number, percent, probability

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison

# No privacy is sorted behind every epsilon, and "never" behind every number of users.
_SORTED_LAST = 1e300
_UNKNOWN = TableCell("–")

RESULTS_NOTE = (
    f"Means over seeds, with {100 * LEVEL:g}\u202f% confidence intervals from a studentised "
    "bootstrap, for each number separately. Of uniform: regret over that of uniform play. "
    "× non-private: over that of the same agent without privacy, on the same seeds. "
    "% of optimal: where the value of the last policy lies between uniform play (0\u202f%) and "
    "optimal play (100\u202f%). Users to 90\u202f%: the median over seeds of the number of users "
    "after which policies stay above 90\u202f% of optimal; a seed that never reaches it counts as "
    "infinite. Growth: the exponent with which regret grew in the number of users, over the last "
    "factor of ten, ± its standard error over seeds. Beside runs with the constants of a paper "
    "stands the exponent of the paper’s theorem. A measured exponent above that of a theorem does "
    "not refute it, and one below does not prove it. Where regret is not known: the last return is "
    "the average return of the last users, and the last policy’s is that of its own users, with a "
    "95\u202f% interval over these users, not over seeds."
)


def results(comparison: "Comparison") -> ReportTable:
    """A table row for each row of the comparison. Columns without any number are left out."""
    failures = Counter(
        (failure["problem"], failure["agent"], failure["epsilon"])
        for failure in comparison.failures
    )
    looks = agent_looks(comparison)
    all_cells = [
        _cells(row, failures[row.problem, row.agent, row.epsilon]) for row in comparison.rows
    ]
    hidden = set()
    if len(comparison.problems) == 1:
        hidden.add("problem")
    if len({row.users for row in comparison.rows}) == 1:
        hidden.add("users")
    heads = [
        head
        for head in (all_cells[0] if all_cells else ())
        if head not in hidden and any(cells[head].key is not None for cells in all_cells)
    ]
    table_rows = [
        TableRow(
            [cells[head] for head in heads],
            row.anchor,
            "" if row.reference else row.promise.key,
            look_of(row, looks),
            f"{row.label} on {row.problem}",
        )
        for row, cells in zip(comparison.rows, all_cells, strict=True)
    ]
    return ReportTable("results", heads, table_rows, [row.plain() for row in comparison.rows])


def _cells(row: Row, failed: int) -> dict[str, TableCell]:
    return {
        "agent": TableCell(row.agent, "", row.agent),
        "problem": TableCell(row.problem, "", row.problem),
        "privacy": _privacy_cell(row),
        "seeds": TableCell(
            str(len(row.seeds)), f"{failed} failed" if failed else "", len(row.seeds)
        ),
        "users": TableCell(count(row.users), "", row.users),
        "regret": _figure(row.regret),
        "of uniform": _share_cell(row.of_uniform),
        "× non-private": _figure(row.of_no_privacy, 2, " ×"),
        "% of optimal": _share_cell(row.share, with_interval=True),
        "users to 90 %": _reached_cell(row),
        "growth": TableCell(*grown(row), None if row.growth is None else row.growth.slope),
        "last return": _figure(row.mean_return),
        "last policy": _last_policy_cell(row.last_return),
        "seconds": _seconds_cell(row),
    }


def _privacy_cell(row: Row) -> TableCell:
    if row.reference:
        return TableCell("reference", "", _SORTED_LAST)
    true_epsilon = f"true ε {row.true_epsilon:.2g}" if row.stricter else ""
    key = _SORTED_LAST if row.epsilon is None else row.epsilon
    return TableCell(str(row.promise), true_epsilon, key)


def _share_cell(share: Interval | None, *, with_interval: bool = False) -> TableCell:
    if share is None:
        return _UNKNOWN
    small = share_ends(share) if with_interval else ""
    return TableCell(percent(share.estimate), small, share.estimate)


def _reached_cell(row: Row) -> TableCell:
    if row.reached is None:
        return _UNKNOWN
    return TableCell(*reached(row.reached), min(row.reached.median, _SORTED_LAST))


def _seconds_cell(row: Row) -> TableCell:
    if not row.seconds:
        return _UNKNOWN
    mean = sum(row.seconds) / len(row.seconds)
    return TableCell(number(mean, 2), "", mean)


def pairs(comparison: "Comparison") -> ReportTable:
    rows = [TableRow(_pair_cells(pair)) for pair in comparison.pairs]
    heads = ("agents", "problem", "privacy", "difference", "p", "p after Holm", "result")
    return ReportTable("pairs", heads, rows, [pair.plain() for pair in comparison.pairs])


def _pair_cells(pair: Pair) -> list[TableCell]:
    test = pair.compared
    if pair.better:
        result = f"{pair.better} is better"
    else:
        result = "not significant" if test.possible else "too few seeds"
    return [
        TableCell(f"{test.first} − {test.second}", "", f"{test.first} {test.second}"),
        TableCell(pair.problem, "", pair.problem),
        TableCell(str(pair.promise), "", str(pair.promise)),
        _figure(test.difference),
        TableCell(probability(test.p), "", test.p),
        TableCell(probability(test.adjusted), "", test.adjusted),
        TableCell(result, "", result),
    ]


def _figure(figure: Interval | None, digits: int = 3, unit: str = "") -> TableCell:
    if figure is None:
        return _UNKNOWN
    text = number(figure.estimate, digits) + unit
    return TableCell(text, ends(figure, digits), figure.estimate)


def _last_policy_cell(last_return: tuple[float, float, float] | None) -> TableCell:
    if last_return is None:
        return _UNKNOWN
    mean, low, high = last_return
    return TableCell(number(mean), f"{number(low)} to {number(high)}", mean)


def facts(row: Row) -> str:
    """The facts about a curve, in one line."""
    seeds = ", ".join(map(str, row.seeds))
    facts_so_far = [
        f"{count(row.users)} users",
        f"seed {seeds}" if len(row.seeds) == 1 else f"seeds {seeds}",
    ]
    if row.final is not None:
        measure = "regret" if row.regret is not None else "average return"
        facts_so_far.append(f"{measure} {interval(row.final)}")
    if row.growth is not None and row.theorem is not None:
        verdict = row.growth.against(row.theorem.exponent)
        facts_so_far.append(f"growth {verdict} {row.theorem.locator}")
    guarantee = "reference policy, does not learn" if row.reference else str(row.guarantee)
    return " · ".join([*facts_so_far, guarantee])
