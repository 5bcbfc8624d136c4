"""Numbers formatted for reading."""

import math
from collections.abc import Sequence


def number(value: float, digits: int = 3) -> str:
    """A number with few digits, and without an exponent unless it is tiny or huge."""
    if not math.isfinite(value):
        return "unknown"
    if value and not 1e-3 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    rounded = float(f"{value:.{digits}g}")
    return count(rounded) if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def percent(share: float) -> str:
    """A share in percent. Less than all of it is never shown as 100 %."""
    if 0.9995 <= share < 1 - 1e-9:
        return ">\u202f99.9\u202f%"
    if abs(share) < 1e-9:
        return "0\u202f%"
    if 0 < share < 1e-4:
        return "<\u202f0.01\u202f%"
    if abs(share) >= 9.995:
        return f"{count(100 * share)}\u202f%"
    digits = 3 if abs(share) >= 0.1 else 2
    return f"{100 * share:.{digits}g}\u202f%"


def in_words(share: str) -> str:
    return share.replace(">\u202f", "more than ").replace("<\u202f", "less than ")


def probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def count(value: float) -> str:
    """A whole number with separated thousands, such as 100,000."""
    return f"{value:,.0f}"


def many(value: int, what: str) -> str:
    return f"{count(value)} {what if value == 1 else what + 's'}"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
