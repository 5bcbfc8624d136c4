"""The errors and warnings of confide.

An error says what was expected, what came and what to do. About private data it may name columns, shapes and types,
never values: an error message is a release.
"""

CHARGED = "The ledger was charged before this error. Fix the cause and repeat the same release, at no further cost."


class ConfideError(Exception):
    """The base class of confide's errors. The command line prints them in one line and exits with 2."""


class ConfideWarning(UserWarning):
    """The base class of confide's warnings. Their texts depend only on public parameters and releases."""


class GainBoundWarning(ConfideWarning):
    """The bound on gains limits the controller."""


class ClippedWeightsWarning(ConfideWarning):
    """Clipping removes a large part of the importance weights, so that the estimate is biased."""


class InvalidParameter(ConfideError, ValueError):
    """A public argument has a wrong type or is out of its range. `parameter` is its name in Python, if one is meant."""

    def __init__(self, message: str = "", *, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter
        # What is wrong with the parameter, and its value, apart from its name.
        self.problem = ""
        self.got: str | None = None
        self.advice = ""

    @classmethod
    def of(
        cls, parameter: str, problem: str, *, got: str | None = None, advice: str = ""
    ) -> "InvalidParameter":
        """For example `of("epsilon", "must be positive", got="-1.0")`: epsilon must be positive, got epsilon=-1.0."""
        value = "" if got is None else f", got {parameter}={got}"
        error = cls(f"{parameter} {problem}{value}{advice}", parameter=parameter)
        error.problem, error.got, error.advice = problem, got, advice
        return error

    def about(self, option: str) -> str:
        """The same about the option of the command line that the parameter was given by."""
        if not self.problem:
            return str(self)
        value = "" if self.got is None else f", got {option} {self.got}"
        return f"{option} {self.problem}{value}{self.advice}"


class MissingExtra(ConfideError, ImportError):
    """An optional part of confide is not installed."""


class LogError(ConfideError):
    """Data cannot be read as a log. The text names files, row groups, columns and types, never values."""


class ExecutionError(ConfideError):
    """A process or machine failed, and a retry failed too. `item` is the lost piece of work, where it is known."""

    item: object = None


class PrivacyError(ConfideError):
    """The operation would violate a privacy guarantee."""


class PromiseBroken(PrivacyError):
    """The noise gives a larger epsilon than requested."""


class InvalidDocument(PrivacyError):
    """What a service sent is not what its format says, or more than a device should hold. Nothing is sent."""


class StaleMessage(InvalidParameter):
    """A device planned with a release that is no longer current."""


class AnotherRound(StaleMessage):
    """A device answered another round than the server planned from the same release. Nothing is counted."""


class DuplicateMessage(InvalidParameter):
    """A device's message was already absorbed."""


class BatchNotOpened(PrivacyError):
    """More devices dropped out than the guarantee allows: nothing of their batch is released, and its users are not counted."""


class StreamExhausted(PrivacyError):
    """The guarantee covers no more contributions."""


class StateError(PrivacyError):
    """A saved state is damaged, of another kind or older than what was already released."""


class SignatureError(PrivacyError):
    """A document of a service is not signed by a key of its run, or does not follow the one before it."""


class StoreError(ConfideError):
    """The database of a service cannot be read or written; nothing of the last transaction is in it."""


class CertificateError(PrivacyError):
    """A certificate does not follow its schema, or its numbers are inconsistent."""


class LedgerError(PrivacyError):
    """The ledger file cannot be used, or a spend contradicts its contents."""


class BudgetExceeded(LedgerError):
    """The remaining budget is too small; nothing was spent and nothing was released."""

    def __init__(self, requested: str, remaining: str) -> None:
        super().__init__(
            f"the budget does not cover this release: requested {requested}, left {remaining}"
        )
        self.requested, self.remaining = requested, remaining

    def __reduce__(self) -> tuple[type["BudgetExceeded"], tuple[str, str]]:
        return type(self), (self.requested, self.remaining)
