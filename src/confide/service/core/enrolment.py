"""Who is expected in a batch of a run with deadlines: people are enrolled before the batch closes.

A report needs a place in the open batch, and a place takes one report. A batch never has more
places than the learner closes it with. So the sum of a batch is never of more people than its
release and its guarantee are made for. This limit is required for privacy.
"""

from collections.abc import Sequence

from confide.errors import InvalidParameter, StoreError
from confide.privatizers import Schedule
from confide.service.core.live import LiveRun
from confide.service.store.interface import BatchPlace, Transaction


def enrol_people(tx: Transaction, run: LiveRun, subjects: Sequence[str], generation: int) -> int:
    """Give these people places in a batch, and return how many of them had none before.

    All of them are refused if the batch is closed, or if it has fewer places than people.
    """
    open_generation = tx.hold(run.name, alone=True).generation
    if generation < open_generation:
        raise InvalidParameter(
            f"batch {generation} is closed: enrol people into batch {open_generation}, "
            "which is open, or into a later one"
        )
    places = _places_in_batch(run, generation, open_generation)
    people = {run.pseudonyms.who(subject) for subject in subjects}
    enrolled_before = tx.places_of(run.name, sorted(people))
    new_people = sorted(people - set(enrolled_before))
    tx.take_places(run.name, [(who, BatchPlace(0, generation, None)) for who in new_people])
    if tx.count_enrolled(run.name, generation) > places:
        raise InvalidParameter(
            f"batch {generation} has {places} places, which are too few for these people. "
            "Enrol fewer, or enrol them into a later batch"
        )
    return len(new_people)


def _places_in_batch(run: LiveRun, generation: int, open_generation: int) -> int:
    """Return how many people may be enrolled: as many as the release of the batch is made for."""
    schedule = run.learner.schedule
    if isinstance(schedule, Schedule):
        return schedule.size(generation)
    if generation > open_generation:
        raise InvalidParameter(
            f"the size of batch {generation} is decided by release {generation}, which is not out "
            f"yet: enrol people once the release is out, got generation={generation} while "
            f"batch {open_generation} is open"
        )
    if run.generation != open_generation or not run.planned:
        raise StoreError(
            f"the round of release {open_generation} is being planned: send the request again"
        )
    return run.size
