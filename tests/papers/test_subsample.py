"""The publication of a few users' data that shows how weak a large delta is."""

import numpy as np
import pytest

import confide
from confide.errors import InvalidParameter
from confide.logs import in_memory
from confide.privacy.request import NoPrivacy
from confide.trajectory import LoggedUsers
from papers.balle16.subsample import Subsample

pytestmark = pytest.mark.long

USERS = 3000
STATES = 3
SUBSAMPLE = Subsample(states=STATES, return_bound=1.0)
PRIVACY = confide.CentralDP(1.0, 2e-3)


def people():
    """Each user is in one state and earns a number that nobody else earns."""
    rows = np.arange(USERS)
    return LoggedUsers(
        rows % STATES,
        rows / USERS,
        np.arange(USERS + 1),
        np.arange(USERS + 1),
        np.ones(USERS, dtype=bool),
    )


class Cut:
    """The same users in blocks of 700."""

    assumptions = ()

    def blocks(self):
        data = people()
        for first in range(0, USERS, 700):
            size = min(700, USERS - first)
            rows = slice(first, first + size)
            yield LoggedUsers(
                data.states[rows],
                data.rewards[rows],
                np.arange(size + 1),
                np.arange(size + 1),
                np.ones(size, dtype=bool),
            )


def release(log, seed=3):
    with pytest.warns(confide.release.DeltaWarning):
        return SUBSAMPLE.release(log, privacy=PRIVACY, rng=np.random.default_rng(seed))


def test_who_is_chosen_does_not_depend_on_blocks():
    assert (release(Cut()).values == release(in_memory(people())).values).all()
    assert (release(Cut()).values != release(Cut(), seed=4).values).any()


def test_the_average_of_the_chosen_users_is_published():
    data = people()
    everybody = confide.CentralDP(1.0, 1 - 1e-12)
    with pytest.warns(confide.release.DeltaWarning):
        estimate = SUBSAMPLE.release(
            in_memory(data), privacy=everybody, rng=np.random.default_rng(3)
        )
    assert estimate.values == pytest.approx(
        [data.rewards[data.states == state].mean() for state in range(STATES)]
    )
    assert (
        estimate.certificate is None
        and estimate.guarantee.epsilon == 0
        and estimate.guarantee.delta == everybody.delta
    )


def test_states_of_nobody_who_is_chosen_are_in_the_middle():
    estimate = SUBSAMPLE.release(
        in_memory(people()), privacy=confide.CentralDP(1.0, 1e-12), rng=np.random.default_rng(3)
    )
    assert (estimate.values == 0.5).all()


def test_what_it_counts():
    assert "only users who are chosen count; returns are clipped to [0, 1]" in SUBSAMPLE.counted(
        2, 9
    )


@pytest.mark.parametrize("privacy", [confide.CentralDP(1.0, delta=0.0), NoPrivacy()])
def test_without_delta_there_is_nothing_to_publish(privacy):
    with pytest.raises(InvalidParameter, match="publishes each user with probability delta"):
        SUBSAMPLE.release(in_memory(people()), privacy=privacy, rng=np.random.default_rng(0))
