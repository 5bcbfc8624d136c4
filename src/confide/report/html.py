"""The report: one HTML file that needs nothing else, not even a network."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from string import Template

from confide.experiments.run import Run
from confide.report.figures import Figure
from confide.report.looks import palette
from confide.report.markup import Markup, escape, join, tag
from confide.report.privacy_panel import certificates, copied, panel
from confide.report.promises import count
from confide.report.sections import plots, result, tables
from confide.report.series import World, worlds
from confide.report.words import number

_HERE = Path(__file__).parent


def write_report(runs: Sequence[Run], path: str | Path, *, title: str = "What privacy cost", command: str = "") -> Path:
    """Write the report of these runs into one self-contained file, and say where it is.

    `command` is what reproduces it; the commands that the runs carry stand in where it is not given. The page may load nothing
    from anywhere and run no script but its own: a content security policy, not care, sees to that.
    """
    found = worlds(runs)
    drawn: dict[str, Figure] = {}
    parts = [_top(title, found)]
    for place, world in enumerate(found):
        frames, figures = plots(world, place)
        drawn |= figures
        parts += [result(world, named=len(found) > 1), frames]
    parts += [panel(found), tables(found), certificates(found), _reproduce(runs, command), _foot(runs)]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    drawings = {key: figure.drawing for key, figure in drawn.items()}
    target.write_text(page(title, join(parts), drawings), encoding="utf-8", newline="\n")
    return target


def page(title: str, body: Markup, data: object, *, more: Sequence[str] = ()) -> str:
    """A whole page around a body. `data` is what its script draws; `more` names style sheets and scripts beside those of every report."""
    from plotly.offline import get_plotlyjs

    own = "\n".join(_read(f"{name}.js") for name in ("report", *more))
    scripts = {"plotly": _script(get_plotlyjs()), "script": _script(own)}
    allowed = " ".join(f"'sha256-{_hash(text)}'" for text in scripts.values())
    return Template(_read("report.html")).substitute(
        title=escape(title),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}",
        css=palette() + "\n".join(_read(f"{name}.css") for name in ("report", *more)),
        body=body,
        data=_data(data),
        **scripts,
    )


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    """A script as the browser will read it, so that its hash is the browser's."""
    clean = text.replace("\r\n", "\n").replace("\r", "\n")
    if "</script" in clean.lower():
        raise ValueError("a script of the report holds </script and would end early")
    return clean


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _data(value: object) -> str:
    """JSON inside a script element: no < survives, so nothing can close it or open a comment."""
    return (
        json.dumps(value, allow_nan=False, separators=(",", ":"))
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )


def _top(title: str, found: list[World]) -> Markup:
    seeds = max(len(series.runs) for world in found for series in world.series)
    facts = [", ".join(world.name for world in found), f"{count(max(world.users for world in found))} users"]
    facts.append(f"{seeds} seeds" if seeds > 1 else "1 seed")
    return tag(
        "header",
        tag("p", tag("b", "confide"), " report", class_="brand"),
        tag("h1", title),
        tag("p", *[tag("span", fact) for fact in facts], class_="meta"),
    )


def _reproduce(runs: Sequence[Run], command: str) -> Markup:
    commands = [command] if command else list(dict.fromkeys(run.command for run in runs if run.command))
    said = (
        copied("command", Markup("\n".join(options(line) for line in commands)), "Copy the command")
        if commands
        else tag("p", "These runs were made from Python; no command was recorded.", class_="note")
    )
    return tag("section", tag("h2", "Do it again"), said, id="reproduce")


def options(command: str) -> Markup:
    """A command whose lines break between options only."""
    return Markup(" ".join(tag("span", part, class_="option") for part in re.split(r" (?=-)", command)))


def _foot(runs: Sequence[Run]) -> Markup:
    versions: dict[str, list[str]] = {}
    for run in runs:
        for name, version in run.versions.items():
            if version not in versions.setdefault(name, []):
                versions[name].append(version)
    said = ", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in versions.items())
    seconds = f"{count(len(runs))} {'runs' if len(runs) > 1 else 'run'} in {number(sum(run.seconds for run in runs), 2)} seconds"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return tag("footer", tag("p", f"Made {made}. {seconds}."), tag("p", f"{said}." if said else ""))
