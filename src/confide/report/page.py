"""Pages: Jinja2 templates, one style sheet, and a content security policy.

The policy allows the page's own scripts, by their hashes, and nothing else. So a page loads nothing
from anywhere, and a name or a label in it can never run as a script.
"""

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
from confide.report.charts import MARKERS, palette

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent


@cache
def environment() -> "Environment":
    """The templates, which are made once.

    Whatever a template prints is escaped, and a name that a template does not know is an error.
    """
    need("report", "a report")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["shapes"] = MARKERS
    templates.filters["raised"] = lambda text: Markup(
        str(escape(text)).replace("e^ε", "e<sup>ε</sup>")
    )
    # An epsilon stays on one line.
    templates.filters["unbroken"] = lambda text: text.replace("ε = ", "ε\u00a0=\u00a0")
    # The lines of a command break between options only.
    templates.filters["parts"] = lambda command: re.split(r" (?=-)", command)
    return templates


def look() -> str:
    """The style sheet of colours and fonts that reports, the service and the documentation
    share."""
    return (_HERE / "look.css").read_text(encoding="utf-8")


def render(template: str, *, data: object = None, **shown: Any) -> str:
    """A whole page.

    With `data` it has figures, which report.js draws. Every page has the script of tables.
    """
    from markupsafe import Markup

    scripts = _scripts(figures=data is not None)
    allowed = " ".join(f"'sha256-{_hash(text)}'" for text in scripts)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:"
    return (
        environment()
        .get_template(template)
        .render(
            policy=Markup(f"{policy}; script-src {allowed}"),
            css=Markup(palette() + look() + (_HERE / "report.css").read_text(encoding="utf-8")),
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
    """The scripts as the browser will read them, so that their hashes are the browser's."""
    names = ["charts.js", "report.js", "tables.js"] if figures else ["tables.js"]
    texts = [(_HERE / name).read_text(encoding="utf-8") for name in names]
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
