"""The errors and warnings of confide.

An error says what was expected, what came and what to do. An error message is a release: about
private data it may name columns, shapes and types, and never values.

Class names and their base classes are public, because programs catch them. Texts can be changed
freely, except that tests compare parts of them.
"""

CHARGED = (
    "The ledger was charged before this error. "
    "Fix the cause and repeat the same release, at no further cost."
)


class ConfideError(Exception):
    """The base class of confide's errors.

    The command line prints them in one line and exits with 2.
    """


class ConfideWarning(UserWarning):
    """The base class of confide's warnings.

    Their texts depend only on public parameters and releases.
    """


class GainBoundWarning(ConfideWarning):
    """The bound on gains limits the controller."""


class ClippedWeightsWarning(ConfideWarning):
    """Clipping removes a large part of the importance weights, so that the estimate is biased."""


class InvalidParameter(ConfideError, ValueError):
    """A public argument has a wrong type or is out of its range.

    `parameter` is its name in Python, if the error is about one.
    """

    def __init__(self, message: str = "", *, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter
        # The parts of the message, from which `about` writes it for another name.
        self.problem = ""
        self.got: str | None = None
        self.advice = ""

    @classmethod
    def of(
        cls, parameter: str, problem: str, *, got: str | None = None, advice: str = ""
    ) -> "InvalidParameter":
        """Make the error from its parts.

        For example, `of("epsilon", "must be positive", got="-1.0")` has the text
        "epsilon must be positive, got epsilon=-1.0".
        """
        value = "" if got is None else f", got {parameter}={got}"
        error = cls(f"{parameter} {problem}{value}{advice}", parameter=parameter)
        error.problem = problem
        error.got = got
        error.advice = advice
        return error

    def about(self, option: str) -> str:
        """The text of this error, with the option of the command line instead of the parameter."""
        if not self.problem:
            return str(self)
        value = "" if self.got is None else f", got {option} {self.got}"
        return f"{option} {self.problem}{value}{self.advice}"


class MissingExtra(ConfideError, ImportError):
    """An optional part of confide is not installed."""


class LogError(ConfideError):
    """Data cannot be read as a log.

    The text names files, row groups, columns and types, and never values.
    """


class ExecutionError(ConfideError):
    """A process or machine failed, and a retry failed too.

    `item` is the piece of work that was lost, where it is known.
    """

    item: object = None


class PrivacyError(ConfideError):
    """The operation would violate a privacy guarantee."""


class PromiseBroken(PrivacyError):
    """The noise gives a larger epsilon than requested."""


class InvalidDocument(PrivacyError):
    """What a service sent does not follow its format, or is more than a device should hold.

    The device sends nothing.
    """


class StaleMessage(InvalidParameter):
    """A device planned with a release that is no longer current."""


class AnotherRound(StaleMessage):
    """A device answered another round than the server planned from the same release.

    Nothing is counted.
    """


class DuplicateMessage(InvalidParameter):
    """A device's message was already absorbed."""


class BatchNotOpened(PrivacyError):
    """More devices dropped out than the guarantee allows.

    Nothing of their batch is released, and its users are not counted.
    """


class StreamExhausted(PrivacyError):
    """The guarantee covers no more contributions."""


class StateError(PrivacyError):
    """A saved state is damaged, of another kind or older than what was already released."""


class SignatureError(PrivacyError):
    """A document of a service is not signed by its run, or does not follow the one before it."""


class StoreError(ConfideError):
    """The database of a service cannot be read or written.

    Nothing of the last transaction is in it.
    """


class CertificateError(PrivacyError):
    """A certificate does not follow its schema, or its numbers are inconsistent."""


class LedgerError(PrivacyError):
    """The ledger file cannot be used, or a spend contradicts its contents."""


class BudgetExceeded(LedgerError):
    """The remaining budget is too small. Nothing was spent and nothing was released."""

    def __init__(self, requested: str, remaining: str) -> None:
        super().__init__(
            f"the budget does not cover this release: requested {requested}, left {remaining}"
        )
        self.requested = requested
        self.remaining = remaining

    def __reduce__(self) -> tuple[type["BudgetExceeded"], tuple[str, str]]:
        """How the error is made again in another process, whose constructor takes two texts."""
        return type(self), (self.requested, self.remaining)
