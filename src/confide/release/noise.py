"""Which noise a release has."""

import numpy as np

from confide.errors import InvalidParameter
from confide.mechanisms.sources import FastSource, NoiseSource, SecureSource, noise_source
from confide.privacy.request import NoPrivacy, Request


def given_source(rng: np.random.Generator | None, noise: NoiseSource | None) -> NoiseSource | None:
    """The source of noise that was given, as a generator or as a source; None stands for secure noise."""
    if rng is not None and noise is not None:
        raise InvalidParameter(
            "give rng (fast noise, for simulation) or noise (a source), not both"
        )
    if not isinstance(rng, np.random.Generator | None):
        raise InvalidParameter(
            f"rng must be a NumPy generator, as np.random.default_rng(0) is, got {type(rng).__name__}"
        )
    return noise if rng is None else FastSource(rng)


def source_for(
    noise: NoiseSource | None, privacy: Request, *, asked: str, lattice: bool
) -> NoiseSource:
    """The source that one release draws from. `asked` names the release: fast noise is mixed with it."""
    if noise is None:
        without_privacy = isinstance(privacy, NoPrivacy)
        return noise_source("fast") if without_privacy else SecureSource(lattice=lattice)
    if not all(hasattr(noise, part) for part in ("name", "discrete", "gaussian", "laplace")):
        raise InvalidParameter(
            f'noise must be a source, as noise_source("secure") is, got {type(noise).__name__}'
        )
    return noise.for_release(asked) if isinstance(noise, FastSource) else noise
