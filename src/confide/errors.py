"""Everything confide raises on purpose.

An error says what was expected, what came and what to do. About private data it may name columns, shapes and types,
never values: an error message is a release.
"""


class ConfideError(Exception):
    """The root of confide's own errors; the command line prints them in one line and exits with 2."""


class ConfideWarning(UserWarning):
    """Something that is allowed, and that somebody should know. Made from public parameters and releases alone."""


class GainBoundWarning(ConfideWarning):
    """A controller would use longer gains than the bound on them allows."""


class ClippedWeightsWarning(ConfideWarning):
    """A clip takes off a large part of the importance weights, so that the estimate is about another policy."""


class InvalidParameter(ConfideError, ValueError):
    """A public parameter is out of its range."""


class MissingExtra(ConfideError, ImportError):
    """An optional part of confide is not installed."""


class LogError(ConfideError):
    """Logged data cannot be read as a log; the text names files, row groups, columns and types, never a value."""


class ExecutionError(ConfideError):
    """Work was lost: a process or a machine died, and doing it again did not help. `item` is the piece, where it is known."""

    item: object = None


class PrivacyError(ConfideError):
    """Going on would break a promise."""


class PromiseBroken(PrivacyError):
    """The noise gives a larger epsilon than was asked for."""


class StaleMessage(InvalidParameter):
    """A device planned with a release that is not the current one any more."""


class DuplicateMessage(InvalidParameter):
    """A device's message that was absorbed before."""


class StreamExhausted(PrivacyError):
    """The guarantee covers no more contributions."""


class StateError(PrivacyError):
    """A saved state is damaged, of another kind or older than what was already released."""


class CertificateError(PrivacyError):
    """A certificate does not follow its schema, or its numbers do not add up."""


class LedgerError(PrivacyError):
    """The ledger file cannot be used, or a spend contradicts what it holds."""


class BudgetExceeded(LedgerError):
    """The ledger has too little left; nothing was spent and nothing was released."""

    def __init__(self, requested: str, remaining: str) -> None:
        super().__init__(f"the budget does not cover this release: requested {requested}, left {remaining}")
        self.requested, self.remaining = requested, remaining

    def __reduce__(self) -> tuple[type["BudgetExceeded"], tuple[str, str]]:
        return type(self), (self.requested, self.remaining)
