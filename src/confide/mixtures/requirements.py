"""What the agents for mixtures require of a problem, and which coordinates they learn.

Everything here is public: features, and norms that are known before the first user. Nothing leaves
this file but messages of errors, which name public parameters only.
"""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.mixtures.value_features import FeatureMap, reduced, summing_to_one
from confide.problems.feature_mixture import MixturePublic
from confide.problems.linear_mixture import LinearMixturePublic

# Norms may exceed the bound of a theorem by this share, because they are computed with rounding.
ROUNDING = 1e-9


def require_mixture(public: MixturePublic, name: str, *, known_rewards: bool = True) -> None:
    """Refuse everything but a mixture, and where `known_rewards` a mixture of unknown rewards."""
    if not isinstance(public, MixturePublic):
        raise InvalidParameter(
            f"{name} needs a mixture of known kernels or features (LinearMixtureMDP.public or "
            f"FeatureMixtureMDP.public), got {type(public).__name__}"
        )
    if known_rewards and public.rewards is None:
        raise InvalidParameter(f"{name} needs known rewards; linopt-vi and linopt-po learn them")


def require_simplex(public: MixturePublic, name: str) -> LinearMixturePublic:
    """Return the public part of a problem with known kernels, and refuse all others."""
    if isinstance(public, LinearMixturePublic):
        return public
    raise InvalidParameter(
        f"{name} needs known probability kernels with weights on the simplex (LinearMixtureMDP), "
        "and this problem has features of any sign: use ucrl-vtr"
    )


@dataclass(frozen=True, slots=True, eq=False)
class LearnedCoordinates:
    """Which coordinates theta of the weights the tight form learns.

    `unit` is what features are divided by, and `largest_norm` the largest norm of theta. `simplex`
    is the feature map again if the weights are known to lie on the simplex, and None otherwise.
    """

    feature_map: FeatureMap
    unit: float
    simplex: FeatureMap | None
    largest_norm: float


def learned_coordinates(public: MixturePublic) -> LearnedCoordinates:
    """Choose the fewest coordinates that public knowledge leaves open.

    For d kernels these are the d - 1 coordinates of w - 1/d, with w on the simplex. For other
    features they are those that the sums of probabilities leave open.
    """
    if isinstance(public, LinearMixturePublic):
        on_simplex = reduced(public.dimension)
        m = on_simplex.dimension
        return LearnedCoordinates(on_simplex, 1.0, on_simplex, math.sqrt(m / (m + 1)))
    unit = public.value_bound
    feature_map = summing_to_one(public.features.divide_by(unit))
    # ||w||^2 = ||origin||^2 + ||theta||^2, because the origin is orthogonal to the basis.
    origin = feature_map.origin
    squared_norm = (unit * public.weight_bound) ** 2 - float(origin @ origin)
    return LearnedCoordinates(feature_map, unit, None, math.sqrt(max(squared_norm, 0.0)))


def check_assumption_1(public: MixturePublic, row_bound: str) -> float:
    """Check the norms that [Zhou22] assumes, and return what features are divided by.

    Assumption 1 is ||w|| <= sqrt(d1), and ||phi_V|| <= sqrt(d1) H for V with values in [0, H].
    Remark 6.6 assumes ||phi_V|| <= H (`row_bound="H"`). Features that are divided by `value_bound`
    have this norm, and their weights are multiplied by it.
    """
    most = math.sqrt(public.dimension)
    if row_bound == "H":
        weight_bound = public.weight_bound * public.value_bound
        if weight_bound > most * (1 + ROUNDING):
            raise InvalidParameter.of(
                "weight_bound",
                f"times value_bound must be at most sqrt(d) = {most:.4g}, "
                "because [Zhou22, Remark 6.6] needs it",
                got=f"{weight_bound:.4g}",
                advice=": use ucrl-vtr",
            )
        return public.value_bound
    for name in ("weight_bound", "value_bound"):
        if getattr(public, name) > most * (1 + ROUNDING):
            raise InvalidParameter.of(
                name,
                f"must be at most sqrt(d) = {most:.4g}, because [Zhou22, Assumption 1] needs it",
                got=f"{getattr(public, name):.4g}",
                advice=": use ucrl-vtr, or divide the features by another number",
            )
    return 1.0
