"""What reproducing a paper finds: its claims with our numbers beside them, and its errata with the computations that show them."""

from collections.abc import Callable
from dataclasses import dataclass, field

Say = Callable[[str], None]  # what is being computed, for whoever waits
Numbers = dict[str, float]


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that the paper says, and what was computed or measured beside it.

    `holds` is None where nothing can be true or false: a constant that is printed, or a claim that no computation here reaches, and then
    `computed` says so. A claim that is false is a finding, not a failure.
    """

    locator: str  # of the paper: Cor. 5, Fig. 1
    says: str
    computed: str
    holds: bool | None
    how: str  # with what: a function of the library, settings
    numbers: Numbers = field(default_factory=dict)  # those of `computed`, for machines

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "does not hold", None: "-"}[self.holds]


@dataclass(frozen=True, slots=True)
class Erratum:
    """Something that the paper gets wrong or leaves out, what is true instead, and the computation that shows it.

    `stands` is whether the computation came out as `true` says: this is our statement, and if it fails we are wrong. None: an erratum in
    the text alone, where nothing is to be computed.
    """

    number: int
    locator: str
    says: str
    true: str
    computed: str
    stands: bool | None
    how: str = ""
    numbers: Numbers = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return {True: "shown", False: "NOT SHOWN", None: "text"}[self.stands]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One algorithm run a few times on one problem."""

    setting: str  # calibration, promise, problem, users
    true_epsilon: (
        float | None
    )  # what its noise really gives at the delta asked for; None: no privacy, or none that one number states
    what: str  # regret, RMSE
    mean: float
    error: float | None  # standard error; None with one run
    beside: str  # what to compare it with


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm of the paper, where it is built, and what it did."""

    locator: str
    name: str
    place: str  # file: class
    measured: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers that belong together, as text."""

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
    """All of a paper."""

    paper: str  # balle16
    key: str  # [Balle16]
    title: str
    quick: bool
    calibrations: tuple[Claim, ...]
    algorithms: tuple[Algorithm, ...]
    empirical: tuple[Claim, ...]
    errata: tuple[Erratum, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def broken(self) -> tuple[Erratum, ...]:
        """Our own statements that did not come out as stated: there should be none."""
        return tuple(erratum for erratum in self.errata if erratum.stands is False)

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """What the paper says and the computation contradicts."""
        return tuple(claim for claim in (*self.calibrations, *self.empirical) if claim.holds is False)


def short(value: float) -> str:
    """A number as people read it: three digits."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:.3g}"


def plus_minus(mean: float, error: float | None) -> str:
    return short(mean) if error is None else f"{short(mean)} ± {error:.2g}"
