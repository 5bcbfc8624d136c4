"""Values of states for an analyst: in words, as a table with intervals, as a figure, and as a page."""

import base64
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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
from confide.report.charts import LIGHT
from confide.report.tables import Cell
from confide.report.words import many

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
_BARS = "#111827"  # error bars
_FEW = 60  # states that have room for a bar each
_TICK = 16  # characters of a label below the figure
_ON_PAGE = 100  # rows of the page's table
# A model is the better estimator where the effective sample is a smaller share of the users than this.
_LEFT = 0.1


class Estimate(Protocol):
    """A `ValueEstimate`, as far as it is shown."""

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
class Shown:
    """An estimate with its explanations. `said`: (heading, text), such as what was clipped and what was charged."""

    estimate: Estimate
    title: str
    level: float = 0.9
    said: tuple[tuple[str, str], ...] = ()
    one: bool = False  # one value of a policy, not one per state
    about: str = "the true value"  # what an interval covers with its probability
    labels: tuple[str, ...] = ()  # of states, if they have any: public ones only
    definition: str = ""  # of a value, in one sentence
    target: str = ""  # the policy that is evaluated, in words, if it is not the logged one
    against: str = ""  # the policy that it is compared with, if it is not the logged one

    def named(self, state: int) -> str:
        return self.labels[state] if state < len(self.labels) else str(state)

    @cached_property
    def interval(self) -> tuple[Array, Array] | None:
        if self.estimate.guarantee.trust is not Trust.NONE and self.estimate.noise_std is None:
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
        whole: npt.NDArray[np.bool_] = (low <= self.estimate.lowest) & (
            high >= self.estimate.highest
        )
        return whole

    @property
    def logged_value(self) -> Value:
        """Of the policy that made the log."""
        return self.estimate.logged_value(self.level)

    @property
    def target_value(self) -> Value:
        """Of the policy that is evaluated, if it is not the logged one."""
        if not self.one:
            return NO_VALUE
        value = float(self.estimate.values[0])
        if self.interval is None or self.whole_range[0]:
            return Value(value)
        low, high = self.interval
        return Value(value, float(low[0]), float(high[0]))

    @property
    def difference(self) -> Value:
        """The value of the target minus that of the policy it is compared with."""
        return self.estimate.difference(self.level) if self.one else NO_VALUE

    @cached_property
    def counts(self) -> Array | None:
        """Noisy visit counts, where they were released."""
        found = self.estimate.released.get("counts")
        return None if self.one or found is None or np.ptp(found) == 0 else found

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """The most visited states first, by the released counts; by number where there are none. States without a value are left out."""
        states = np.arange(len(self.estimate.values))
        order = states if self.counts is None else np.argsort(-self.counts, kind="stable")
        return order[~np.isnan(self.estimate.values[order])]


def words(shown: Shown) -> list[tuple[str, str]]:
    """(heading, text): the guarantee, the intervals or why there are none, further remarks, and assumptions."""
    estimate = shown.estimate
    lines = [
        *headline(shown),
        ("guarantee", privacy_words.consequence(estimate.guarantee)),
        ("intervals", _bars(shown)),
    ]
    policies = estimate.policy_values
    if policies is not None:
        lines += [("users", _left_out(policies)), ("weights", _weights(policies))]
    outside = int(
        ((estimate.values < estimate.lowest) | (estimate.values > estimate.highest)).sum()
    )
    if outside:
        span = f"[{estimate.lowest:g}, {estimate.highest:g}]"
        lines.append(
            (
                "out of range",
                f"{_states(outside, 'value')} outside {span}, the range of returns, because of the noise.",
            )
        )
    assumed = [] if estimate.certificate is None else estimate.certificate.assumptions
    return [*lines, *shown.said, *(("assumed", assumption.text) for assumption in assumed)]


def headline(shown: Shown) -> list[tuple[str, str]]:
    """The values of policies with their intervals, and what a value is."""
    lines = []
    if shown.definition:
        lines.append(("value", f"{shown.definition}."))
    lines.append(("logged policy", _in_words(shown, shown.logged_value)))
    if shown.one:
        other = shown.against or "the logged policy"
        lines += [
            (
                "target policy",
                f"{_in_words(shown, shown.target_value)}: {shown.target or 'as given'}",
            ),
            ("difference", f"{_in_words(shown, shown.difference)}: the target minus {other}"),
        ]
    return lines


def _in_words(shown: Shown, value: Value) -> str:
    if value.value is None:
        return "not estimated by this estimator"
    digits = _digits(shown.estimate)
    if value.low is None or value.high is None:
        return f"{value.value:.{digits}f} (its interval is not estimated)"
    width = value.high - value.low
    if width > 0:
        # Two digits of the width are shown.
        digits = max(digits, 1 - int(np.floor(np.log10(width))))
    text = f"{value.value:.{digits}f}"
    level = f"{100 * shown.level:g} % interval"
    return f"{text} ({level} {value.low:.{digits}f} to {value.high:.{digits}f})"


def _digits(estimate: Estimate) -> int:
    """Decimals, according to the range of values."""
    return max(0, 3 - int(np.floor(np.log10(estimate.highest - estimate.lowest))))


def _bars(shown: Shown) -> str:
    if shown.interval is None:
        if shown.estimate.guarantee.trust is not Trust.NONE and shown.estimate.noise_std is None:
            return "none: the scale of this noise depends on the data, so it is private."
        return "none: the released numbers do not determine the variance of returns."
    source = (
        "sampling error only"
        if shown.estimate.guarantee.trust is Trust.NONE
        else "noise and sampling error"
    )
    said = f"each interval covers {shown.about} with probability {100 * shown.level:g} %, including {source}."
    unknown = int(shown.whole_range.sum())
    if unknown:
        said += f" {_states(unknown, 'interval')} not estimated, because it would be the whole range: {_why_whole(shown.estimate)}."
    return said


def _why_whole(estimate: Estimate) -> str:
    """An infinite sampling variance means that the estimator cannot bound its error; otherwise there are too few data."""
    if np.isinf(estimate.released.get("sampling_variance", 0.0)).any():
        return "with this much noise the matrix could be singular; use fewer features or more users"
    return "there are too few data for this much noise"


def _weights(policies: PolicyValues) -> str:
    """Which weights were above the clip, and how many users with equal weights would tell as much."""
    said = _clip_words(policies)
    left = policies.effective_users(0)
    if left is None:
        return f"{said}."
    counted = min(max(policies.counted, 0.0), policies.users)
    said = f"{said}; the effective sample size is about {left:,.0f} of {counted:,.0f} users"
    if left < _LEFT * counted:
        return f"{said}. Few weights decide here: the model of `confide learn` values every policy from one release, without weights."
    return f"{said}."


def _clip_words(policies: PolicyValues) -> str:
    above, noise = policies.above(0)
    if above <= noise:
        about = "about " if noise else ""
        hidden = f" (the noise of this count has a standard deviation of {noise:,.0f} users)"
        return f"{about}no weight is above the clip{hidden if noise else ''}"
    users = f"{above:,.0f} of {min(max(policies.counted, 0.0), policies.users):,.0f} users"
    said = f"{'about ' if noise else ''}{users} have a weight above the clip"
    if policies.per_decision:
        return said
    mean = policies.ratio(policies.weight(0), 0.0, policies.clip).value
    return f"{said}; the mean clipped weight is {mean:.3g}, where that of unclipped weights is 1"


def _left_out(policies: PolicyValues) -> str:
    """How many users are left out, from a noisy count."""
    noise = policies.counted_noise
    missing = policies.users - policies.counted
    if noise == 0 and missing == 0:
        return f"all {policies.users:,} users count."
    why = "an outcome is missing, or a row makes no sense"
    if missing <= 2 * noise:
        return (
            f"all {policies.users:,} users count, up to the noise of this count, which has a standard deviation of "
            f"{noise:,.0f} users."
        )
    about = "about " if noise else ""
    return (
        f"{about}{missing:,.0f} of {policies.users:,} users are left out because {why}; values are those of the others. "
        "If who is missing depends on the outcome, these values are biased."
    )


def _states(number: int, what: str) -> str:
    return f"1 {what} is" if number == 1 else f"{number:,} {what}s are"


def heads(shown: Shown) -> list[str]:
    """Of the columns that this estimate has."""
    bars = [] if shown.interval is None else ["low", "high"]
    noise = [] if shown.estimate.noise_std is None else ["noise_std"]
    return [
        *([] if shown.one else ["state"]),
        "value",
        *bars,
        *noise,
        *([] if shown.counts is None else ["visits"]),
    ]


def rows(shown: Shown, most: int | None = None) -> list[list[float]]:
    """A row per state in `order`, under `heads` (the state comes first even if there is one value only)."""
    estimate = shown.estimate
    parts = [*(shown.interval or ()), estimate.noise_std, shown.counts]
    columns = [estimate.values, *(part for part in parts if part is not None)]
    return [
        [int(state), *(float(column[state]) for column in columns)] for state in shown.order[:most]
    ]


def cells(shown: Shown, row: Sequence[float]) -> list[str]:
    """A row as text, with digits according to the range of values; low and high are one cell."""
    digits = _digits(shown.estimate)
    state, value, *rest = row
    made = [shown.named(int(state)), f"{value:.{digits}f}"]
    if shown.interval is not None:
        low, high, *rest = rest
        whole = shown.whole_range[int(state)]
        made.append("not estimated" if whole else f"{low:.{digits}f} to {high:.{digits}f}")
    if shown.estimate.noise_std is not None:
        noise, *rest = rest
        made.append(f"{noise:.{digits + 1}f}")
    return [*made[shown.one :], *(f"{visits:,.0f}" for visits in rest)]


def titles(shown: Shown) -> list[str]:
    """The columns of `cells`."""
    names = {
        "low": f"{100 * shown.level:g} % interval",
        "noise_std": "noise std",
        "visits": "visits (noisy)",
    }
    if shown.estimate.guarantee.trust is Trust.NONE:
        names["visits"] = "visits (exact)"
    return [names.get(head, head) for head in heads(shown) if head != "high"]


def _without(ends: Array, whole: npt.NDArray[np.bool_]) -> list[float | None]:
    """Ends of intervals; None where the interval is the whole range."""
    return [None if none else float(end) for end, none in zip(ends, whole, strict=True)]


def record(shown: Shown) -> dict[str, Any]:
    """Everything as JSON."""
    estimate, guarantee = shown.estimate, shown.estimate.guarantee
    low, high = None, None
    if shown.interval is not None:
        low, high = (_without(part, shown.whole_range) for part in shown.interval)
    return {
        "title": shown.title,
        "users": guarantee.users,
        "guarantee": guarantee.to_json(),
        "said": [{"about": name, "text": text} for name, text in words(shown)],
        "definition": shown.definition or None,
        "logged": shown.logged_value.to_json(),
        "target": shown.target_value.to_json(),
        "difference": shown.difference.to_json(),
        "level": shown.level,
        "labels": list(shown.labels) or None,
        "values": [None if np.isnan(value) else value for value in estimate.values.tolist()],
        "low": low,
        "high": high,
        "noise_std": None if estimate.noise_std is None else estimate.noise_std.tolist(),
        "visits": None if shown.counts is None else shown.counts.tolist(),
        "certificate": estimate.certificate.document if estimate.certificate is not None else None,
    }


def plot_values(shown: Shown) -> "Figure":
    """Plot values with their intervals: by state, or sorted by value if there are many states."""
    figure = picture.canvas((7.0, 3.1))
    ax = figure.subplots()
    _draw(ax, shown)
    picture.dress(ax)
    ax.grid(visible=False, axis="x")
    if shown.estimate.guarantee.trust is Trust.NONE:
        ax.set_title(
            "NO PRIVACY: for the data holder only", fontsize=8.5, color="#b3161f", fontweight="bold"
        )
    return figure


def _draw(ax: "Axes", shown: Shown) -> None:
    values = shown.estimate.values
    many = len(values) > _FEW
    order = np.argsort(values, kind="stable") if many else np.arange(len(values))
    place, drawn = np.arange(len(values)), values[order]
    ax.plot(place, drawn, "." if many else "o", color=LIGHT[0], markersize=2.5 if many else 3.5)
    if shown.interval is not None:
        low, high = (part[order] for part in shown.interval)
        if many:
            ax.fill_between(place, low, high, color=LIGHT[0], alpha=0.3, linewidth=0, step="mid")
        else:  # over the dots, and with ends: an interval that is shorter than its dot is seen, too
            ax.vlines(place, low, high, color=_BARS, linewidth=0.9, zorder=4)
            for ends in (low, high):
                ax.plot(place, ends, "_", color=_BARS, markersize=5, markeredgewidth=0.9, zorder=4)
    without = ", no intervals" if shown.interval is None else f", {100 * shown.level:g} % intervals"
    ax.set(
        xlabel="" if shown.one else "states, ordered by value" if many else "state",
        ylabel=f"value{without}",
    )
    if len(values) <= 20:
        ax.set_xticks([] if shown.one else place)
        if shown.labels and not shown.one:
            # no formula
            names = [shown.named(state)[:_TICK].replace("$", r"\$") for state in range(len(values))]
            ax.set_xticklabels(names, rotation=30, ha="right")


def write_values(shown: Shown, folder: str | Path, *, command: str = "") -> Path:
    """The estimate, its certificate, `values.csv`, `figures/values.{svg,png}` and `report.html` into a folder; where the page is."""
    with replace_files(Path(folder), last="estimate.npz") as target:
        shown.estimate.save(target)
        (target / "figures").mkdir()
        with (target / "values.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            labelled = bool(shown.labels) and not shown.one
            writer.writerow([*heads(shown), *["label"][:labelled]])
            for row in sorted(rows(shown)):
                state = int(row[0])
                written = [repr(number) for number in row[1:]]
                if shown.interval is not None and shown.whole_range[state]:
                    written[1:3] = ["", ""]
                writer.writerow([*[state, *written][shown.one :], *[shown.named(state)][:labelled]])
        figure = plot_values(shown)
        for ending in (".svg", ".png"):
            picture.saved(figure, target / "figures" / f"values{ending}")
        page.write(
            _page(shown, (target / "figures" / "values.svg").read_bytes(), command),
            target / "report.html",
        )
    return Path(folder) / "report.html"


def _page(shown: Shown, picture: bytes, command: str) -> str:
    """One HTML file that loads nothing."""
    guarantee, said, certificate = (
        shown.estimate.guarantee,
        words(shown),
        shown.estimate.certificate,
    )
    private, lines = (
        guarantee.trust is not Trust.NONE,
        [_keyed(shown, row) for row in rows(shown, _ON_PAGE)],
    )
    more = len(shown.estimate.values) - len(lines)
    by = "The most visited states first. " if shown.counts is not None else ""
    trust = guarantee.trust
    facts = [
        ("Who is protected", "Each user in the log, with all trajectories that are used."),
        ("Against whom", privacy_words.AGAINST[trust]),
        ("Who must be trusted", privacy_words.TRUSTED[trust]),
        ("What it means", dict(said)["guarantee"]),
    ]
    return page.render(
        "values.html",
        title=shown.title,
        heading="Values",
        headline="",
        cards=[],
        facts=_meta(shown),
        said=[line for line in said if line[0] not in ("guarantee", "assumed")],
        picture=base64.b64encode(picture).decode(),
        described=_described(shown),
        heads=titles(shown),
        lines=lines,
        note=f"{by}{f'{more:,} more are in values.csv.' if more else 'The same numbers are in values.csv.'}",
        private=private,
        promised=dict(said)["guarantee"],
        name=privacy_words.NAMES[trust],
        promise_facts=facts,
        limits=privacy_words.not_protected(trust, returns_shown=False),
        assumed=[text for name, text in said if name == "assumed"],
        guarantee=str(guarantee),
        certificates={}
        if certificate is None
        else {"certificate.json": json.dumps(certificate.document, indent=2)},
        command=command,
    )


def _keyed(shown: Shown, row: Sequence[float]) -> list[Cell]:
    """A row of `cells` that can be sorted: by labels, or by numbers; intervals by their lower ends."""
    keys: list[float | str] = [shown.named(int(row[0])) if shown.labels else row[0], *row[1:]]
    if shown.interval is not None:
        del keys[3]
    return [
        Cell(text, "", key) for text, key in zip(cells(shown, row), keys[shown.one :], strict=True)
    ]


def _described(shown: Shown) -> str:
    bars = (
        "without intervals" if shown.interval is None else f"with {100 * shown.level:g} % intervals"
    )
    what = (
        "The value of a policy" if shown.one else f"Values of {len(shown.estimate.values)} states"
    )
    return f"{what}, {bars}; the numbers are in values.csv."


def _meta(shown: Shown) -> list[str]:
    guarantee = shown.estimate.guarantee
    asked = (
        privacy_words.NO_PRIVACY
        if guarantee.trust is Trust.NONE
        else f"ε = {guarantee.epsilon:.4g}, δ = {privacy_words.format_delta(guarantee.delta)}"
    )
    return [many(len(shown.estimate.values), "value"), many(guarantee.users, "user"), asked]
