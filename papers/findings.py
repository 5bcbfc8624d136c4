"""The results of reproducing a paper: its claims with our numbers, and its errata with the computations that verify them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Say = Callable[[str], None]  # reports progress
Numbers = dict[str, float]
Holds = bool | Literal["not tested"] | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper, and what we computed or measured. Its text is in `claims.toml` of the paper.

    A claim that does not hold is a finding about the paper, not a failure of the program. `holds` is "not tested" if runs could not have
    contradicted the claim, and None for a remark that is only illustrated; `computed` then says why.
    """

    locator: str  # of the paper: Cor. 5, Fig. 1
    says: str
    computed: str
    holds: Holds
    how: str  # with what: a function of the library, settings
    numbers: Numbers = field(default_factory=dict)  # those of `computed`, for machines

    @property
    def verdict(self) -> str:
        if self.holds == "not tested":
            return self.holds
        return {True: "holds", False: "does not hold", None: "-"}[self.holds]


@dataclass(frozen=True, slots=True)
class Erratum:
    """An error of the paper, its correction, and the computation that verifies the correction. Its text is in `errata.toml`.

    `slack`: the paper is right, but looser than needed, or it leaves something out. Such entries have a list of their own, and the numbers
    of both lists are those of one sequence.

    `stands` states whether the computation confirms `true`; if it is False, our erratum is wrong. None: an error in the text, with nothing
    to compute.
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

    setting: str  # calibration, guarantee, problem, users
    # of the noise that is added, at the requested delta; None: no privacy, or not a single number
    true_epsilon: float | None
    what: str  # regret, RMSE
    mean: float
    error: float | None  # standard error; None with one run
    beside: str  # what to compare it with


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm of the paper, where it is implemented, and its measurements."""

    locator: str
    name: str
    place: str  # file: class
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
    tone: int | None = None  # of the palette; None: neutral
    dash: str = "solid"  # solid | dash | dot | dashdot


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

    paper: str  # balle16
    key: str  # [Balle16]
    title: str
    quick: bool
    calibrations: tuple[Claim, ...]
    algorithms: tuple[Algorithm, ...]
    empirical: tuple[Claim, ...]
    errata: tuple[Erratum, ...]  # and slack
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def broken(self) -> tuple[Erratum, ...]:
        """Errata that the computation does not confirm. There should be none."""
        return tuple(erratum for erratum in self.errata if erratum.stands is False)

    @property
    def wrong(self) -> tuple[Erratum, ...]:
        """What the paper has wrong."""
        return tuple(erratum for erratum in self.errata if not erratum.slack)

    @property
    def slack(self) -> tuple[Erratum, ...]:
        """What the paper has looser than needed, or leaves out."""
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
