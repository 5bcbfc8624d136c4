"""The public pages of a service, as text: functions of manifests and releases alone.

Required for privacy: of the service's own modules this one imports those that see nothing else.
tests/test_architecture.py checks its imports. The rest of this file is a matter of taste.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from confide.privacy.loss import compose, loss_from_json
from confide.report.charts import Axis, Chart, Level, Look, Series
from confide.report.page import look
from confide.report.static import PlacedChart, place_chart
from confide.service.documents import ReleaseRow
from confide.service.web.estimates import Estimates, estimates
from confide.service.web.public_view import PublicView, public_view

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
# A chart is drawn for wide and for narrow screens: width and height, and columns of its legend.
SIZES = {"wide": (920.0, 300.0), "narrow": (340.0, 240.0)}
_COLUMNS = {"wide": 12, "narrow": 5}
_RELEASE_AXIS = Axis("release", log=False)
# The history shows so many releases. The others are at their addresses.
MAX_SHOWN_RELEASES = 100
# Half the width of a two-sided 95 % interval, in standard deviations of a normal distribution.
_HALF_WIDTH_95 = 1.959964
# e^epsilon is shown up to this epsilon. Larger powers are no floating-point numbers.
_MAX_SHOWN_EPSILON = 700


@cache
def environment() -> "Environment":
    """Return the environment of the templates.

    Whatever a template prints is escaped, and a name without a value is an error.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["count"] = "{:,}".format
    templates.filters["short"] = short
    templates.filters["digits"] = digits
    templates.filters["size"] = size
    templates.filters["utc"] = utc
    templates.filters["unbroken"] = unbroken
    templates.globals["static"] = {
        name: f"/static/{name}?v={digest[:12]}" for name, (_, digest) in static_files().items()
    }
    return templates


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the style sheets, the script and the icon, each with its digest.

    The colours and fonts are those of reports.
    """
    files = {path.name: path.read_bytes() for path in sorted((_HERE / "static").iterdir())}
    files["look.css"] = look().encode()
    return {name: (data, hashlib.sha256(data).hexdigest()) for name, data in files.items()}


@cache
def looks() -> str:
    """Return a digest of all that pages are made with. It is part of their tags."""
    templates = [path.read_bytes() for path in sorted((_HERE / "templates").iterdir())]
    files = [data for data, _ in static_files().values()]
    return hashlib.sha256(b"".join([*templates, *files])).hexdigest()[:12]


def render(template: str, **values: Any) -> str:
    """Return a page. `values` are those of the names in the template."""
    return environment().get_template(template).render(**values)


def short(text: str) -> str:
    """Return enough of a digest to tell it from others by eye."""
    return text[:10]


def unbroken(text: str) -> str:
    """Keep numbers of the promise on one line with their names."""

    def without_breaks(match: re.Match[str]) -> str:
        no_break_space = "\u00a0"
        no_break_hyphen = "\u2011"
        number = match[2].replace("-", no_break_hyphen)
        return f"{match[1]}{no_break_space}={no_break_space}{number}"

    return re.sub(r"(epsilon|delta) = ([^\s,)]+)", without_breaks, text)


def digits(value: float) -> str:
    """Return three digits after the point, or two significant ones of what is smaller."""
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def size(value: float) -> str:
    """Return three significant digits, or all of them before the point: no exponent of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def utc(seconds: float) -> str:
    """Return a time in UTC as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True)
class ShownValue:
    """The value of the current policy.

    `sampling` and `privacy` are half-widths of 95 % intervals, and `widths` are those of their two
    bars in per cent. `low` and `high` are the ends of the interval with both. `best` is the value
    of the best policy of the model, and `uniform` that of uniform play.
    """

    value: float
    sampling: float
    privacy: float
    low: float
    high: float
    best: float
    uniform: float
    widths: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the next release waits for. `deadline` is in seconds since 1970."""

    text: str
    deadline: float | None
    done: bool


def public_page(manifest: bytes, releases: Sequence[ReleaseRow]) -> str:
    """Return the page of one run. Release 0 comes first."""
    view = public_view(manifest, releases)
    model = estimates(manifest, releases)
    value = _shown_value(view, model)
    promise = view.manifest["promise"]
    return render(
        "run.html",
        view=view,
        manifest=view.manifest,
        promise=promise,
        all_reports=epsilon_of_all_reports(view.manifest),
        releases=view.releases[:MAX_SHOWN_RELEASES],
        waiting=_waiting(view, model),
        value=value,
        reason=_reason(view, model),
        curve=_value_charts(model, value),
        noise=_noise_charts(view, model),
        ratio=_noise_ratio(view, model),
        factor=math.exp(min(promise["epsilon"], _MAX_SHOWN_EPSILON)),
        generation=view.releases[0].generation,
        tag=page_tag(view.releases[0].digest),
    )


def epsilon_of_all_reports(manifest: dict[str, Any]) -> float:
    """Return the epsilon of all reports that one person may send, at the delta of the promise.

    In the sums of a joint run they are a group. Messages of a device have noise of their own, so
    their losses are composed.
    """
    promise = manifest["promise"]
    reports = manifest["reports_per_person"]
    delta = promise["delta"]
    if reports <= 1:
        return float(promise["epsilon"])
    loss = loss_from_json(promise["loss"])
    if promise["trust"] == "local":
        return compose([loss] * reports, delta=delta).epsilon_at(delta)
    return loss.group(reports).epsilon_at(delta)


def public_index(runs: Sequence[tuple[bytes, ReleaseRow]]) -> str:
    """Return the page of all runs, from the manifest and the newest release of each."""
    views = [public_view(manifest, [newest]) for manifest, newest in runs]
    return render("index.html", views=views, tag=page_tag(*(newest.digest for _, newest in runs)))


def page_tag(*digests: str) -> str:
    """Return the tag of a page that was made from these releases. A release names its manifest."""
    return hashlib.sha256(" ".join([looks(), *digests]).encode()).hexdigest()[:32]


def _waiting(view: PublicView, model: Estimates) -> Waiting:
    batch = view.manifest["batch"]
    next_release = view.releases[0].generation + 1
    if view.waits_for.startswith("nothing"):
        text = "All releases were made. The run takes no more reports."
        return Waiting(text, deadline=None, done=True)
    if batch["rule"] == "deadline":
        deadline = batch["start"] + next_release * batch["every"]
        return Waiting(f"Release {next_release} is made at", deadline, done=False)
    if model.next_batch is None:
        text = f"Release {next_release} is made when its batch is full."
    else:
        text = (
            f"Release {next_release} is made when {model.next_batch:,} more people have reported."
        )
    return Waiting(text, deadline=None, done=False)


def _shown_value(view: PublicView, model: Estimates) -> ShownValue | None:
    """Return nothing before the first users, because the model is the prior then."""
    valued = model.valued
    if valued is None or not view.users:
        return None
    sampling = _HALF_WIDTH_95 * valued.sampling
    privacy = _HALF_WIDTH_95 * valued.privacy
    half_width = math.hypot(sampling, privacy)
    value = valued.values[-1]
    longest = max(sampling, privacy) or 1.0
    return ShownValue(
        value=value,
        sampling=sampling,
        privacy=privacy,
        low=value - half_width,
        high=value + half_width,
        best=valued.best,
        uniform=valued.uniform,
        widths=(100 * sampling / longest, 100 * privacy / longest),
    )


def _reason(view: PublicView, model: Estimates) -> str:
    if model.valued is not None and not view.users:
        return "Nobody's report was released yet. The value is estimated from release 1 on."
    return model.reason


def _value_charts(model: Estimates, value: ShownValue | None) -> dict[str, PlacedChart] | None:
    """Draw the value of what each release served, as the newest release sees it."""
    if model.valued is None or value is None or len(model.generations) < 2:
        return None
    releases = np.array(model.generations, dtype=float)
    newest = releases[-1:]
    middle = np.array([value.value])

    def interval(name: str, half_width: float) -> Series:
        low = middle - half_width
        high = middle + half_width
        return Series(name, Look(0), newest, middle, low, high, points=True)

    series = [
        Series("value", Look(0), releases, np.array(model.valued.values)),
        interval("privacy", (value.high - value.low) / 2),
        interval("sampling", value.sampling),
    ]
    levels = [Level(value.best, name="best"), Level(value.uniform, name="uniform")]
    return _charts(Chart(_RELEASE_AXIS, Axis("value", log=False), series, levels))


def _noise_charts(view: PublicView, model: Estimates) -> dict[str, PlacedChart] | None:
    """Draw noise and signal on one scale of powers of ten, from release 1 on."""
    noise = {
        release.generation: release.noise
        for release in view.releases
        if release.generation and release.noise > 0
    }
    generations = sorted(
        generation
        for generation, signal in model.signals.items()
        if signal > 0 and generation in noise
    )
    if len(generations) < 2:
        return None
    releases = np.array(generations, dtype=float)
    signals = np.array([model.signals[generation] for generation in generations])
    stds = np.array([noise[generation] for generation in generations])
    series = [
        Series("signal", Look(0), releases, signals),
        Series("noise", Look(1), releases, stds),
    ]
    return _charts(Chart(_RELEASE_AXIS, Axis("noise and signal"), series))


def _noise_ratio(view: PublicView, model: Estimates) -> tuple[float, float, float] | None:
    """Return noise, signal, and noise over signal, of the newest release."""
    newest = view.releases[0]
    signal = model.signals.get(newest.generation)
    return None if not signal else (newest.noise, signal, newest.noise / signal)


def _charts(chart: Chart) -> dict[str, PlacedChart]:
    """Draw a chart in all sizes."""
    return {
        name: place_chart(chart, sides, columns=_COLUMNS[name]) for name, sides in SIZES.items()
    }
