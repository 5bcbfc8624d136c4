"""What a replay compared and found: the result that `confide audit` and certificates quote.

The keys of `to_json` and the sentences are public; sentences are stored in certificates.
"""

from dataclasses import dataclass, field, replace
from typing import Any

# What an agent shows, by the name of the channel, as the subject of a sentence.
CHANNELS = {
    "policies": "the policies that users get",
    "schedule": "the times of releases and the sizes of batches",
    "releases": "what is released, and how much noise it has",
    "questions": "what users are asked to contribute",
    "memory": "what planning keeps from round to round",
    "messages": "what devices send and store",
    "descriptions": "guarantee, mechanisms and explanation",
    "printed": "output and warnings",
    "errors": "errors",
}
# Room for rounding in the distance of exact values, as a share of what the loss allows.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Difference:
    """Two neighbouring data sets with the same releases, and a channel on which they differ.

    It quotes no data. `replaced` is the number of the user who was replaced, counted from 0, and
    `served` is how many users had been served when the runs first differed.
    """

    channel: str
    replaced: int
    served: int

    def __str__(self) -> str:
        return (
            f"{_subject_and_verb(self.channel)} on the data of user {self.replaced}, "
            f"first seen after {self.served} users"
        )


def _subject_and_verb(channel: str) -> str:
    if channel in CHANNELS:
        return f"{CHANNELS[channel]} depend"
    if channel.endswith("()"):
        return f"the result of {channel} depends"
    return f"the public attribute {channel} depends"


@dataclass(frozen=True, slots=True)
class Replay:
    """What was compared, and what was found.

    A replay can refute a guarantee. That it found nothing is not a proof.

    - `compared`: how many values of each channel there were in each run.
    - `differences`: the first one of each channel.
    - `shift`: the largest distance of exact values, as a share of what the stated loss allows. None
      if the loss says nothing about it.
    - `on_grid`: whether policies were also compared by their actions on a grid, because their class
      is not the library's.
    - `undecided`: channels that differ from run to run on the same data, or cannot be replayed.
    - `own_draws`: whether the agent draws noise of its own, which no replay can follow.
    - `surface`: how often each public attribute and method was read.
    - `left_out`: what was not compared, and why.
    """

    neighbours: int
    users: int
    compared: dict[str, int]
    differences: tuple[Difference, ...]
    shift: float | None
    on_grid: bool
    undecided: tuple[str, ...] = ()
    own_draws: bool = False
    surface: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def join(self, other: "Replay") -> "Replay":
        """The results of two replays of one agent together."""
        shifts = [shift for shift in (self.shift, other.shift) if shift is not None]
        own_channels = {difference.channel for difference in self.differences}
        new_differences = [
            difference for difference in other.differences if difference.channel not in own_channels
        ]
        return replace(
            self,
            differences=(*self.differences, *new_differences),
            shift=max(shifts) if shifts else None,
            undecided=tuple(dict.fromkeys((*self.undecided, *other.undecided))),
            own_draws=self.own_draws or other.own_draws,
            surface=self.surface | other.surface,
            left_out=self.left_out | other.left_out,
        )

    @property
    def refuted(self) -> bool:
        return bool(self.differences) or self._shifted_too_far

    @property
    def _shifted_too_far(self) -> bool:
        return self.shift is not None and self.shift > 1 + _ROUNDING

    def sentences(self) -> list[str]:
        """The result in sentences. The first one says what was found."""
        findings = [str(difference) for difference in self.differences]
        if self._shifted_too_far:
            findings.append(
                f"the exact statistics of two neighbours are {self.shift:.3g} times as far apart "
                "as the stated loss allows"
            )
        runs = f"{self.neighbours} neighbouring data sets of {self.users} users, the same releases"
        sentences = [f"{runs}: {'; '.join(findings) or self._about_same()}"]
        if self.surface:
            methods = sum(name.endswith("()") for name in self.surface)
            sentences.append(
                f"{len(self.surface) - methods} public attributes and {methods} methods of the "
                "agent were read between users, as a service would use it"
            )
        if self.left_out:
            parts = [f"{name} ({why})" for name, why in self.left_out.items()]
            sentences.append(f"not compared: {'; '.join(parts)}")
        if self.shift is not None and not findings:
            sentences.append(
                f"exact statistics of neighbours were up to {100 * self.shift:.0f} % as far apart "
                "as the loss allows"
            )
        if self.on_grid:
            sentences.append(
                "policies of classes that are not the library's were also compared by their "
                "actions on a grid of states"
            )
        if self.undecided:
            if self.own_draws:
                why = "the agent draws noise of its own, which a replay cannot follow"
            else:
                why = "these differ between runs on the same data"
            sentences.append(f"NOT DECIDED for {', '.join(self.undecided)}: {why}")
        return [f"replay: {sentence}" for sentence in sentences]

    def _about_same(self) -> str:
        different = {difference.channel for difference in self.differences}
        same = [
            name for name in self.compared if name not in different and name not in self.undecided
        ]
        return f"the same bytes in {', '.join(same)}" if same else "nothing was compared"

    def to_json(self) -> dict[str, Any]:
        names = (
            "neighbours",
            "users",
            "compared",
            "shift",
            "on_grid",
            "refuted",
            "surface",
            "left_out",
        )
        differences = [
            {name: getattr(difference, name) for name in difference.__slots__}
            for difference in self.differences
        ]
        return {name: getattr(self, name) for name in names} | {
            "differences": differences,
            "undecided": list(self.undecided),
            "said": self.sentences(),
        }
