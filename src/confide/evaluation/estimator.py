"""What all estimators are: questions to a log whose answer is an estimate of values."""

from confide.evaluation.estimate import ValueEstimate
from confide.release.question import LogQuestion


class Estimator(LogQuestion[ValueEstimate]):
    """A question about the values of a policy. Its answer is stored in a ledger as bytes."""

    __slots__ = ()
    noun = "estimate"

    @property
    def about(self) -> str:
        """In words, what the intervals hold with the probability that they state."""
        return "the true value"

    def read_answer(self, data: bytes) -> ValueEstimate:
        return ValueEstimate.from_bytes(data)
