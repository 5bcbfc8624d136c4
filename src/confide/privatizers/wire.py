"""Releases as bytes: what a server publishes, and a device opens without trusting it. Never a pickle."""

import math

import numpy as np

from confide.arguments import text
from confide.errors import InvalidParameter, StateError
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import NoiseLevel, Released
from confide.privacy.guarantee import Guarantee

_MOST = 2**28  # bytes


def encode_release(released: Released, *, run: str = "", settings: str = "") -> bytes:
    """Everything that planning needs, and whose release it is: the run of a service, and the settings of its learner. Public."""
    noise = released.noise
    facts = {"users": released.users, "std": noise.std, "distribution": noise.distribution}
    facts |= {"run": text("run", run), "settings": text("settings", settings)}
    memory = {f"memory.{name}": np.asarray(value) for name, value in released.memory.items()}
    return pack("release", released.generation, facts, {"values": released.values, **memory})


def decode_release(
    data: bytes, guarantee: Guarantee, *, run: str | None = None, settings: str | None = None
) -> Released:
    """The release in bytes from anybody, under the guarantee that the reader knows; anything else is refused.

    A reader who knows the `run` or the `settings` has those of the release checked.
    """
    if not isinstance(data, bytes) or len(data) > _MOST:
        raise InvalidParameter(f"a release must be bytes, at most {_MOST} of them")
    try:
        state = unpack(data, "release", released=0)
        users, std, distribution = (state.facts[name] for name in ("users", "std", "distribution"))
        wrong = [
            name
            for name, known in (("run", run), ("settings", settings))
            if known is not None and state.facts.get(name) != known
        ]
        arrays = state.arrays
        memory = {
            name.removeprefix("memory."): array
            for name, array in arrays.items()
            if name.startswith("memory.")
        }
        level = NoiseLevel(float(std), str(distribution))
        made = Released(
            arrays["values"], level, guarantee, int(users), int(state.generation), memory
        )
    except (StateError, KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidParameter(
            f"these bytes are not a release of confide: {type(error).__name__}"
        ) from None
    if wrong:
        raise InvalidParameter(f"the release names another {wrong[0]} than this one")
    if (
        made.values.dtype != np.float64
        or made.values.ndim != 1
        or not (made.users >= 0 and math.isfinite(made.noise.std))
    ):
        raise InvalidParameter("these bytes are not a release of confide")
    return made
