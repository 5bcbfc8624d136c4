"""Under which guarantees rows are compared."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from confide.identity import identify
from confide.privacy import words
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import Trust


@dataclass(frozen=True, slots=True)
class Promise:
    """As many facts of a guarantee as tell the rows of one agent apart."""

    # None: no privacy.
    epsilon: float | None
    trust: Trust | None = None
    delta: float | None = None
    guarantee: Guarantee | None = None

    @property
    def private(self) -> bool:
        return self.epsilon is not None

    @property
    def key(self) -> str:
        """A name for programs, different for different promises."""
        facts = [self.epsilon, self.trust, self.delta]
        name = "-".join("none" if fact is None else str(fact) for fact in facts)
        return name if self.guarantee is None else f"{name}-{identify(self.guarantee.to_json())}"

    def __str__(self) -> str:
        if self.guarantee is not None:
            return words.guarantee(self.guarantee)
        if self.trust is not None and self.delta is not None:
            return words.long_label(self.epsilon, self.trust, self.delta)
        return words.label(self.epsilon)


OPEN = Promise(None)


def tell_apart(rows: Sequence[tuple[str, str, Guarantee]]) -> list[Promise]:
    """The promise of each row (problem, agent, guarantee), with as few facts as possible."""
    promises: dict[int, Promise] = {}
    ambiguous = dict(enumerate(rows))
    for describe in (_by_epsilon, _by_trust, _by_everything):
        for place, (_, _, guarantee) in ambiguous.items():
            promises[place] = describe(guarantee)
        names = Counter((*row[:2], promises[place]) for place, row in enumerate(rows))
        ambiguous = {
            place: row for place, row in ambiguous.items() if names[*row[:2], promises[place]] > 1
        }
    return [promises[place] for place in range(len(rows))]


def _by_epsilon(guarantee: Guarantee) -> Promise:
    return OPEN if guarantee.trust is Trust.NONE else Promise(guarantee.request.epsilon)


def _by_trust(guarantee: Guarantee) -> Promise:
    if guarantee.trust is Trust.NONE:
        return OPEN
    return Promise(guarantee.request.epsilon, guarantee.trust, guarantee.delta)


def _by_everything(guarantee: Guarantee) -> Promise:
    if guarantee.trust is Trust.NONE:
        return Promise(None, guarantee.trust, None, guarantee)
    return Promise(guarantee.request.epsilon, guarantee.trust, guarantee.delta, guarantee)
