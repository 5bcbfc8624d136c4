"""HTML from small pieces; whatever is not markup already is escaped."""

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    return text if isinstance(text, Markup) else Markup(html.escape(text, quote=True))


def join(pieces: Iterable[str]) -> Markup:
    return Markup("".join(escape(piece) for piece in pieces))


def tag(name: str, *children: str, **attributes: str | bool) -> Markup:
    """tag("p", "text", class_="note", aria_label="..."): underscores stand for hyphens, False leaves an attribute out."""
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not False
    )
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def _attribute(key: str, value: str | bool) -> str:
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'
