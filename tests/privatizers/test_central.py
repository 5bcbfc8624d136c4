import copy
import math
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from confide.audit.verify import verify
from confide.errors import (
    InvalidParameter,
    PrivacyError,
    PromiseBroken,
    StateError,
    StreamExhausted,
)
from confide.mechanisms.counters import HonakerTree, Leaves, Toeplitz
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import StateFile
from confide.privacy import CentralDP, JointDP, LocalDP, NoPrivacy, PureDP, Trust, billboard
from confide.privacy.bounded import L2Ball
from confide.privacy.certificate import certify
from confide.privacy.loss import loss_for
from confide.privatizers import (
    CentralPrivatizer,
    best_counter,
    custom,
    every_episode,
    geometric,
    release_once,
)

BOUND = L2Ball(1.0, 2)
PRIVACY = JointDP(1.0, 1e-5)
PRIVACY_MU = 0.268051


def make(schedule=None, *, privacy=PRIVACY, seed=0, source="fast", **more):
    noise = noise_source(source, seed if source == "fast" else None)
    return CentralPrivatizer(
        BOUND, schedule or custom([2, 5, 9]), privacy=privacy, noise=noise, **more
    )


def user(i):
    return BOUND.clip(np.array([0.1 * (i % 7), -0.05 * (i % 5)]))


def test_releases_happen_at_the_schedules_times_and_only_then():
    privatizer = make(privacy=NoPrivacy())
    seen = []
    for i in range(9):
        privatizer.absorb(user(i))
        seen.append(privatizer.release().users)
    assert seen == [0, 2, 2, 2, 5, 5, 5, 5, 9]
    total = sum(user(i).values for i in range(9))
    np.testing.assert_allclose(privatizer.release().values, total)


def test_before_the_first_release_there_is_nothing_in_it():
    privatizer = make()
    privatizer.absorb(user(3))
    assert not privatizer.release().values.any()
    assert privatizer.release().noise.std == 0


def test_the_promise_is_central_and_becomes_joint_by_the_billboard():
    guarantee = make().guarantee
    assert guarantee.trust is Trust.CENTRAL
    assert billboard(guarantee).trust is Trust.JOINT
    assert guarantee.epsilon == pytest.approx(1.0)


def test_users_in_batches_are_the_same_as_one_by_one():
    one = make()
    many = make()
    for i in range(9):
        one.absorb(user(i))
    for first, last in ((0, 2), (2, 4), (4, 5), (5, 9)):
        batch = user(first)
        for i in range(first + 1, last):
            batch = batch + user(i)
        many.absorb(batch)
    np.testing.assert_allclose(one.release().values, many.release().values, atol=1e-12)


def test_a_batch_across_a_release_and_a_user_too_many_are_refused():
    privatizer = make()
    privatizer.absorb(user(0))
    with pytest.raises(
        InvalidParameter, match="users 2 to 3 cross the release after user 2: split them there"
    ):
        privatizer.absorb(user(1) + user(2))
    for i in range(8):
        privatizer.absorb(user(i))
    with pytest.raises(StreamExhausted, match="covers 9 users"):
        privatizer.absorb(user(0))


def test_bounds_and_counters_must_fit():
    with pytest.raises(InvalidParameter, match="another bound"):
        make().absorb(L2Ball(3.0, 2).clip(np.ones(2)))
    with pytest.raises(InvalidParameter, match="made for 7 leaves, the schedule has 3"):
        make(counter=Toeplitz(7))


def test_the_best_counter_for_each_kind_of_noise():
    assert best_counter(32, PRIVACY, discrete=False, users=1000) == Toeplitz(32)
    assert best_counter(32, PRIVACY, discrete=True, users=1000) == Toeplitz(32, bits=16)
    assert best_counter(100_000, PRIVACY, discrete=False, users=10**5).name == "buffered"
    assert best_counter(100_000, PRIVACY, discrete=True, users=10**5) == HonakerTree(100_000)
    assert (
        best_counter(100_000, CentralDP(1.0, delta=0.0), discrete=False, users=10**5).name
        == "honaker"
    )  # in L1 the tree wins on long streams
    assert best_counter(1, PRIVACY, discrete=False, users=1).name == "exact"


@pytest.mark.parametrize("source", ["fast", "secure"])
def test_saved_in_the_middle_of_a_batch_it_goes_on(source):
    whole = make(seed=3, source=source)
    first = make(seed=3, source=source)
    for i in range(6):
        whole.absorb(user(i))
        first.absorb(user(i))
    second = make(seed=8, source=source)
    second.restore(first.save(), released=2)
    np.testing.assert_array_equal(second.release().values, first.release().values)
    for i in range(6, 9):
        whole.absorb(user(i))
        second.absorb(user(i))
    difference = np.abs(second.release().values - whole.release().values).max()
    assert difference == 0 if source == "fast" else 0 < difference < 12 * second.noise_std(3)
    with pytest.raises(StateError, match="generation 2, but generation 3"):
        make().restore(first.save(), released=3)
    with pytest.raises(StateError, match="another schedule"):
        make(custom([3, 9, 10])).restore(first.save(), released=0)
    with pytest.raises(InvalidParameter, match="released="):
        make().restore(first.save())


def test_with_a_store_a_rollback_is_refused(tmp_path):
    store = StateFile(tmp_path / "service.state")
    privatizer = make(store=store)
    for i in range(2):
        privatizer.absorb(user(i))
    old = store.read()
    for i in range(2, 5):
        privatizer.absorb(user(i))
    make(store=store).restore(store.read())  # the newest state is fine
    store.path.write_bytes(old)  # somebody puts a backup back
    with pytest.raises(StateError, match="older than generation 2"):
        store.read()
    with pytest.raises(StateError, match="generation 1, but generation 2 was already released"):
        make(store=store).restore(old)


def test_one_store_gives_each_generation_once(tmp_path):
    """A service that forgets to restore, and two that restore the same state, must not noise one
    sum twice.
    """
    store = StateFile(tmp_path / "service.state")
    first = make(store=store)
    for i in range(2):
        first.absorb(user(i))
    with pytest.raises(StateError, match="the store contains generation 1: restore it"):
        make(store=store, seed=5).absorb(user(0))
    twins = [make(store=str(store.path), seed=seed) for seed in (6, 7)]
    for twin in twins:
        twin.restore(store.read())
        for i in range(2, 4):
            twin.absorb(user(i))
    twins[0].absorb(user(4))
    with pytest.raises(StateError, match="must not be drawn twice"):
        twins[1].absorb(user(4))
    with pytest.raises(StateError, match="must not be published"):
        twins[1].release()


def test_it_cannot_be_copied_and_shows_no_values():
    privatizer = make()
    privatizer.absorb(BOUND.clip(np.array([0.123456, 0.0])))
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="noise the same sums twice"):
            way(privatizer)
    assert "0.12" not in repr(privatizer)
    assert "3 releases, 1 users so far" in repr(privatizer)


def test_local_requests_are_refused():
    with pytest.raises(
        PromiseBroken, match="LocalDP was requested, which central trust does not give"
    ):
        make(privacy=LocalDP(1.0, 1e-5))


def test_release_once_is_the_plain_mechanism():
    total = user(1) + user(2)
    exact = release_once(total, privacy=NoPrivacy(), noise=noise_source("fast", 0))
    np.testing.assert_allclose(exact.values, total.values)
    noisy = release_once(total, privacy=CentralDP(1.0, 1e-5), noise=noise_source("fast", 0))
    assert (
        noisy.noise.std == pytest.approx(2 * math.sqrt(3)) and noisy.noise.distribution == "ball"
    )  # 2 / mu = 7.46 for Gaussian noise
    assert noisy.guarantee.loss == PureDP(1.0)
    assert (
        release_once(
            total, privacy=CentralDP(1.0, delta=0.0), noise=noise_source("secure")
        ).noise.distribution
        == "ball"
    )


@pytest.mark.parametrize("source", ["fast", "secure"])
def test_leaves_of_few_numbers_have_pure_noise_and_a_state_from_before_keeps_its_own(source):
    before, after = (
        make(custom([1, 2, 3]), source=source, counter=Leaves(3), loss=loss)
        for loss in (loss_for(PRIVACY), None)
    )
    assert isinstance(
        after.guarantee.loss, PureDP
    ) and after.guarantee.loss.epsilon == pytest.approx(1.0)
    assert after.mechanism().distribution == "ball"
    assert verify(certify(after.guarantee, [after.mechanism()])).epsilon <= 1
    before.absorb(user(0))
    after.restore(before.save(), released=1)
    assert after.guarantee == before.guarantee and after.mechanism() == before.mechanism()
    after.absorb(user(1))
    assert after.release().noise.distribution == "gaussian"


def test_a_draw_that_could_not_be_stored_never_leaves(tmp_path, monkeypatch):
    store = StateFile(tmp_path / "service.state")
    privatizer = make(store=store)
    privatizer.absorb(user(0))
    monkeypatch.setattr(store, "write", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        privatizer.absorb(user(1))
    for attempt in (
        privatizer.release,
        privatizer.save,
        lambda: privatizer.absorb(user(1)),
    ):  # nor can it be saved, or the user come again
        with pytest.raises(StateError, match="must not be published"):
            attempt()


SERVICE = """
    import os, signal, sys, time
    from pathlib import Path
    import numpy as np
    from confide.mechanisms.sources import noise_source
    from confide.mechanisms.state import StateFile
    from confide.privacy import JointDP
    from confide.privacy.bounded import L2Ball
    from confide.privatizers import CentralPrivatizer, every_episode

    source, shown = sys.argv[1], Path("shown")


    def serve(shown=shown, users=60):
        bound, store = L2Ball(1.0, 2), StateFile(shown.with_suffix(".state"))
        noise = noise_source(source, 11 if source == "fast" else None)
        privacy = JointDP(1.0, 1e-5)
        privatizer = CentralPrivatizer(
            bound, every_episode(60), privacy=privacy, noise=noise, store=store
        )
        if store.path.exists():
            privatizer.restore(store.read())
        out = os.open(shown, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for i in range(privatizer.users, users):
            privatizer.absorb(bound.clip(np.array([0.1 * (i % 7), 0.0])))
            release = privatizer.release()
            os.write(out, f"{release.generation} {release.values[0]!r}\\n".encode())


    def lines():
        return len(shown.read_text().splitlines()) if shown.exists() else 0


    serve(Path("first"), users=1)  # imports what children would import one by one
    rng = np.random.default_rng(0 if source == "fast" else 1)
    for _ in range(4):
        target = lines() + int(rng.integers(3, 10))
        service = os.fork()
        if service == 0:
            serve()
            os._exit(0)
        while lines() < target:
            time.sleep(0.001)
        os.kill(service, signal.SIGKILL)
        assert os.waitpid(service, 0)[1] == signal.SIGKILL, "it ended before it was killed"
    serve()
"""


@pytest.mark.parametrize("source", ["fast", "secure"])
def test_killed_again_and_again_a_service_never_shows_two_noises_of_one_sum(tmp_path, source):
    """SIGKILL at random moments: whatever was shown of a generation is shown again with the same
    noise or not at all.
    """
    command = [sys.executable, "-c", textwrap.dedent(SERVICE), source]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=200)
    seen = {}
    for line in (tmp_path / "shown").read_text().splitlines():
        generation, value = line.split()
        assert seen.setdefault(generation, value) == value
    assert "60" in seen


def test_memory_does_not_grow_with_the_episodes():
    privatizer = make(every_episode(20_000))
    privatizer.absorb(user(0))
    early = len(privatizer.save())
    for i in range(1, 5000):
        privatizer.absorb(user(i))
    assert len(privatizer.save()) < early + 100


def test_noise_shrinks_relative_to_the_sum_on_a_schedule():
    privatizer = make(geometric(100_000))
    assert privatizer.noise_std(32) < 1.5 * privatizer.noise_std(1)
    assert math.isclose(privatizer.noise_std(32), 2 / PRIVACY_MU * 2.167, rel_tol=1e-3)
