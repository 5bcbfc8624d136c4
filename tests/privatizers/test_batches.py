"""One class keeps the open batch of every trust model, and a new way to make releases is one class
and one line.
"""

import math
import os
from typing import ClassVar

import numpy as np
import pytest

import confide
from confide import agents, privatizers
from confide.errors import InvalidParameter, StateError, StreamExhausted
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact
from confide.mechanisms.sources import noise_source
from confide.privacy import JointDP, Trust
from confide.privacy.bounded import Bounded, L2Ball, NoiseLevel, Released, clip_sum
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import loss_for
from confide.privacy.request import Relation
from confide.privatizers import AtMost, Batches, CentralPrivatizer, custom, every
from confide.privatizers.batches import check_clipped_by
from confide.problems import lock

BALL = L2Ball(1.0, 2)
PRIVACY = JointDP(1.0, 1e-5)


class FreshNoise:
    """A privatizer of a test: each batch gets noise of its own, and a release is the sum of the
    noisy batches.
    """

    devices: ClassVar[bool] = False
    resumes_batch: ClassVar[bool] = True
    modulus = None

    def __init__(self, bound, schedule, privacy, noise):
        self.bound = bound
        self._source = noise.fork()
        self._added = additive_noise(
            bound,
            loss_for(privacy),
            Relation(privacy.relation),
            Exact(1),
            discrete=noise.discrete,
            users=schedule.users,
        )
        self.guarantee = Guarantee(
            self._added.loss(), privacy, Trust.CENTRAL, schedule.users, noise.name
        )
        self._sum = np.zeros(bound.size)

    def open(self, bound):
        pass

    def check(self, contribution):
        check_clipped_by(self.bound, contribution)

    def join(self, contribution, _size):
        return contribution.values

    def check_total(self, total, users):
        return clip_sum(total, self.bound, users).values

    def close(self, total, _users, _absent):
        exact = total if self._added.step is None else self._added.to_lattice(total)
        self._sum = self._sum + self._added.add(exact[None], self._source)[0]

    def release(self, users, generation):
        level = NoiseLevel(self._added.std * math.sqrt(generation), "gaussian")
        return Released(self._sum.copy(), level, self.guarantee, users, generation)

    def mechanisms(self, _simulated):
        added = self._added
        return [
            Mechanism(
                "exact",
                added.distribution,
                added.norm,
                added.sensitivity,
                added.scale,
                {"leaves": 1},
                lattice=added.step,
                bound=describe(self.bound),
            )
        ]

    def settings(self):
        return self._source.name

    def state(self):
        return {"source": self._source.state()}, {"sum": self._sum}

    def restore(self, facts, arrays, *, generation, resume):  # noqa: ARG002
        self._sum = arrays["sum"]
        self._source.restore(facts["source"])


class FreshPrivatizer(Batches):
    def __init__(self, bound, schedule, *, privacy, noise, counter=None, loss=None):  # noqa: ARG002
        super().__init__(FreshNoise(bound, schedule, privacy, noise), schedule)


def test_a_new_privatizer_is_one_class_and_one_line(monkeypatch):
    monkeypatch.setitem(privatizers.PRIVATIZERS, JointDP, FreshPrivatizer)
    world = lock(0, states=5, actions=2, horizon=3, jump=2)

    def agent():
        return agents.UCRLVTR(
            world.public,
            episodes=60,
            privacy=PRIVACY,
            schedule=every(20, 60),
            noise=noise_source("fast", 1),
        )

    with pytest.raises(InvalidParameter, match="give it a class method expected_noise"):
        confide.explain(agent())
    run = confide.run(agent(), world, seed=3)
    assert run.episodes == 60 and run.guarantee.request == PRIVACY
    one = agent()
    other = agent()
    rng = np.random.default_rng(0)
    users = [world.sample(one.next_batch().policy, 10, rng) for _ in range(3)]
    for part in users[:2]:
        one.observe(part)
    assert one.noise_level.std == pytest.approx(one._privatizer._noise._added.std)
    one.next_batch()
    one.observe(users[2])
    other.restore(one.save(), released=1)
    for each in (one, other):
        each.next_batch()
        each.observe(users[0])
    assert other.released().values.tobytes() == one.released().values.tobytes()


def central(**options):
    return CentralPrivatizer(
        BALL, custom([2, 5]), privacy=PRIVACY, noise=noise_source("fast", 0), **options
    )


def test_no_user_is_added_beyond_the_guarantee():
    """A service may close a batch of any size: then fewer users are left than the schedule's next
    batch has.
    """
    privatizer = central()
    privatizer.close(np.zeros(2), 4)
    assert privatizer.batch == (4, 5) and not privatizer.is_exhausted
    with pytest.raises(InvalidParameter, match="users 5 to 6 cross the release after user 5"):
        privatizer.absorb(Bounded(np.zeros(2), BALL, 2))
    privatizer.absorb(Bounded(np.zeros(2), BALL, 1))
    assert privatizer.users == 5 and privatizer.generation == 2 and privatizer.is_exhausted
    privatizer = central()
    privatizer.close(np.zeros(2), 5)
    with pytest.raises(StreamExhausted, match="covers 5 users, and all were absorbed"):
        privatizer.absorb(Bounded(np.zeros(2), BALL, 1))


def test_an_exception_within_a_batch_leaves_it_unusable(monkeypatch):
    """Its users may be in the sum already: they must neither come again nor be released."""
    privatizer = central()
    monkeypatch.setattr(
        privatizer._noise.counter, "absorb", lambda _: (_ for _ in ()).throw(MemoryError())
    )
    privatizer.absorb(Bounded(np.zeros(2), BALL, 1))
    with pytest.raises(MemoryError):
        privatizer.absorb(Bounded(np.zeros(2), BALL, 1))
    for attempt in (
        privatizer.release,
        privatizer.save,
        privatizer.close,
        lambda: privatizer.absorb(Bounded(np.zeros(2), BALL, 1)),
    ):
        with pytest.raises(StateError, match="restore the saved state"):
            attempt()


def test_the_size_of_a_schedules_batch_is_not_decided_again():
    privatizer = central()
    privatizer.open(BALL, 1)
    assert privatizer.batch == (0, 2)
    rounds = CentralPrivatizer(BALL, AtMost(5, 2), privacy=PRIVACY, noise=noise_source("fast", 0))
    with pytest.raises(StateError, match="no round is open"):
        _ = rounds.batch


@pytest.mark.process
def test_a_privatizer_that_a_fork_copied_with_users_does_not_go_on():
    """Both copies would noise the same two users, with different noise if it is secure."""
    privatizer = CentralPrivatizer(BALL, every(3, 3), privacy=PRIVACY, noise=noise_source("secure"))
    bounded = Bounded(np.zeros(2), BALL, users=1)
    for _ in range(2):
        privatizer.absorb(bounded)
    for change in (lambda: privatizer.absorb(bounded), privatizer.close):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                change()
            except StateError as error:
                status = 17 if "a fork copied this" in str(error) else 1
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    privatizer.absorb(bounded)
    assert privatizer.generation == 1
