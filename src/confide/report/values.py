"""Values of states for an analyst: in words, as a table with intervals, as a figure, and as a page.

Nothing here is private on its own: a report shows an estimate, and its guarantee is the estimate's.
The fields of `record` are those of `confide evaluate --json`, and the columns of `heads` are those
of `values.csv`, so their names stay. All other texts may be changed freely.
"""

import base64
import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide._durable import replace_files
from confide.errors import InvalidParameter
from confide.evaluation.policy_values import PolicyValues
from confide.privacy import words as privacy_words
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust
from confide.release.value import NO_VALUE, Value
from confide.report import page, picture
from confide.report.privacy_facts import privacy_card, privacy_facts, short_guarantee
from confide.report.tables import TableCell
from confide.report.value_figure import plot_values
from confide.report.words import many

Array = npt.NDArray[np.float64]

# The numbers below are matters of taste.
# The table of a page has at most so many rows.
_ROWS_ON_PAGE = 100
# A model is recommended where the effective sample is a smaller share of the users than this.
_SMALL_SAMPLE_SHARE = 0.1


class ShownEstimate(Protocol):
    """A `ValueEstimate`, as far as a report shows it."""

    @property
    def values(self) -> Array: ...
    @property
    def noise_std(self) -> Array | None: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def certificate(self) -> Certificate | None: ...
    @property
    def lowest(self) -> float: ...
    @property
    def highest(self) -> float: ...
    @property
    def released(self) -> Mapping[str, Array]: ...
    @property
    def policy_values(self) -> PolicyValues | None: ...
    def interval(self, level: float = 0.9) -> tuple[Array, Array]: ...
    def logged_value(self, level: float = 0.9) -> Value: ...
    def difference(self, level: float = 0.9) -> Value: ...
    def save(self, folder: str | Path) -> None: ...


@dataclass(frozen=True)
class ValueReport:
    """An estimate with its explanations."""

    estimate: ShownEstimate
    title: str
    level: float = 0.9
    # (heading, text), such as what was clipped and what was charged.
    remarks: tuple[tuple[str, str], ...] = ()
    # Whether there is one value of a policy, and not one value per state.
    is_policy: bool = False
    # What an interval covers with its probability.
    about: str = "the true value"
    # Public labels of the states, if there are any.
    labels: tuple[str, ...] = ()
    # What a value is, in one sentence.
    definition: str = ""
    # The policy that is evaluated, in words, if it is not the logged one.
    target: str = ""
    # The policy that it is compared with, in words, if that is not the logged one.
    against: str = ""

    @property
    def private(self) -> bool:
        return self.estimate.guarantee.trust is not Trust.NONE

    def name_of(self, state: int) -> str:
        return self.labels[state] if state < len(self.labels) else str(state)

    @cached_property
    def interval(self) -> tuple[Array, Array] | None:
        """The ends of the intervals [s], or None where the released numbers determine none."""
        if self.private and self.estimate.noise_std is None:
            return None
        try:
            return self.estimate.interval(self.level)
        except InvalidParameter:
            if not 0 < self.level < 1:
                raise
            return None

    @cached_property
    def whole_range(self) -> npt.NDArray[np.bool_]:
        """Which intervals are the whole range [s], so that they say nothing."""
        if self.interval is None:
            return np.zeros(len(self.estimate.values), np.bool_)
        low, high = self.interval
        reaches_lowest = low <= self.estimate.lowest
        reaches_highest = high >= self.estimate.highest
        whole: npt.NDArray[np.bool_] = reaches_lowest & reaches_highest
        return whole

    @property
    def logged_value(self) -> Value:
        """The value of the policy that made the log."""
        return self.estimate.logged_value(self.level)

    @property
    def target_value(self) -> Value:
        """The value of the policy that is evaluated, if it is not the logged one."""
        if not self.is_policy:
            return NO_VALUE
        value = float(self.estimate.values[0])
        if self.interval is None or self.whole_range[0]:
            return Value(value)
        low, high = self.interval
        return Value(value, float(low[0]), float(high[0]))

    @property
    def difference(self) -> Value:
        """The value of the target minus that of the policy it is compared with."""
        return self.estimate.difference(self.level) if self.is_policy else NO_VALUE

    @cached_property
    def counts(self) -> Array | None:
        """Noisy visit counts [s], where they were released."""
        counts = self.estimate.released.get("counts")
        if self.is_policy or counts is None or np.ptp(counts) == 0:
            return None
        return counts

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The states of the table: the most visited ones first, by the released counts.

        Without counts they are in the order of their numbers. States without a value are left out.
        """
        states = np.arange(len(self.estimate.values))
        order = states if self.counts is None else np.argsort(-self.counts, kind="stable")
        return order[~np.isnan(self.estimate.values[order])]


def words(report: ValueReport) -> list[tuple[str, str]]:
    """(heading, text): values, guarantee, intervals or why there are none, remarks, assumptions."""
    estimate = report.estimate
    lines = [
        *_value_lines(report),
        ("guarantee", privacy_words.consequence(estimate.guarantee)),
        ("intervals", _explain_intervals(report)),
    ]
    policies = estimate.policy_values
    if policies is not None:
        lines += [("users", _explain_users(policies)), ("weights", _explain_weights(policies))]
    below = estimate.values < estimate.lowest
    above = estimate.values > estimate.highest
    outside = int((below | above).sum())
    if outside:
        text = (
            f"{_count(outside, 'value')} outside [{estimate.lowest:g}, {estimate.highest:g}], "
            "the range of returns, because of the noise."
        )
        lines.append(("out of range", text))
    assumptions = [] if estimate.certificate is None else estimate.certificate.assumptions
    return [*lines, *report.remarks, *(("assumed", each.text) for each in assumptions)]


def _value_lines(report: ValueReport) -> list[tuple[str, str]]:
    """The values of policies with their intervals, and what a value is."""
    lines = []
    if report.definition:
        lines.append(("value", f"{report.definition}."))
    lines.append(("logged policy", _describe_value(report, report.logged_value)))
    if report.is_policy:
        target = _describe_value(report, report.target_value)
        difference = _describe_value(report, report.difference)
        lines.append(("target policy", f"{target}: {report.target or 'as given'}"))
        lines.append(("difference", f"{difference}: the target minus {_other_policy(report)}"))
    return lines


def _other_policy(report: ValueReport) -> str:
    return report.against or "the logged policy"


def headline(report: ValueReport) -> str:
    """The main result in one sentence."""
    users = f"From {report.estimate.guarantee.users:,} users"
    if report.is_policy:
        target = _describe_value(report, report.target_value)
        sentence = f"{users}: the target policy is worth {target}"
        if report.difference.value is None:
            return f"{sentence}."
        difference = _describe_value(report, report.difference)
        return f"{sentence}. The difference to {_other_policy(report)} is {difference}."
    if report.logged_value.value is not None:
        logged = _describe_value(report, report.logged_value)
        return f"{users}: the logged policy is worth {logged}."
    values = report.estimate.values[report.order]
    if not len(values):
        return f"{users}: no state has a value."
    digits = _decimals(report.estimate)
    span = f"{values.min():.{digits}f} to {values.max():.{digits}f}"
    return f"{users}: the values of {len(values):,} states range from {span}."


def cards(report: ValueReport) -> list[tuple[str, str, str]]:
    """(heading, large, text): the values of policies, and what is revealed of one user."""
    named_values = []
    if report.is_policy:
        named_values.append(("Target policy", report.target_value, report.target or "as given"))
    named_values.append(("Logged policy", report.logged_value, "the policy that made the log"))
    if report.is_policy:
        about = f"the target minus {_other_policy(report)}"
        named_values.append(("Difference", report.difference, about))
    digits = _decimals(report.estimate)
    value_cards = []
    for heading, value, about in named_values:
        if value.value is not None:
            text = f"{_capitalize(about)}: {_describe_value(report, value)}."
            value_cards.append((heading, f"{value.value:.{digits}f}", text))
    return value_cards + privacy_card(report.estimate.guarantee)


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _describe_value(report: ValueReport, value: Value) -> str:
    if value.value is None:
        return "not estimated by this estimator"
    decimals = _decimals(report.estimate)
    if value.low is None or value.high is None:
        return f"{value.value:.{decimals}f} (its interval is not estimated)"
    width = value.high - value.low
    if width > 0:
        # Two digits of the width are shown.
        decimals = max(decimals, 1 - math.floor(math.log10(width)))
    level = f"{100 * report.level:g} % interval"
    interval = f"{value.low:.{decimals}f} to {value.high:.{decimals}f}"
    return f"{value.value:.{decimals}f} ({level} {interval})"


def _decimals(estimate: ShownEstimate) -> int:
    """How many decimals are shown, which depends on the range of values."""
    return max(0, 3 - math.floor(math.log10(estimate.highest - estimate.lowest)))


def _explain_intervals(report: ValueReport) -> str:
    if report.interval is None:
        if report.private and report.estimate.noise_std is None:
            return "none: the scale of this noise depends on the data, so it is private."
        return "none: the released numbers do not determine the variance of returns."
    errors = "noise and sampling error" if report.private else "sampling error only"
    text = (
        f"each interval covers {report.about} with probability {100 * report.level:g} %, "
        f"including {errors}."
    )
    unknown = int(report.whole_range.sum())
    if unknown == 0:
        return text
    return (
        f"{text} {_count(unknown, 'interval')} not estimated, "
        f"because it would be the whole range: {_explain_whole_range(report.estimate)}."
    )


def _explain_whole_range(estimate: ShownEstimate) -> str:
    # An estimator that cannot bound its error releases an infinite sampling variance.
    if np.isinf(estimate.released.get("sampling_variance", 0.0)).any():
        return "with this much noise the matrix could be singular; use fewer features or more users"
    return "there are too few data for this much noise"


def _explain_weights(policies: PolicyValues) -> str:
    """Which weights were clipped, and how many users with equal weights would say as much."""
    clipped = _explain_clip(policies)
    effective_users = policies.effective_users(0)
    if effective_users is None:
        return f"{clipped}."
    users = _users_that_count(policies)
    text = (
        f"{clipped}; the effective sample size is about "
        f"{effective_users:,.0f} of {users:,.0f} users"
    )
    if effective_users < _SMALL_SAMPLE_SHARE * users:
        return (
            f"{text}. Few weights decide here: the model of `confide learn` values every policy "
            "from one release, without weights."
        )
    return f"{text}."


def _users_that_count(policies: PolicyValues) -> float:
    """A noisy count, brought into its range."""
    return min(max(policies.counted, 0.0), policies.users)


def _explain_clip(policies: PolicyValues) -> str:
    above, noise_std = policies.above(0)
    about = "about " if noise_std else ""
    if above <= noise_std:
        text = f"{about}no weight is above the clip"
        if not noise_std:
            return text
        spread = f"the noise of this count has a standard deviation of {noise_std:,.0f} users"
        return f"{text} ({spread})"
    users = f"{above:,.0f} of {_users_that_count(policies):,.0f} users"
    text = f"{about}{users} have a weight above the clip"
    if policies.per_decision:
        return text
    mean_weight = policies.ratio(policies.weight(0), 0.0, policies.clip).value
    return (
        f"{text}; the mean clipped weight is {mean_weight:.3g}, "
        "where that of unclipped weights is 1"
    )


def _explain_users(policies: PolicyValues) -> str:
    """How many users are left out, from a noisy count."""
    noise_std = policies.counted_noise
    missing = policies.users - policies.counted
    if noise_std == 0 and missing == 0:
        return f"all {policies.users:,} users count."
    if missing <= 2 * noise_std:
        return (
            f"all {policies.users:,} users count, up to the noise of this count, "
            f"which has a standard deviation of {noise_std:,.0f} users."
        )
    about = "about " if noise_std else ""
    return (
        f"{about}{missing:,.0f} of {policies.users:,} users are left out because an outcome is "
        "missing, or a row makes no sense; values are those of the others. "
        "If who is missing depends on the outcome, these values are biased."
    )


def _count(number: int, what: str) -> str:
    return f"1 {what} is" if number == 1 else f"{number:,} {what}s are"


def heads(report: ValueReport) -> list[str]:
    """The columns of `values.csv` that this estimate has."""
    columns = [] if report.is_policy else ["state"]
    columns.append("value")
    if report.interval is not None:
        columns += ["low", "high"]
    if report.estimate.noise_std is not None:
        columns.append("noise_std")
    if report.counts is not None:
        columns.append("visits")
    return columns


def rows(report: ValueReport, most: int | None = None) -> list[list[float]]:
    """A row per state in `order`, under `heads`.

    The state comes first even if there is one value only.
    """
    estimate = report.estimate
    optional = [*(report.interval or ()), estimate.noise_std, report.counts]
    columns = [estimate.values, *(column for column in optional if column is not None)]
    return [
        [int(state), *(float(column[state]) for column in columns)] for state in report.order[:most]
    ]


def cells(report: ValueReport, row: Sequence[float]) -> list[str]:
    """A row as text, with digits according to the range of values; low and high are one cell."""
    digits = _decimals(report.estimate)
    state, value, *rest = row
    texts = [report.name_of(int(state)), f"{value:.{digits}f}"]
    if report.interval is not None:
        low, high, *rest = rest
        interval = f"{low:.{digits}f} to {high:.{digits}f}"
        texts.append("not estimated" if report.whole_range[int(state)] else interval)
    if report.estimate.noise_std is not None:
        noise_std, *rest = rest
        texts.append(f"{noise_std:.{digits + 1}f}")
    texts += [f"{visits:,.0f}" for visits in rest]
    return texts[1:] if report.is_policy else texts


def titles(report: ValueReport) -> list[str]:
    """The columns of `cells`."""
    names = {
        "low": f"{100 * report.level:g} % interval",
        "noise_std": "noise std",
        "visits": "visits (noisy)" if report.private else "visits (exact)",
    }
    return [names.get(head, head) for head in heads(report) if head != "high"]


def record(report: ValueReport) -> dict[str, Any]:
    """Everything as JSON. The fields are part of the interface."""
    estimate = report.estimate
    guarantee = estimate.guarantee
    low = high = None
    if report.interval is not None:
        low, high = (_known_ends(ends, report.whole_range) for ends in report.interval)
    return {
        "title": report.title,
        "users": guarantee.users,
        "guarantee": guarantee.to_json(),
        "said": [{"about": heading, "text": text} for heading, text in words(report)],
        "definition": report.definition or None,
        "logged": report.logged_value.to_json(),
        "target": report.target_value.to_json(),
        "difference": report.difference.to_json(),
        "level": report.level,
        "labels": list(report.labels) or None,
        "values": [None if np.isnan(value) else value for value in estimate.values.tolist()],
        "low": low,
        "high": high,
        "noise_std": None if estimate.noise_std is None else estimate.noise_std.tolist(),
        "visits": None if report.counts is None else report.counts.tolist(),
        "certificate": None if estimate.certificate is None else estimate.certificate.document,
    }


def _known_ends(ends: Array, whole_range: npt.NDArray[np.bool_]) -> list[float | None]:
    """Ends of intervals; None where the interval is the whole range."""
    return [None if whole else float(end) for end, whole in zip(ends, whole_range, strict=True)]


def write_values(report: ValueReport, folder: str | Path, *, command: str = "") -> Path:
    """Write a report into a folder, and return the path of its page.

    The folder gets the estimate, its certificate, `values.csv`, `figures/values.{svg,png}` and
    `report.html`.
    """
    with replace_files(Path(folder), last="estimate.npz") as target:
        report.estimate.save(target)
        _write_csv(report, target / "values.csv")
        (target / "figures").mkdir()
        figure = plot_values(report)
        for ending in (".svg", ".png"):
            picture.save(figure, target / "figures" / f"values{ending}")
        svg = (target / "figures" / "values.svg").read_bytes()
        page.write(_page(report, svg, command), target / "report.html")
    return Path(folder) / "report.html"


def _write_csv(report: ValueReport, path: Path) -> None:
    has_labels = bool(report.labels) and not report.is_policy
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*heads(report), "label"] if has_labels else heads(report))
        for row in sorted(rows(report)):
            state = int(row[0])
            texts = [repr(number) for number in row[1:]]
            if report.interval is not None and report.whole_range[state]:
                texts[1:3] = ["", ""]
            if not report.is_policy:
                texts.insert(0, str(state))
            if has_labels:
                texts.append(report.name_of(state))
            writer.writerow(texts)


def _page(report: ValueReport, svg: bytes, command: str) -> str:
    """One HTML file that loads nothing."""
    lines = words(report)
    guarantee = report.estimate.guarantee
    certificate = report.estimate.certificate
    certificates = {}
    if certificate is not None:
        certificates["certificate.json"] = json.dumps(certificate.document, indent=2)
    consequence = dict(lines)["guarantee"]
    return page.render(
        "values.html",
        title=report.title,
        heading="Values",
        headline=headline(report),
        cards=cards(report),
        facts=[
            many(len(report.estimate.values), "value"),
            many(guarantee.users, "user"),
            short_guarantee(guarantee),
        ],
        said=[line for line in lines if line[0] not in ("guarantee", "assumed")],
        said_title="What the numbers mean",
        picture=base64.b64encode(svg).decode(),
        described=_describe_picture(report),
        heads=titles(report),
        lines=[_table_cells(report, row) for row in rows(report, _ROWS_ON_PAGE)],
        note=_note(report),
        private=report.private,
        promised=consequence,
        name=privacy_words.NAMES[guarantee.trust],
        promise_facts=privacy_facts(guarantee, consequence),
        limits=privacy_words.not_protected(guarantee.trust, returns_shown=False),
        assumed=[text for heading, text in lines if heading == "assumed"],
        guarantee=str(guarantee),
        certificates=certificates,
        command=command,
    )


def _table_cells(report: ValueReport, row: Sequence[float]) -> list[TableCell]:
    """A row of `cells` that can be sorted by labels or numbers; intervals by their lower ends."""
    keys: list[float | str] = [report.name_of(int(row[0])) if report.labels else row[0], *row[1:]]
    if report.interval is not None:
        del keys[3]
    if report.is_policy:
        del keys[0]
    return [TableCell(text, "", key) for text, key in zip(cells(report, row), keys, strict=True)]


def _note(report: ValueReport) -> str:
    order = "The most visited states first. " if report.counts is not None else ""
    more = len(report.estimate.values) - min(len(report.order), _ROWS_ON_PAGE)
    if more:
        return f"{order}{more:,} more are in values.csv."
    return f"{order}The same numbers are in values.csv."


def _describe_picture(report: ValueReport) -> str:
    what = f"Values of {len(report.estimate.values)} states"
    if report.is_policy:
        what = "The value of a policy"
    intervals = "without intervals"
    if report.interval is not None:
        intervals = f"with {100 * report.level:g} % intervals"
    return f"{what}, {intervals}; the numbers are in values.csv."
