"""Write a reproduction as Markdown and as JSON. The same findings give the same bytes."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from papers.figures import save
from papers.findings import (
    Algorithm,
    Claim,
    Erratum,
    Measurement,
    Reproduction,
    Table,
    plus_minus,
    short,
)

SLACK = (
    "These are not errors. The paper's statement is true but weaker than what its proof gives, or something that a reader needs is "
    "not in the paper. The numbers continue those of the errata."
)


def write(found: Reproduction, folder: Path, users: int | None = None) -> list[Path]:
    """<paper>.md, <paper>.json and the figures; the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [save(figure, folder) for figure in found.figures]
    for path, text in (
        (folder / f"{found.paper}.md", markdown(found, users)),
        (folder / f"{found.paper}.json", as_json(found)),
    ):
        path.write_text(text)
        written.append(path)
    return written


def as_json(found: Reproduction) -> str:
    return json.dumps(document(found), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def document(found: Reproduction) -> dict[str, Any]:
    """The findings as a dictionary. Numbers that are not finite become strings."""
    made: dict[str, Any] = _plain(asdict(found))
    for part in ("calibrations", "empirical", "errata"):
        for entry, finding in zip(made[part], getattr(found, part), strict=True):
            entry["verdict"] = finding.verdict
    made["broken"] = [erratum.number for erratum in found.broken]
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    return int(number) if isinstance(value, int) else number


def markdown(found: Reproduction, users: int | None = None) -> str:
    chosen = " --quick" if found.quick else ""
    chosen += "" if users is None else f" --users {users}"
    command = f"python -m papers {found.paper}{chosen} --out FOLDER"
    checked = (*found.calibrations, *found.empirical)
    untested = sum(claim.holds == "not tested" for claim in checked)
    parts = [
        f"# {found.key} reproduced",
        f'{found.title}. This page is the output of `{command}`; the numbers under "computed", "measured" and "Shown" were computed by it. '
        f"Claims checked: {len(checked)}. Claims that do not hold: {len(found.refuted)}. Claims that the runs could not test: {untested}. "
        f"Errata: {len(found.wrong)}.",
        "## Constants and theorems",
        _claims(found.calibrations),
        *(_table(table) for table in found.tables),
        "## Algorithms",
        _algorithms(found.algorithms),
        "## Measurements and remarks of the paper",
        _claims(found.empirical),
        *(
            f"![Figure: {found.paper}]({figure.name}.svg)\n\n*{prose(figure.caption)}*"
            for figure in found.figures
        ),
        "## Errata",
        *(_erratum(erratum) for erratum in found.wrong),
        *(("## Looser than needed, and left out", SLACK) if found.slack else ()),
        *(_erratum(erratum) for erratum in found.slack),
    ]
    return "\n\n".join(parts) + "\n"


def _claims(claims: tuple[Claim, ...]) -> str:
    rows = [
        (claim.locator, prose(claim.says), prose(claim.computed), _bold(claim), prose(claim.how))
        for claim in claims
    ]
    return _grid(("where", "the paper says", "computed", "verdict", "how"), rows)


def _bold(claim: Claim) -> str:
    return f"**{claim.verdict}**" if claim.holds is False else claim.verdict


def _table(table: Table) -> str:
    note = f"\n\n{prose(table.note)}" if table.note else ""
    return f"**{table.title}**\n\n{_grid(table.headings, table.rows)}{note}"


def _algorithms(algorithms: tuple[Algorithm, ...]) -> str:
    rows = [
        (*((one.locator, one.name, f"`{one.place}`") if i == 0 else ("", "", "")), *cells(run))
        for one in algorithms
        for i, run in enumerate(one.measured)
    ]
    return _grid(
        ("where", "algorithm", "file: class", "run", "true epsilon", "measured", "for comparison"),
        rows,
    )


def cells(run: Measurement) -> tuple[str, str, str, str]:
    epsilon = "-" if run.true_epsilon is None else short(run.true_epsilon)
    return run.setting, epsilon, f"{run.what} {plus_minus(run.mean, run.error)}", run.beside


def _erratum(erratum: Erratum) -> str:
    shown = f" *Shown*: {prose(erratum.computed)}" if erratum.computed else ""
    how = f" ({prose(erratum.how)})" if erratum.how else ""
    verdict = {
        True: "",
        False: " **The computation does not confirm this erratum.**",
        None: " (An error in the text.)",
    }[erratum.stands]
    printed, true = prose(erratum.says), prose(erratum.true)
    # The number is not at the start of the line, because Markdown would count these entries itself.
    return f"**{erratum.number}. {erratum.locator}.** *Printed*: {printed} *True*: {true}{shown}{how}{verdict}"


def _grid(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def prose(text: str) -> str:
    """Escape `*` and `<` outside of `code`, so that Markdown shows formulas as they are."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", "\\*").replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    """Escape bars, which would end a cell of a table."""
    return text.replace("|", "\\|")
