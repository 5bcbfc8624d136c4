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

_LAST = 1e300  # sorts behind every epsilon: no privacy

RESULTS_NOTE = (
    f"Means over seeds, with {100 * LEVEL:g}\u202f% confidence intervals from a studentised bootstrap, for each number separately. "
    "Of uniform: regret over that of uniform play. × non-private: over that of the same agent without privacy, on the same seeds. "
    "% of optimal: where the value of the last policy lies between uniform play (0\u202f%) and optimal play (100\u202f%). Users "
    "to 90\u202f%: the median over seeds of the number of users after which policies stay above 90\u202f% of optimal; a seed that "
    "never reaches it counts as infinite. Growth: the exponent with which regret grew in the number of users, over the last "
    "factor of ten, ± its standard error over seeds, and the exponent of the theorem where the agent’s paper has one. A measured "
    "exponent above that of a theorem does not refute it, and one below does not prove it. Where regret is not known: the last return is "
    "the average return of the last users, and the last policy’s is that of its own users, with a 95\u202f% interval over these users, not "
    "over seeds."
)


def results(comparison: "Comparison") -> ReportTable:
    """A row per row; columns that no row has anything in are left out."""
    lost = Counter((one["problem"], one["agent"], one["epsilon"]) for one in comparison.failures)
    looks, rows = agent_looks(comparison), []
    for row in comparison.rows:
        cells = _cells(row, lost[row.problem, row.agent, row.epsilon])
        promise = "" if row.reference else row.promise.key
        rows.append(
            (cells, (row.anchor, promise, look_of(row, looks), f"{row.label} on {row.problem}"))
        )
    dull = {
        head
        for head in (rows[0][0] if rows else ())
        if all(cells[head].key is None for cells, _ in rows)
    }
    dull |= {"problem"} if len(comparison.problems) == 1 else set()
    dull |= {"users"} if len({row.users for row in comparison.rows}) == 1 else set()
    heads = [head for head in (rows[0][0] if rows else ()) if head not in dull]
    made = [TableRow([cells[head] for head in heads], *facts) for cells, facts in rows]
    return ReportTable("results", heads, made, [row.plain() for row in comparison.rows])


def _cells(row: Row, failed: int) -> dict[str, TableCell]:
    share = row.share
    really = f"true ε {row.true_epsilon:.2g}" if row.stricter else ""
    privacy = (
        TableCell("reference", "", _LAST)
        if row.reference
        else TableCell(str(row.promise), really, _LAST if row.epsilon is None else row.epsilon)
    )
    after = (
        TableCell("–")
        if row.reached is None
        else TableCell(*reached(row.reached), min(row.reached.median, _LAST))
    )
    of_uniform = row.of_uniform
    seconds = sum(row.seconds) / len(row.seconds) if row.seconds else None
    return {
        "agent": TableCell(row.agent, "", row.agent),
        "problem": TableCell(row.problem, "", row.problem),
        "privacy": privacy,
        "seeds": TableCell(
            str(len(row.seeds)), f"{failed} failed" if failed else "", len(row.seeds)
        ),
        "users": TableCell(count(row.users), "", row.users),
        "regret": _figure(row.regret),
        "of uniform": TableCell("–")
        if of_uniform is None
        else TableCell(percent(of_uniform.estimate), "", of_uniform.estimate),
        "× non-private": _figure(row.of_no_privacy, 2, " ×"),
        "% of optimal": TableCell("–")
        if share is None
        else TableCell(percent(share.estimate), share_ends(share), share.estimate),
        "users to 90 %": after,
        "growth": TableCell(*grown(row), None if row.growth is None else row.growth.slope),
        "last return": _figure(row.mean_return),
        "last policy": _of_last_policy(row.last_return),
        "seconds": TableCell("–")
        if seconds is None
        else TableCell(number(seconds, 2), "", seconds),
    }


def pairs(comparison: "Comparison") -> ReportTable:
    rows = [TableRow(_pair_cells(pair)) for pair in comparison.pairs]
    heads = ("agents", "problem", "privacy", "difference", "p", "p after Holm", "result")
    return ReportTable("pairs", heads, rows, [pair.plain() for pair in comparison.pairs])


def _pair_cells(pair: Pair) -> list[TableCell]:
    one = pair.compared
    result = (
        f"{pair.better} is better"
        if pair.better
        else "not significant"
        if one.possible
        else "too few seeds"
    )
    return [
        TableCell(f"{one.first} − {one.second}", "", f"{one.first} {one.second}"),
        TableCell(pair.problem, "", pair.problem),
        TableCell(str(pair.promise), "", str(pair.promise)),
        _figure(one.difference),
        TableCell(probability(one.p), "", one.p),
        TableCell(probability(one.adjusted), "", one.adjusted),
        TableCell(result, "", result),
    ]


def _figure(figure: Interval | None, digits: int = 3, unit: str = "") -> TableCell:
    return (
        TableCell("–")
        if figure is None
        else TableCell(
            number(figure.estimate, digits) + unit, ends(figure, digits), figure.estimate
        )
    )


def _of_last_policy(earned: tuple[float, float, float] | None) -> TableCell:
    return (
        TableCell("–")
        if earned is None
        else TableCell(number(earned[0]), f"{number(earned[1])} to {number(earned[2])}", earned[0])
    )


def facts(row: Row) -> str:
    """The facts about a curve, in one line."""
    seeds = ", ".join(map(str, row.seeds))
    said = [
        f"{count(row.users)} users",
        f"seed {seeds}" if len(row.seeds) == 1 else f"seeds {seeds}",
    ]
    if row.final is not None:
        said.append(
            f"{'regret' if row.regret is not None else 'average return'} {interval(row.final)}"
        )
    if row.growth is not None and row.theorem is not None:
        said.append(f"growth {row.growth.against(row.theorem.exponent)} {row.theorem.locator}")
    return " · ".join(
        [*said, "reference policy, does not learn" if row.reference else str(row.guarantee)]
    )
