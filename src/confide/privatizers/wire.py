"""Releases as bytes: a server publishes them, and a device opens them without trusting the server.

The names of the facts and arrays are part of the format, which Python and TypeScript clients read.
The bytes are never a pickle, because reading a pickle can run code.
"""

import math

import numpy as np

from confide.arguments import text
from confide.errors import InvalidParameter, StateError
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import NoiseLevel, Released
from confide.privacy.guarantee import Guarantee

# The bytes of the longest release that is read. More could exhaust a device (a matter of taste).
_MAX_BYTES = 2**28
# The arrays of the memory have this prefix.
_MEMORY = "memory."


def encode_release(released: Released, *, run: str = "", settings: str = "") -> bytes:
    """Write everything that planning needs. Public.

    `run` is the name of a service's run, and `settings` those of its learner, so that a device sees
    whose release it is.
    """
    facts = {
        "users": released.users,
        "std": released.noise.std,
        "distribution": released.noise.distribution,
        "run": text("run", run),
        "settings": text("settings", settings),
    }
    arrays = {"values": released.values}
    for name, array in released.memory.items():
        arrays[_MEMORY + name] = np.asarray(array)
    return pack("release", released.generation, facts, arrays)


def decode_release(
    data: bytes, guarantee: Guarantee, *, run: str | None = None, settings: str | None = None
) -> Released:
    """Read a release from bytes that anybody may have written, and refuse everything else.

    The release gets the guarantee that the reader knows. A reader who also knows the `run` or the
    `settings` refuses releases that name others.
    """
    if not isinstance(data, bytes) or len(data) > _MAX_BYTES:
        raise InvalidParameter(f"a release must be bytes, at most {_MAX_BYTES} of them")
    try:
        state = unpack(data, "release", released=0)
        facts = state.facts
        level = NoiseLevel(float(facts["std"]), str(facts["distribution"]))
        memory = {
            name.removeprefix(_MEMORY): array
            for name, array in state.arrays.items()
            if name.startswith(_MEMORY)
        }
        released = Released(
            state.arrays["values"],
            level,
            guarantee,
            int(facts["users"]),
            int(state.generation),
            memory,
        )
        expected = {"run": run, "settings": settings}
        differing = [
            name
            for name, value in expected.items()
            if value is not None and facts.get(name) != value
        ]
    except (StateError, KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidParameter(
            f"these bytes are not a release of confide: {type(error).__name__}"
        ) from None
    if differing:
        raise InvalidParameter(f"the release names another {differing[0]} than this one")
    is_vector = released.values.dtype == np.float64 and released.values.ndim == 1
    if not is_vector or released.users < 0 or not math.isfinite(released.noise.std):
        raise InvalidParameter("these bytes are not a release of confide")
    return released
