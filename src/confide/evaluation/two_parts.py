"""Two questions to one log on one budget: first the estimate, then how far sampling may have moved it."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confide.evaluation.asker import Asker, Logs, Progress
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.estimator import Estimator, check_noise
from confide.evaluation.parameters import keep, keep_returns, real
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Bound
from confide.privacy.request import Request

BANDS = 12  # of residuals: norms from the worst case down to 1/2048 of it


@dataclass(frozen=True, slots=True)
class Returns:
    """The public range of returns, centre +- radius: from `return_bound`, [0, return_bound] unless a centre is given."""

    centre: float
    radius: float


Questions = tuple[Sequence[Bound], Callable[[Asker], ValueEstimate]]


class AsksTwice(Estimator):
    """An estimator that asks the log once for the estimate and once for how far sampling may have moved it: charged once, for both."""

    __slots__ = ()
    discount: float
    return_bound: float
    centre: float | None
    interval_share: float

    def _keep_shared(self) -> None:
        """Check the public parameters that all estimators with two questions have."""
        keep_returns(self)
        keep(self, interval_share=real("interval_share", self.interval_share, "in [0, 0.9]", lambda x: 0 <= x <= 0.9))

    @property
    def _returns(self) -> Returns:
        return Returns(self.return_bound / 2 if self.centre is None else self.centre, self.return_bound / 2)

    @property
    def _range(self) -> str:
        returns = self._returns
        return f"[{returns.centre - returns.radius:g}, {returns.centre + returns.radius:g}]"

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
