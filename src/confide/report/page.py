"""Pages: Jinja2 templates, one style sheet, and a content security policy that allows the page's own scripts and nothing else."""

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide import arguments
from confide._durable import make_folder, replace
from confide._extras import need
from confide.report.drawing import palette

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
_SHAPES = (  # of the markers of drawing.MARKERS
    "M14 2a4 4 0 1 0 .01 0z",
    "M10.5 2.5h7v7h-7z",
    "M14 1l5 5-5 5-5-5z",
    "M14 1.5l4.6 8h-9.2z",
    "M14 10.5l4.6-8h-9.2z",
    "M12.5 1.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "M11 1.5l3 3 3-3 1.5 1.5-3 3 3 3-1.5 1.5-3-3-3 3L9.500 9l3-3-3-3z",
    "M14 .5l1.500 3.700 4 .3-3 2.600.9 3.900-3.400-2.100-3.400 2.100.9-3.900-3-2.600 4-.3z",
)


@cache
def environment() -> "Environment":
    """Made once. Whatever a template prints is escaped; a name that a template does not know is an error."""
    need("report", "a report")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["shapes"] = _SHAPES
    made.filters["raised"] = lambda text: Markup(str(escape(text)).replace("e^ε", "e<sup>ε</sup>"))
    # an epsilon stays on one line
    made.filters["unbroken"] = lambda text: text.replace("ε = ", "ε\u00a0=\u00a0")
    # lines break between options only
    made.filters["parts"] = lambda command: re.split(r" (?=-)", command)
    return made


def render(template: str, *, data: object = None, **shown: Any) -> str:
    """A whole page. With `data` it has figures, which report.js draws; every page has the script of tables, tables.js."""
    from markupsafe import Markup

    scripts = _scripts(figures=data is not None)
    allowed = " ".join(f"'sha256-{_hash(text)}'" for text in scripts)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:"
    return (
        environment()
        .get_template(template)
        .render(
            policy=Markup(f"{policy}; script-src {allowed}"),
            css=Markup(palette() + (_HERE / "report.css").read_text(encoding="utf-8")),
            data=None if data is None else Markup(_json(data)),
            scripts=[Markup(text) for text in scripts],
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            **shown,
        )
    )


def write(text: str, path: str | Path) -> Path:
    target = Path(arguments.path("path", path))
    make_folder(target.parent)
    replace(target, text.encode())
    return target


@cache
def _scripts(*, figures: bool) -> tuple[str, ...]:
    """As the browser will read them, so that their hashes are the browser's."""
    texts = [
        (_HERE / name).read_text(encoding="utf-8")
        for name in (["report.js"] * figures + ["tables.js"])
    ]
    if figures:
        from plotly.offline import get_plotlyjs

        texts.insert(0, get_plotlyjs())
    clean = tuple(text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
    if any("</script" in text.lower() for text in clean):
        raise ValueError("a script of the report contains </script and would end early")
    return clean


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _json(value: object) -> str:
    """JSON inside a script element: no < survives, so nothing can close it or open a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
