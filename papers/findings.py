"""What a reproduction finds: claims with our numbers, and errata with computations.

`papers.page` writes these as Markdown and JSON, so the names of fields are those in the JSON files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

# Reports progress.
Say = Callable[[str], None]
Numbers = dict[str, float]
Holds = bool | Literal["not tested"] | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper, and what we computed or measured.

    Its text is in `claims.toml` of the paper. A claim that does not hold is a finding about the
    paper, not a failure of the program. `holds` is "not tested" if runs could not have contradicted
    the claim, and None for a remark that is only illustrated. `computed` then says why.
    """

    # The place in the paper, such as Cor. 5 or Fig. 1.
    locator: str
    says: str
    computed: str
    holds: Holds
    # A function of the library, or settings.
    how: str
    # The numbers of `computed`, for machines.
    numbers: Numbers = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.holds == "not tested":
            return self.holds
        return {True: "holds", False: "does not hold", None: "-"}[self.holds]


@dataclass(frozen=True, slots=True)
class Erratum:
    """An error of the paper, its correction, and the computation that verifies the correction.

    Its text is in `errata.toml`. If `slack` is True, the paper is right but looser than needed, or
    it leaves something out. Such entries have a list of their own. Both lists are numbered as one.

    `stands` says whether the computation confirms `true`. If it is False, our erratum is wrong. It
    is None for an error in the text with nothing to compute.
    """

    number: int
    locator: str
    says: str
    true: str
    computed: str
    stands: bool | None
    how: str = ""
    numbers: Numbers = field(default_factory=dict)
    slack: bool = False

    @property
    def verdict(self) -> str:
        return {True: "shown", False: "NOT SHOWN", None: "text"}[self.stands]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of running one algorithm several times on one problem."""

    # Calibration, guarantee, problem and users.
    setting: str
    # The epsilon of the noise that is added, at the requested delta. None if there is no privacy,
    # or if it is not a single number.
    true_epsilon: float | None
    # Regret or RMSE.
    what: str
    mean: float
    # The standard error, or None with one run.
    error: float | None
    # What to compare the mean with.
    beside: str


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm of the paper, where it is implemented, and its measurements."""

    locator: str
    name: str
    # The file and the class.
    place: str
    measured: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table, as text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a figure, with a band where there is one."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] | None = None
    # The number of a colour in the palette, or None for grey.
    tone: int | None = None
    # One of solid, dash, dot, dashdot.
    dash: str = "solid"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of logarithmic axes."""

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels side by side, in one file."""

    name: str
    caption: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All results for one paper."""

    # For example balle16 and [Balle16].
    paper: str
    key: str
    title: str
    quick: bool
    calibrations: tuple[Claim, ...]
    algorithms: tuple[Algorithm, ...]
    empirical: tuple[Claim, ...]
    # Errors, and entries with `slack`.
    errata: tuple[Erratum, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def broken(self) -> tuple[Erratum, ...]:
        """Errata that the computation does not confirm. There should be none."""
        return tuple(erratum for erratum in self.errata if erratum.stands is False)

    @property
    def wrong(self) -> tuple[Erratum, ...]:
        """Errors of the paper."""
        return tuple(erratum for erratum in self.errata if not erratum.slack)

    @property
    def slack(self) -> tuple[Erratum, ...]:
        """Statements of the paper that are looser than needed, and omissions."""
        return tuple(erratum for erratum in self.errata if erratum.slack)

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """Claims of the paper that the computation contradicts."""
        return tuple(
            claim for claim in (*self.calibrations, *self.empirical) if claim.holds is False
        )


def short(value: float) -> str:
    """A number with three significant digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:.3g}"


def plus_minus(mean: float, error: float | None) -> str:
    return short(mean) if error is None else f"{short(mean)} ± {error:.2g}"
