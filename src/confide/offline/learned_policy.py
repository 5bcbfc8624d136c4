"""A policy that was planned in a released model: what to do, where that differs from the logged
policy, and why. Public.

What leaves this file: `policy.json` (format `FORMAT`), which people and `confide evaluate` read,
and `policy.npz`. Names and meanings of the fields in `to_json` may not change without a new format.
Texts may be changed freely.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from confide import arguments
from confide._durable import output, replace_files
from confide.errors import InvalidParameter
from confide.logs.labels import Labels, label_or_number
from confide.policy import Array, StochasticPolicy
from confide.release.value import NO_VALUE, Value

Ints = npt.NDArray[np.int64]
FORMAT = "confide-policy/1"


@dataclass(frozen=True, slots=True)
class Departure:
    """One state in which the policy takes another action than was usual, and what the model says of
    it.

    All numbers are estimates from noisy counts.
    """

    # The labels of the state and of the action, and their numbers.
    state: str
    action: str
    number: int
    choice: int
    # The share of this action in the log.
    logged: float
    # How much more the rest of a trajectory is worth if the action is taken here instead of what
    # was logged, and its standard deviation.
    gain: float
    gain_std: float
    # The probability that the gain is positive, given the release.
    chance: float
    # How often the state was met.
    visits: float

    def to_json(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "action": self.action,
            "number": self.number,
            "choice": self.choice,
            "logged": self.logged,
            "gain": self.gain,
            "gain_std": self.gain_std,
            "chance": self.chance,
            "visits": self.visits,
        }

    def __str__(self) -> str:
        odds = "almost certainly" if self.chance > 0.9995 else f"{100 * self.chance:.3g} %"
        return (
            f"in state {self.state}: {self.action} (taken {100 * self.logged:.2g} % of the time); "
            f"gain {self.gain:.3g} ± {self.gain_std:.2g}, positive: {odds}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicy:
    """A choice for every state: an action, or number A, "as logged": go on as those who made the
    log.

    `weights` [s, a] are its probabilities of actions, with the behaviour as it was estimated where
    the choice is "as logged". `value` and `behaviour_value` are the values that the model predicts
    for it and for the behaviour. `logged` is the value of the logged policy with a 90 % interval,
    from mean returns; `learned` is that of this policy: `logged` and the gain that the model
    predicts, with a lower bound. `shown`: the planned policy passed the test of being better than
    the logged one.
    """

    choices: Ints = field(repr=False)
    behaviour: Array = field(repr=False)
    value: float
    behaviour_value: float
    pessimism: float
    gains: Array = field(repr=False)
    gain_std: Array = field(repr=False)
    visits: Array = field(repr=False)  # [s]
    # The standard deviation of value - behaviour_value, given the release.
    improvement_std: float = 0.0
    labels: Labels = field(default_factory=Labels, repr=False)
    logged: Value = NO_VALUE
    learned: Value = NO_VALUE
    shown: bool = False

    @property
    def actions(self) -> int:
        return int(self.behaviour.shape[1])

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """The states [s] in which it does not go on as logged."""
        return self.choices < self.actions

    @property
    def weights(self) -> Array:
        return self.mixed(self.behaviour)

    def mixed(self, behaviour: Array) -> Array:
        """Its probabilities [s, a] where "as logged" is this behaviour [s, a]: in a simulation, the
        true one.
        """
        logged = arguments.array("behaviour", behaviour, ndim=2, finite=False)
        if logged.shape != (len(self.choices), self.actions):
            raise InvalidParameter.of(
                "behaviour",
                f"must have shape ({len(self.choices)}, {self.actions}), got {logged.shape}",
            )
        policy: Array = np.where(
            self.changed[:, None], np.eye(self.actions + 1)[self.choices, : self.actions], logged
        )
        return policy

    def probabilities(self) -> Array:
        """[h, s, a] with one step, which is the same at every step."""
        return self.weights[None]

    def departures(self) -> list[Departure]:
        """The states in which it differs from the logged policy, the largest gain times visits
        first.
        """
        chance = ndtr(self.gains / np.maximum(self.gain_std, 1e-300))
        departures = [
            Departure(
                state=label_or_number(self.labels.state, state),
                action=label_or_number(self.labels.action, action),
                number=state,
                choice=action,
                logged=float(self.behaviour[state, action]),
                gain=float(self.gains[state]),
                gain_std=float(self.gain_std[state]),
                chance=float(chance[state]),
                visits=float(self.visits[state]),
            )
            for state, action in enumerate(map(int, self.choices))
            if action < self.actions
        ]
        return sorted(departures, key=lambda each: -each.gain * max(each.visits, 0.0))

    def described(self, state: int) -> str:
        """What it does in a state, in words."""
        state = arguments.whole("state", state, at_least=0, at_most=len(self.choices) - 1)
        choice = int(self.choices[state])
        what = label_or_number(self.labels.action, choice) if choice < self.actions else "as logged"
        return f"in state {label_or_number(self.labels.state, state)}: {what}"

    def to_json(self) -> dict[str, Any]:
        names = [label_or_number(self.labels.action, a) for a in range(self.actions)]
        # What is done in each state, in words.
        instructions = [
            names[choice] if choice < self.actions else "as logged"
            for choice in map(int, self.choices)
        ]
        # The labels of a log may be put together into states. Then each label gets a line, too.
        by_label = {
            label: instructions[state]
            for state, labels in enumerate(self.labels.members or ())
            for label in labels
        }
        return {
            "format": FORMAT,
            "logged": self.logged.to_json(),
            "learned": self.learned.to_json(),
            "shown": self.shown,
            "improvement_std": self.improvement_std,
            "pessimism": self.pessimism,
            "actions": names,
            "policy": {
                label_or_number(self.labels.state, state): instruction
                for state, instruction in enumerate(instructions)
            },
            **({"policy_of_members": by_label} if self.labels.members else {}),
            "departures": [departure.to_json() for departure in self.departures()],
        }

    def save(self, folder: str | Path) -> None:
        """`policy.json`, with labels, and `policy.npz`, which `confide.policy.load_policy` reads,
        into a folder: both are public.
        """
        where = Path(arguments.path("folder", folder))
        with output(where), replace_files(where, last="policy.npz") as target:
            (target / "policy.json").write_text(
                json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"
            )
            StochasticPolicy(self.probabilities()).save(target / "policy.npz")
