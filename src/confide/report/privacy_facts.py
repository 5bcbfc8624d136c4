"""What the pages of one estimate or one policy say about their guarantee."""

import math

from confide.privacy import words
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust


def short_guarantee(guarantee: Guarantee) -> str:
    """Epsilon and delta in a few characters, the same numbers as in the full guarantee."""
    if guarantee.trust is Trust.NONE:
        return words.NO_PRIVACY
    epsilon, delta = guarantee.stated
    return f"ε = {epsilon:.4g}, δ = {words.format_delta(delta)}"


def privacy_card(guarantee: Guarantee) -> list[tuple[str, str, str]]:
    """(heading, large, text): what is revealed about one user; nothing without privacy."""
    if guarantee.trust is Trust.NONE:
        return []
    epsilon, delta = guarantee.stated
    text = (
        f"If any one user’s data were replaced by {words.INSTEAD[guarantee.relation]}, "
        "the probability of anything on this page would change by at most the factor "
        f"e^ε = {math.exp(epsilon):.3g}, plus δ = {words.format_delta(delta)}."
    )
    return [("Revealed about one user", f"ε = {epsilon:.4g}", text)]


def privacy_facts(guarantee: Guarantee, consequence: str) -> list[tuple[str, str]]:
    """(heading, text) for the panel about privacy. `consequence` is the guarantee as a sentence."""
    return [
        ("Who is protected", "Each user in the log, with all trajectories that are used."),
        ("Against whom", words.AGAINST[guarantee.trust]),
        ("Who must be trusted", words.TRUSTED[guarantee.trust]),
        ("What it means", consequence),
    ]
