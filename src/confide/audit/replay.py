"""Replay: neighbouring data sets with the same releases must give the same bytes.

A guarantee covers what goes through a privatizer. Everything else that an agent shows (policies,
batch sizes, questions, memory, messages, descriptions) must be a function of releases. So an agent
is run once, and again with one user's data replaced, while each release is the first run's.
Whatever differs then depends on that user's data past the noise. The exact values that are noised
do differ. Their distance, in units of the noise, must not exceed the stated loss, whatever the
questions were.

In a run of its own the agent is used as a service uses it, and its public surface is read between
users (`surface`).
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from confide.arguments import has, shown, whole
from confide.audit.neighbours import make_empty, make_stranger
from confide.audit.replay_result import CHANNELS, Difference, Replay
from confide.audit.replayed_run import Maker, ReplayedRun, RunSettings
from confide.errors import InvalidParameter
from confide.learning.agent import abilities_of
from confide.mechanisms.sources import FastSource
from confide.privacy.request import Relation
from confide.problems.problem import Problem
from confide.trajectory import Trajectories

# The run of a service has one neighbour for so many of the others, because it looks at the agent
# after each user. A matter of taste.
_NEIGHBOURS_PER_SERVICE_NEIGHBOUR = 4


def replay(make: Maker, problem: Problem, *, neighbours: int = 64, seed: int = 0) -> Replay:
    """Run the agent that `make(noise)` makes on neighbouring data sets, and compare what leaves.

    All runs have the same releases. The first run serves all users of the agent, sampled from the
    problem. In each other run one of them is replaced, by arbitrary data or by data that contribute
    zero. One run on the same data shows what differs anyway.
    """
    if not callable(make):
        raise InvalidParameter(f"make must be a function of a noise source, got make={shown(make)}")
    has("problem", problem, ("public", "sample"), "a problem, such as confide.problems.lock()")
    whole("neighbours", neighbours, at_least=1)
    whole("seed", seed, at_least=0)
    result = _replay(RunSettings(make, problem, seed), neighbours)
    fewer = max(1, neighbours // _NEIGHBOURS_PER_SERVICE_NEIGHBOUR)
    result = result.join(_replay_by_a_service(RunSettings(make, problem, seed), fewer))
    if callable(getattr(problem, "count", None)) and _takes_counts(make):
        # Whatever it declares, an agent that fails here takes no counts: a run on counts would
        # fail, too.
        with contextlib.suppress(Exception):
            on_counts = RunSettings(make, problem, seed, gives_counts=True)
            result = result.join(_replay(on_counts, neighbours))
    return result


def _replay_by_a_service(settings: RunSettings, neighbours: int) -> Replay:
    """With the public surface. An agent that no service can use is still looked at, in batches."""
    with_surface = replace(settings, reads_surface=True)
    try:
        return _replay(replace(with_surface, like_a_service=True), neighbours)
    except Exception as error:
        why = f"the agent fails if a service uses it: {type(error).__name__}"
        result = _replay(with_surface, neighbours)
        return replace(result, left_out={**result.left_out, "use by a service": why})


def _takes_counts(make: Maker) -> bool:
    """Whether the agent also takes transition counts, which simulations give to it.

    It must keep its guarantee on these, too.
    """
    agent = make(FastSource(np.random.default_rng(0)))
    return abilities_of(agent).counts and not agent.guarantee.trust.devices


def _replay(settings: RunSettings, neighbours: int) -> Replay:
    first = ReplayedRun(settings)
    first.go()
    if first.failed is not None:
        raise first.failed
    # Channels that differ between runs on the same data.
    unstable = _different_channels(first, first.again(first.people))
    differences: dict[str, Difference] = {}
    shift = 0.0
    for replaced, person in islice(_replacements(first), neighbours):
        people = [*first.people[:replaced], person, *first.people[replaced + 1 :]]
        other = first.again(people)
        new = [
            difference
            for difference in _differences(first, other, replaced)
            if difference.channel not in differences
        ]
        if new:
            # Only what follows the data counts, so both data sets are run once more.
            unstable |= _different_channels(first, first.again(first.people))
            unstable |= _different_channels(other, first.again(people))
        for difference in new:
            differences.setdefault(difference.channel, difference)
        shift = max(shift, first.share_of_loss(other.tape))
    return _result(first, neighbours, differences, unstable, shift)


def _result(
    first: ReplayedRun,
    neighbours: int,
    differences: dict[str, Difference],
    unstable: set[str],
    shift: float,
) -> Replay:
    own_draws = bool(first.tape.own_draws)
    if own_draws:
        # What became of these draws cannot be replayed.
        decided = []
        undecided = list(CHANNELS)
    else:
        decided = [each for channel, each in differences.items() if channel not in unstable]
        undecided = [channel for channel in first.shown if channel in unstable]
    return Replay(
        neighbours=neighbours,
        users=len(first.people),
        compared={
            channel: len(first.shown[channel]) for channel in CHANNELS if first.shown[channel]
        },
        surface={
            name.removeprefix("agent."): len(values)
            for name, values in first.shown.items()
            if name not in CHANNELS
        },
        left_out=first.left_out | (first.surface.left_out if first.surface else {}),
        differences=tuple(decided),
        shift=shift if first.states_a_loss and not own_draws else None,
        on_grid=first.on_grid,
        undecided=tuple(undecided),
        own_draws=own_draws,
    )


def _different_channels(one: ReplayedRun, other: ReplayedRun) -> set[str]:
    return {difference.channel for difference in _differences(one, other, replaced=0)}


def _differences(one: ReplayedRun, other: ReplayedRun, replaced: int) -> Iterator[Difference]:
    """The first difference of each channel."""
    for channel in {**one.shown, **other.shown}:
        values = one.shown.get(channel, [])
        other_values = other.shown.get(channel, [])
        if values != other_values:
            pairs = enumerate(zip(values, other_values, strict=False))
            shorter = min(len(values), len(other_values))
            first = next((place for place, (a, b) in pairs if a != b), shorter)
            served, _ = (values[first:] or other_values[first:])[0]
            yield Difference(channel, replaced, served)


def _replacements(first: ReplayedRun) -> Iterator[tuple[int, Trajectories]]:
    """Neighbours, without end: which user is replaced, and by whom.

    Users are replaced one after the other in a random order, by arbitrary data or by data that
    contribute zero in turn. Each order begins with the other kind.
    """
    settings = first.settings
    rng = np.random.default_rng([settings.seed, 4])
    only_empty = first.agent.guarantee.relation is Relation.NULL
    orders = 0
    while True:
        for turn, user in enumerate(rng.permutation(len(first.people))):
            person = first.people[user]
            if only_empty or (turn + orders) % 2:
                yield int(user), make_empty(person)
            else:
                yield int(user), make_stranger(person, settings.problem, rng)
        orders += 1
