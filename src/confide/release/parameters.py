"""Public parameters of a question to a log: set, shown in one line, and stated in words."""

from dataclasses import fields
from typing import Any

import numpy as np

from confide.arguments import whole

_MOST = 2**31 - 1


def keep(question: Any, **values: Any) -> None:
    """Set parameters of a frozen dataclass to their normal form, so that one question has one id in
    a ledger.
    """
    for name, value in values.items():
        object.__setattr__(question, name, value)


def described(question: Any) -> str:
    """A dataclass in one line: arrays by their shapes."""
    shown = ((each.name, getattr(question, each.name)) for each in fields(question))
    parts = (
        f"{name}={f'array{list(value.shape)}' if isinstance(value, np.ndarray) else repr(value)}"
        for name, value in shown
    )
    return f"{type(question).__name__}({', '.join(parts)})"


def first_of_user(trajectories: int, steps: int) -> str:
    """The caps of a log, in words."""
    whole("trajectories", trajectories, at_least=1, at_most=_MOST)
    whole("steps", steps, at_least=1, at_most=_MOST)
    if trajectories == 1:
        return f"the first trajectory of each user is used, and its first {steps:,} steps"
    return (
        f"the first {trajectories:,} trajectories of each user are used, "
        f"and the first {steps:,} steps of each"
    )
