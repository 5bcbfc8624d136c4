"""Which noise a release has: secure, or fast for simulation.

Fast noise can be reproduced from its seed, so it protects nobody. It is mixed with the name of the
release, because the same noise in two releases would cancel.
"""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from confide.errors import InvalidParameter, MissingExtra
from confide.mechanisms.sources import FastSource, NoiseSource, SecureSource, noise_source
from confide.privacy.request import NoPrivacy, Request


def given_source(rng: np.random.Generator | None, noise: NoiseSource | None) -> NoiseSource | None:
    """The source of noise that was given, as a generator or as a source; None stands for secure
    noise.
    """
    if rng is not None and noise is not None:
        raise InvalidParameter(
            "give rng (fast noise, for simulation) or noise (a source), not both"
        )
    if not isinstance(rng, np.random.Generator | None):
        raise InvalidParameter.of(
            "rng",
            f"must be a NumPy generator, as np.random.default_rng(0) is, got {type(rng).__name__}",
        )
    return noise if rng is None else FastSource(rng)


def source_for(
    noise: NoiseSource | None, privacy: Request, *, release_name: str, lattice: bool
) -> NoiseSource:
    """The source that one release draws from.

    Fast noise is mixed with the name of the release.
    """
    if noise is None:
        without_privacy = isinstance(privacy, NoPrivacy)
        return noise_source("fast") if without_privacy else SecureSource(lattice=lattice)
    if not all(hasattr(noise, part) for part in ("name", "discrete", "gaussian", "laplace")):
        raise InvalidParameter(
            f'noise must be a source, as noise_source("secure") is, got {type(noise).__name__}'
        )
    return noise.for_release(release_name) if isinstance(noise, FastSource) else noise


@dataclass(frozen=True, slots=True)
class ChosenNoise:
    """Noise that was asked for by name, and why it is that, in words."""

    # One of secure, fast and none.
    name: str
    why: str
    seed: int | None = None

    def source(self) -> NoiseSource | None:
        return FastSource(np.random.default_rng(self.seed)) if self.name == "fast" else None


def choose_noise(
    name: str | None, seed: int | None, *, lattice: bool, no_privacy: bool
) -> ChosenNoise:
    """Secure noise, unless fast noise was requested.

    Without OpenDP, noise on a lattice is refused before the log is read.
    """
    if name not in ("fast", "secure", None):
        raise InvalidParameter.of("source", f"must be fast or secure, got {name!r}")
    if seed is not None and name != "fast":
        raise InvalidParameter(
            "--seed needs --source fast: noise that can be reproduced can be subtracted"
        )
    if no_privacy:
        return ChosenNoise("none", "none", seed)
    if name == "fast":
        return ChosenNoise(
            "fast", "FAST, as requested: for simulation. Use secure noise for real data.", seed
        )
    if not lattice:
        why = (
            "secure: normal, to 120 digits, from the system's entropy, and rounded to a public "
            "grid."
        )
        return ChosenNoise("secure", why)
    if find_spec("opendp") is None:
        raise MissingExtra(
            "secure noise needs OpenDP, which is not installed: pip install 'confide[secure]', or "
            "add --source fast for a simulation"
        )
    return ChosenNoise("secure", "secure: discrete, exactly sampled, from the system's entropy.")
