"""Two questions to one log on one budget: first the estimate, then how far sampling may have moved it."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.evaluation.asker import Asker, Logs, Progress
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.estimator import Estimator, check_noise
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Bound
from confide.privacy.request import Request


@dataclass(frozen=True, slots=True)
class Returns:
    """The public range of returns, centre +- radius: from `return_bound`, [0, return_bound] unless a centre is given."""

    centre: float
    radius: float


def returns_within(discount: float, return_bound: float, centre: float | None, interval_share: float) -> Returns:
    """Checks the public parameters that all estimators with two questions have."""
    if not 0 <= discount <= 1:
        raise InvalidParameter(f"discount must be in [0, 1], got discount={discount}")
    if not 1e-50 < return_bound < 1e50:
        raise InvalidParameter(f"return_bound must be positive and finite, got return_bound={return_bound}")
    if not (centre is None or abs(centre) < 1e50):
        raise InvalidParameter(f"centre must be finite, got centre={centre}")
    if not 0 <= interval_share <= 0.9:
        raise InvalidParameter(f"interval_share must be in [0, 0.9], got interval_share={interval_share}")
    return Returns(return_bound / 2 if centre is None else float(centre), return_bound / 2)


Questions = tuple[Sequence[Bound], Callable[[Asker], ValueEstimate]]


class AsksTwice(Estimator):
    """An estimator that asks the log once for the estimate and once for how far sampling may have moved it: charged once, for both."""

    __slots__ = ()
    discount: float
    return_bound: float
    centre: float | None
    interval_share: float

    @property
    def _returns(self) -> Returns:
        return returns_within(self.discount, self.return_bound, self.centre, self.interval_share)

    @abstractmethod
    def _questions(self, logs: Logs, privacy: Request) -> Questions:
        """The bounds of what will be asked, and the asking; whatever can be refused without the data is refused here."""

    def _prepare(
        self, logs: Logs, privacy: Request, source: NoiseSource, progress: Progress | None
    ) -> Callable[[], ValueEstimate]:
        bounds, estimate = self._questions(logs, privacy)
        for bound in bounds:
            check_noise(bound, privacy, source)
        return lambda: estimate(Asker(logs, privacy=privacy, source=source, progress=progress))
