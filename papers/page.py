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

ERRATA = (
    "Each entry has the paper's statement, the correct one, and a computation that confirms the "
    "correction."
)
SLACK = (
    "These are not errors. The paper's statement is true but weaker than what its proof gives, or "
    "something that a reader needs is not in the paper. The numbers belong to the same sequence as "
    "those of the errata."
)


def write(reproduction: Reproduction, folder: Path, users: int | None = None) -> list[Path]:
    """Write <paper>.md, <paper>.json and the figures. Return the paths of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [save(figure, folder) for figure in reproduction.figures]
    for path, text in (
        (folder / f"{reproduction.paper}.md", markdown(reproduction, users)),
        (folder / f"{reproduction.paper}.json", as_json(reproduction)),
    ):
        path.write_text(text)
        written.append(path)
    return written


def as_json(reproduction: Reproduction) -> str:
    entries = document(reproduction)
    return json.dumps(entries, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def document(reproduction: Reproduction) -> dict[str, Any]:
    """The findings as a dictionary. Numbers that are not finite become strings."""
    entries: dict[str, Any] = _plain(asdict(reproduction))
    for part in ("calibrations", "empirical", "errata"):
        for entry, finding in zip(entries[part], getattr(reproduction, part), strict=True):
            entry["verdict"] = finding.verdict
    entries["broken"] = [erratum.number for erratum in reproduction.broken]
    return entries


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


def markdown(reproduction: Reproduction, users: int | None = None) -> str:
    """The page. `users` is the value of --users, which the page repeats."""
    parts = [
        f"# {reproduction.key} reproduced",
        "This page shows which claims of the paper hold, which do not hold, and which we could not "
        f"test with the users that we simulated. The paper is {reproduction.title}.",
        _summary(reproduction, users),
        "## Constants and theorems",
        _claims(reproduction.calibrations),
        *(_table(table) for table in reproduction.tables),
        "## Algorithms",
        _algorithms(reproduction.algorithms),
        "## Measurements and remarks of the paper",
        _claims(reproduction.empirical),
        *(
            f"![Figure: {reproduction.paper}]({figure.name}.svg)\n\n*{prose(figure.caption)}*"
            for figure in reproduction.figures
        ),
        "## Errata",
        ERRATA,
        *(_erratum(erratum) for erratum in reproduction.wrong),
    ]
    if reproduction.slack:
        parts += ["## Looser than needed, and left out", SLACK]
        parts += [_erratum(erratum) for erratum in reproduction.slack]
    return "\n\n".join(parts) + "\n"


def _summary(reproduction: Reproduction, users: int | None) -> str:
    """The command that wrote the page, how claims were judged, and how many hold."""
    options = " --quick" if reproduction.quick else ""
    if users is not None:
        options += f" --users {users}"
    command = f"python -m papers {reproduction.paper}{options} --out FOLDER"
    claims = (*reproduction.calibrations, *reproduction.empirical)
    untested = sum(claim.holds == "not tested" for claim in claims)
    return (
        f"The command `{command}` wrote this page and computed all its numbers. "
        "An algorithm runs either with the paper's constants (`paper`) or in our tight form "
        "(`tight`), which gives the same guarantee with less noise and has no proof of regret. "
        'A claim has the verdict "-" if it is a remark that we only illustrate. '
        f"Claims checked: {len(claims)}. Claims that do not hold: {len(reproduction.refuted)}. "
        f"Claims that the runs could not test: {untested}. Errata: {len(reproduction.wrong)}."
    )


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
    headings = (
        "where",
        "algorithm",
        "file: class",
        "run",
        "true epsilon",
        "measured",
        "for comparison",
    )
    rows = []
    for algorithm in algorithms:
        # Only the first row of an algorithm names it.
        names = (algorithm.locator, algorithm.name, f"`{algorithm.place}`")
        for run in algorithm.measured:
            rows.append((*names, *cells(run)))
            names = ("", "", "")
    return _grid(headings, rows)


def cells(run: Measurement) -> tuple[str, str, str, str]:
    """The setting of a run, its true epsilon, its result, and what to compare this with."""
    epsilon = "-" if run.true_epsilon is None else short(run.true_epsilon)
    return run.setting, epsilon, f"{run.what} {plus_minus(run.mean, run.error)}", run.beside


def _erratum(erratum: Erratum) -> str:
    # The number is not at the start of the line, because Markdown would count these entries itself.
    heading = f"**{erratum.number}. {erratum.locator}.**"
    says = f"*The paper says*: {prose(erratum.says)}"
    correct = f"*Correct*: {prose(erratum.true)}"
    computed = f" *Computed*: {prose(erratum.computed)}" if erratum.computed else ""
    how = f" ({prose(erratum.how)})" if erratum.how else ""
    verdict = {
        True: "",
        False: " **The computation does not confirm this erratum.**",
        None: " (An error in the text.)",
    }[erratum.stands]
    return f"{heading} {says} {correct}{computed}{how}{verdict}"


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
