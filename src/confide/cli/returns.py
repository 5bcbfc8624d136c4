"""The public range of returns, from the options of a command.

There is no default, because a default would clip returns without a word.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer


@dataclass(frozen=True, slots=True)
class RangeOfReturns:
    """The range of returns as an estimator takes it, and where it comes from."""

    # The width of the range.
    return_bound: float
    # Its centre; None if the range starts at zero.
    centre: float | None
    # A clause for the result.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnOptions:
    """The public range of rewards or of returns."""

    PANEL: ClassVar = "Range of returns (one of these is required)"

    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Public range of one reward. The range of returns follows from it, --max-steps "
            "and --discount.",
            show_default=False,
        ),
    ] = None
    return_bound: Annotated[
        float | None,
        typer.Option(
            help="Public bound on returns, instead of --reward-range: returns are clipped to "
            "[0, bound].",
            show_default=False,
        ),
    ] = None

    def range(
        self, centre: float | None, *, steps: int, discount: float, has_centre: bool
    ) -> RangeOfReturns:
        """The range of returns. A range that the options do not determine is refused.

        `has_centre` says whether the estimator has the option --centre.
        """
        from confide.errors import InvalidParameter
        from confide.evaluation.range_of_returns import range_of_returns

        if self.reward_range is None and self.return_bound is None:
            raise InvalidParameter(
                "the range of returns is not known: give --reward-range LOW HIGH, "
                "the public range of one reward, or --return-bound, a public bound on returns"
            )
        if self.reward_range is None:
            assert self.return_bound is not None
            reason = _reason_for_bound(self.return_bound, centre)
            return RangeOfReturns(self.return_bound, centre, reason)
        if self.return_bound is not None or centre is not None:
            other = "--return-bound" if self.return_bound is not None else "--centre"
            raise InvalidParameter(
                f"give --reward-range or {other}, not both: "
                "the range of returns follows from that of rewards"
            )
        low, high, reason = range_of_returns(self.reward_range, steps, discount)
        if has_centre:
            return RangeOfReturns(high - low, None if low == 0 else (low + high) / 2, reason)
        if low < 0:
            raise InvalidParameter(
                "this estimator takes returns from zero on, and rewards may be negative: "
                "add a constant to all rewards, or use --estimator counts-and-sums"
            )
        return RangeOfReturns(high, None, reason)


def _reason_for_bound(return_bound: float, centre: float | None) -> str:
    low = 0.0 if centre is None else centre - return_bound / 2
    return (
        f"returns outside [{low:g}, {low + return_bound:g}] are clipped to this range, "
        "which --return-bound gave: if some are outside, values are wrong, "
        "and no interval covers that"
    )
