"""The public pages of a service, as text: functions of manifests and releases alone.

Of the service's own modules this one imports those that see nothing else; tests/test_architecture.py holds it to that.
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
from confide.report.static import PlacedChart, placed
from confide.service.documents import ReleaseRow
from confide.service.web.estimates import Estimates, estimates
from confide.service.web.public_view import PublicView, public_view

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
SIZES = {"wide": (920.0, 300.0), "narrow": (340.0, 240.0)}
_RELEASES = Axis("release", log=False)
SHOWN = 100  # releases in the history; the others are at their addresses
_TWO_SIDED = 1.959964  # of a normal distribution, 95 %


@cache
def environment() -> "Environment":
    """Whatever a template prints is escaped; a name that a template does not know is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name, shown in (
        ("count", "{:,}".format),
        ("short", short),
        ("digits", digits),
        ("size", size),
        ("utc", utc),
        ("unbroken", unbroken),
    ):
        made.filters[name] = shown
    made.globals |= {
        "static": {
            name: f"/static/{name}?v={digest[:12]}" for name, (_, digest) in static_files().items()
        }
    }
    return made


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """The style sheet, the script and the icon, each with its digest."""
    found = {path.name: path.read_bytes() for path in sorted((_HERE / "static").iterdir())}
    return {name: (data, hashlib.sha256(data).hexdigest()) for name, data in found.items()}


@cache
def looks() -> str:
    """A digest of all that pages are made with: part of their tags."""
    parts = [path.read_bytes() for path in sorted((_HERE / "templates").iterdir())]
    return hashlib.sha256(
        b"".join([*parts, *(data for data, _ in static_files().values())])
    ).hexdigest()[:12]


def render(template: str, **shown: Any) -> str:
    return environment().get_template(template).render(**shown)


def short(text: str) -> str:
    """Of a digest: enough to tell it from others by eye."""
    return text[:10]


def unbroken(text: str) -> str:
    """Numbers of the promise stay on one line, with their names."""
    return re.sub(
        r"(epsilon|delta) = ([^\s,)]+)",
        lambda found: f"{found[1]}\u00a0=\u00a0{found[2].replace('-', chr(0x2011))}",
        text,
    )


def digits(value: float) -> str:
    """Three digits after the point, or three significant ones of what is smaller."""
    return f"{value:.3f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def size(value: float) -> str:
    """Three significant digits, or all of them before the point: no exponent of ten."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True)
class ShownValue:
    """The value of the current policy, with half-widths of 95 % intervals."""

    value: float
    sampling: float
    privacy: float
    low: float
    high: float
    best: float
    uniform: float
    widths: tuple[float, float]  # of the two bars, in per cent


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the next release waits for."""

    text: str
    deadline: float | None  # in seconds since 1970
    done: bool


def public_page(manifest: bytes, releases: Sequence[ReleaseRow]) -> str:
    """The page of one run. Release 0 comes first."""
    view, found = public_view(manifest, releases), estimates(manifest, releases)
    value = _shown_value(view, found)
    return render(
        "run.html",
        view=view,
        told=view.manifest,
        promise=view.manifest["promise"],
        all_reports=all_reports(view.manifest),
        releases=view.releases[:SHOWN],
        waiting=_waiting(view, found),
        value=value,
        reason=_reason(view, found),
        curve=_curve(found, value),
        noise=_noise(view, found),
        ratio=_ratio(view, found),
        factor=math.exp(min(view.manifest["promise"]["epsilon"], 700)),
        generation=view.releases[0].generation,
        tag=page_tag(view.releases[0].digest),
    )


def all_reports(manifest: dict[str, Any]) -> float:
    """The epsilon of all reports that one person may send, at the delta of the promise. In the sums of a joint
    run they are a group; messages of a device have noise of their own."""
    promise, times = manifest["promise"], manifest["reports_per_person"]
    loss, delta = loss_from_json(promise["loss"]), promise["delta"]
    together = (
        compose([loss] * times, delta=delta) if promise["trust"] == "local" else loss.group(times)
    )
    return together.epsilon_at(delta) if times > 1 else promise["epsilon"]


def public_index(runs: Sequence[tuple[bytes, ReleaseRow]]) -> str:
    """The page of all runs, from the manifest and the newest release of each."""
    views = [public_view(manifest, [newest]) for manifest, newest in runs]
    return render("index.html", views=views, tag=page_tag(*(newest.digest for _, newest in runs)))


def page_tag(*digests: str) -> str:
    """Of a page that was made from these releases. A release names its manifest."""
    return hashlib.sha256(" ".join([looks(), *digests]).encode()).hexdigest()[:32]


def _waiting(view: PublicView, found: Estimates) -> Waiting:
    batch, generation = view.manifest["batch"], view.releases[0].generation
    if view.waits_for.startswith("nothing"):
        return Waiting("All releases were made. The run takes no more reports.", None, True)
    if batch["rule"] == "deadline":
        return Waiting(
            f"Release {generation + 1} is made at",
            batch["start"] + (generation + 1) * batch["every"],
            False,
        )
    if found.next_batch is None:
        return Waiting(f"Release {generation + 1} is made when its batch is full.", None, False)
    return Waiting(
        f"Release {generation + 1} is made when {found.next_batch:,} more people have reported.",
        None,
        False,
    )


def _shown_value(view: PublicView, found: Estimates) -> ShownValue | None:
    """Nothing before the first users: the model is the prior then."""
    made = found.valued
    if made is None or not view.users:
        return None
    sampling, privacy = _TWO_SIDED * made.sampling, _TWO_SIDED * made.privacy
    half, value = math.hypot(sampling, privacy), made.values[-1]
    longest = max(sampling, privacy) or 1.0
    widths = (100 * sampling / longest, 100 * privacy / longest)
    return ShownValue(
        value, sampling, privacy, value - half, value + half, made.best, made.uniform, widths
    )


def _reason(view: PublicView, found: Estimates) -> str:
    if found.valued is not None and not view.users:
        return "Nobody's report was released yet. The value is estimated from release 1 on."
    return found.reason


def _curve(found: Estimates, value: ShownValue | None) -> dict[str, PlacedChart] | None:
    """The value of what each release served, as the newest release sees it."""
    if found.valued is None or value is None or len(found.generations) < 2:
        return None
    releases = np.array(found.generations, dtype=float)
    newest = releases[-1:]

    def interval(name: str, half: float) -> Series:
        middle = np.array([value.value])
        return Series(name, Look(0), newest, middle, middle - half, middle + half, points=True)

    half = (value.high - value.low) / 2
    series = [
        Series("value", Look(0), releases, np.array(found.valued.values)),
        interval("privacy", half),
        interval("sampling", value.sampling),
    ]
    levels = [Level(value.best, name="best"), Level(value.uniform, name="uniform")]
    return _sized(Chart(_RELEASES, Axis("value", log=False), series, levels))


def _noise(view: PublicView, found: Estimates) -> dict[str, PlacedChart] | None:
    """Both on one scale of powers of ten, from release 1 on."""
    stds = {
        each.generation: each.noise for each in view.releases if each.generation and each.noise > 0
    }
    both = sorted(
        number for number, signal in found.signals.items() if signal > 0 and number in stds
    )
    if len(both) < 2:
        return None
    releases = np.array(both, dtype=float)
    series = [
        Series("signal", Look(0), releases, np.array([found.signals[number] for number in both])),
        Series("noise", Look(1), releases, np.array([stds[number] for number in both])),
    ]
    return _sized(Chart(_RELEASES, Axis("noise and signal"), series))


def _ratio(view: PublicView, found: Estimates) -> tuple[float, float, float] | None:
    """Noise, signal and the first over the second, of the newest release."""
    newest = view.releases[0]
    signal = found.signals.get(newest.generation)
    return None if not signal else (newest.noise, signal, newest.noise / signal)


def _sized(chart: Chart) -> dict[str, PlacedChart]:
    return {
        name: placed(chart, size, columns=12 if name == "wide" else 5)
        for name, size in SIZES.items()
    }
