"""What all estimators are: questions to a log whose answer is an estimate of values."""

from confide.evaluation.estimate import ValueEstimate
from confide.release.question import LogQuestion


class Estimator(LogQuestion[ValueEstimate]):
    """A question about the values of a policy."""

    __slots__ = ()
    noun = "estimate"

    @property
    def about(self) -> str:
        """What its intervals hold with the probability that they state."""
        return "the true value"

    def read_answer(self, data: bytes) -> ValueEstimate:
        return ValueEstimate.from_bytes(data)
