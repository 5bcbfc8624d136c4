"""The text of claims and errata, which stands in TOML files beside the code.

A computation finds its text by a key.
"""

import string
import tomllib
from pathlib import Path
from typing import Any

from papers.findings import Claim, Erratum, Holds, Numbers


class Texts:
    """The entries of one TOML file.

    The computation gives values by name, and each {name} in an entry is replaced by its value.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries: dict[str, dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self._entries)

    def claim(
        self, key: str, holds: Holds, numbers: Numbers | None = None, /, **values: Any
    ) -> Claim:
        text = self._fill_in(key, values)
        return Claim(
            text["locator"], text["says"], text["computed"], holds, text["how"], numbers or {}
        )

    def erratum(
        self, key: str, stands: bool | None, numbers: Numbers | None = None, /, **values: Any
    ) -> Erratum:
        text = self._fill_in(key, values)
        entry = self._entries[key]
        how = text.get("how", "")
        return Erratum(
            entry["number"],
            text["locator"],
            text["says"],
            text["true"],
            text["computed"],
            stands,
            how,
            numbers or {},
            entry.get("slack", False),
        )

    def _fill_in(self, key: str, values: dict[str, Any]) -> dict[str, str]:
        texts = {part: text for part, text in self._entries[key].items() if isinstance(text, str)}
        wanted = {
            name
            for text in texts.values()
            for _, name, _, _ in string.Formatter().parse(text)
            if name
        }
        if wanted != set(values):
            raise ValueError(
                f"{self._file.name}, [{key}]: wanted {sorted(wanted)}, got {sorted(values)}"
            )
        return {part: text.format_map(values) for part, text in texts.items()}
