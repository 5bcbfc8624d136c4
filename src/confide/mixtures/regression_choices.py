"""The arguments that UCRL-VTR, LinOpt-VI and LinOpt-PO share, checked.

PUBLIC: choices are made before the first user. They are part of an agent's identity.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confide.arguments import choice, has, shown
from confide.errors import InvalidParameter
from confide.learning.arguments import check_choices
from confide.mixtures.value_features import ROW_BOUNDS
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers.schedule import Schedule

if TYPE_CHECKING:
    from confide.planners.regression import MakeRegularizer, Regression, Regularizer

EXPLORATIONS = ("measured", "proven")


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments that UCRL-VTR, LinOpt-VI and LinOpt-PO share. `row_bound` is of [Zhou22]."""

    episodes: int
    privacy: Request
    calibration: str = "tight"
    schedule: Schedule | None = None
    bonus_scale: float | None = None
    failure: float = 0.1
    regularizer: "MakeRegularizer | None" = None
    exploration: str = "measured"
    row_bound: str = ROW_BOUNDS[0]

    def __post_init__(self) -> None:
        choice("row_bound", self.row_bound, ROW_BOUNDS)
        if self.row_bound != ROW_BOUNDS[0] and self.calibration != "paper":
            raise InvalidParameter('row_bound is part of calibration="paper": omit row_bound')
        check_choices(self.calibration, self.bonus_scale, self.failure)
        if choice("exploration", self.exploration, EXPLORATIONS) == "proven":
            self._check_proven()
        if self.regularizer is not None and not callable(self.regularizer):
            raise InvalidParameter(
                "regularizer must be a function of a regression, "
                f"got regularizer={shown(self.regularizer)}"
            )
        if self.regularizer is not None and self.bonus_scale is not None:
            raise InvalidParameter("a custom regularizer determines the width: omit bonus_scale")

    def _check_proven(self) -> None:
        is_tight = self.calibration == "tight"
        if not is_tight or self.bonus_scale is not None or self.regularizer is not None:
            raise InvalidParameter(
                'exploration="proven" determines the width: '
                "omit calibration, bonus_scale and regularizer"
            )
        is_gaussian = not self.privacy.trust.devices and self.privacy.delta > 0
        if not (is_gaussian or isinstance(self.privacy, NoPrivacy)):
            raise InvalidParameter(
                'exploration="proven" is proved for Gaussian noise: '
                "use JointDP with delta > 0, or NoPrivacy"
            )

    @property
    def is_proven(self) -> bool:
        """Whether widths are proved, so nobody has to explore."""
        return self.exploration == "proven"

    @property
    def named_row_bound(self) -> dict[str, str]:
        """For an identity. The usual bound is not named, so saved states of it stay valid."""
        return {} if self.row_bound == ROW_BOUNDS[0] else {"row_bound": self.row_bound}

    def checked_regularizer(self) -> "MakeRegularizer | None":
        """The caller's function, whose results are checked."""
        given = self.regularizer
        if given is None:
            return None

        def make(regression: "Regression") -> "Regularizer":
            what = "what the regularizer of a regression has"
            regularizer: Regularizer = has(
                "regularizer(regression)", given(regression), ("estimate", "width"), what
            )
            return regularizer

        return make
