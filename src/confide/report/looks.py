"""How series look: the same in every figure, on paper and on the screen, and told apart without colour, too."""

from dataclasses import dataclass

from confide.report.series import Series, World

# After Okabe and Ito, and Tol: distinct under the common kinds of colour blindness; contrast at least 3:1 with the background.
LIGHT = ("#0072b2", "#c64f00", "#00805d", "#a03a8c", "#94700a", "#443399", "#5b6770")
DARK = ("#5ab8f0", "#ff9350", "#35cf9f", "#ea92cf", "#e3c33c", "#b0a5ff", "#b4bec6")
NEUTRAL = ("#6b7280", "#9aa4b2")  # reference play: light, dark


@dataclass(frozen=True, slots=True)
class Look:
    """A place in the palette (None: neutral) and a dash: solid means private."""

    tone: int | None
    dash: str  # solid | dash | dot | dashdot

    @property
    def colour(self) -> str:
        """On white."""
        return NEUTRAL[0] if self.tone is None else LIGHT[self.tone]

    @property
    def variable(self) -> str:
        """The custom property of the style sheet that holds the colour."""
        return "--neutral" if self.tone is None else f"--tone-{self.tone}"


def looks(world: World) -> list[Look]:
    """One per series of the world."""
    tones = {id(series): i % len(LIGHT) for i, series in enumerate(world.learners)}
    return [Look(tones.get(id(series)), _dash(series)) for series in world.series]


def _dash(series: Series) -> str:
    if series.reference:
        return {"uniform": "dot", "oracle": "dashdot"}.get(series.agent, "dash")
    return "solid" if series.promise.private else "dash"


def palette() -> str:
    """The custom properties, for light and for dark screens."""
    light = "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(LIGHT)) + f"--neutral:{NEUTRAL[0]};"
    dark = "".join(f"--tone-{i}:{colour};" for i, colour in enumerate(DARK)) + f"--neutral:{NEUTRAL[1]};"
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
