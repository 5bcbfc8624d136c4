"""One suite for every counter, over every kind of noise that it takes."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.mechanisms.counters import (
    Buffered,
    Counter,
    Discounted,
    Exact,
    HonakerTree,
    Toeplitz,
    Tree,
    dense,
)
from confide.mechanisms.sources import noise_source
from confide.privacy import CentralDP, GaussianDP, NoPrivacy, PureDP, loss_for
from confide.privacy.bounded import Bounded, L2Ball

KINDS = {
    "exact": Exact,
    "tree": Tree,
    "honaker": HonakerTree,
    "toeplitz": Toeplitz,
    "toeplitz-16-bits": lambda leaves: Toeplitz(leaves, bits=16),
    "buffered": Buffered,
    "discounted": Discounted,
    "discounted-16-bits": lambda leaves: Discounted(leaves, bits=16),
}
WHOLE = [name for name in KINDS if name not in ("toeplitz", "buffered", "discounted")]
REQUESTS = {
    "gaussian": CentralDP(1.0, 1e-5),
    "laplace": CentralDP(1.0, delta=0.0),
    "null": CentralDP(1.0, 1e-5, relation="null"),
}
CASES = [(kind, "fast") for kind in KINDS] + [(kind, "secure") for kind in WHOLE]
BOUND = L2Ball(2.0, 3)


def combined(kind, leaves):
    """What release t counts leaf j with [t, j]: prefix sums, or discounted ones, whose whole
    coefficients are rounded up.
    """
    if not kind.startswith("discounted"):
        return np.tril(np.ones((leaves, leaves)))
    ages = np.subtract.outer(np.arange(leaves), np.arange(leaves))
    weights = (1 / 1.3) ** np.maximum(ages, 0)
    return np.where(
        ages >= 0, np.ceil(weights * 2**16) / 2**16 if kind.endswith("bits") else weights, 0.0
    )


def source(name, seed=0):
    return noise_source(name, seed if name == "fast" else None)


def make(kind, request=REQUESTS["gaussian"], *, leaves=13, noise=None, users=None, bound=BOUND):
    loss = loss_for(request)
    return Counter(
        bound,
        KINDS[kind](leaves),
        loss=loss,
        request=request,
        users=users or leaves,
        noise=noise or source("fast"),
    )


def stream(n, seed=7):
    rng = np.random.default_rng(seed)
    return [BOUND.clip(rng.normal(size=3)) for _ in range(n)]


@pytest.mark.parametrize("leaves", [1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("kind", KINDS)
def test_factorisation_and_norms_are_what_they_say(kind, leaves):
    factorisation = KINDS[kind](leaves)
    decoder, coder = dense(factorisation)
    np.testing.assert_allclose(decoder @ coder, combined(kind, leaves), atol=1e-9)
    assert np.linalg.norm(coder, axis=0).max() == pytest.approx(
        factorisation.column_norm(2), rel=1e-9
    )
    assert np.abs(coder).sum(axis=0).max() == pytest.approx(factorisation.column_norm(1), rel=1e-9)
    assert np.abs(coder).max() <= factorisation.coefficient * (1 + 1e-12)
    for t in range(1, leaves + 1):
        assert np.linalg.norm(decoder[t - 1]) == pytest.approx(factorisation.row_norm(t), rel=1e-9)
    if factorisation.integral:
        assert (coder == np.rint(coder)).all()


@settings(max_examples=25)
@given(st.integers(1, 64))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_only_depend_on_the_past(kind, leaves):
    """Adaptivity needs C lower triangular: the rows complete at time t do not see later leaves."""
    factorisation = KINDS[kind](leaves)
    rng = np.random.default_rng(leaves)
    one, other = rng.normal(size=(2, leaves, 1))
    other[: leaves // 2] = one[: leaves // 2]
    seen = []
    for leaf_stream in (one, other):
        memory = factorisation.private_memory(1, np.float64)
        seen.append(
            [
                factorisation.encode(t, leaf, memory).copy()
                for t, leaf in enumerate(leaf_stream, start=1)
            ]
        )
    for t in range(leaves // 2):
        np.testing.assert_array_equal(seen[0][t], seen[1][t])


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_totals_are_exact_without_noise(kind, name):
    counter = Counter(
        BOUND,
        KINDS[kind](13),
        loss=PureDP(math.inf),
        request=NoPrivacy(),
        users=13,
        noise=source(name),
    )
    expected = combined(kind, 13) @ np.stack([contribution.values for contribution in stream(13)])
    for t, contribution in enumerate(stream(13)):
        counter.absorb(contribution)
        np.testing.assert_allclose(counter.release().values, expected[t], atol=1e-9)
        assert counter.release().noise.std == 0
    assert str(counter.guarantee).startswith("NO PRIVACY")


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_guarantee_is_what_an_independent_accountant_computes(kind, name, request_name):
    """From the dense matrix C, the bound and the scale alone."""
    request = REQUESTS[request_name]
    counter = make(kind, request, noise=source(name))
    _, coder = dense(KINDS[kind](13))
    columns = coder[:, np.argmax((coder**2).sum(axis=0))]
    distance = (2 if request_name != "null" else 1) * BOUND.radius
    if request_name == "laplace":
        shown = distance * math.sqrt(3) * np.abs(columns).sum() / counter.noise.scale
        assert isinstance(counter.guarantee.loss, PureDP)
    else:
        shown = distance * np.linalg.norm(columns) / counter.noise.scale
        assert isinstance(counter.guarantee.loss, GaussianDP)
        shown = GaussianDP(shown).epsilon_at(1e-5)
    assert shown <= counter.guarantee.epsilon * (1 + 1e-9)
    assert counter.guarantee.epsilon <= 1.0 + 1e-9
    assert shown == pytest.approx(1.0, rel=1e-4 if name == "secure" else 1e-9)


@pytest.mark.parametrize("request_name", ["gaussian", "laplace"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_noise_has_the_stated_scale_and_is_independent_over_coordinates(kind, name, request_name):
    """4000 coordinates, 13 releases. False alarm below 1e-6 per case (5.5 standard errors of a
    variance with kurtosis at most 6); the same test must reject noise that is 20 % off."""
    runs = 4000
    bound = L2Ball(1.0, runs)
    counter = make(kind, REQUESTS[request_name], noise=source(name, 3), bound=bound)
    for t in range(1, 14):
        counter.absorb(Bounded(np.zeros(runs), bound))
        values = counter.release().values
        std = counter.noise_std(t)
        error = 5.5 * math.sqrt((6 - 1) / runs) / 2
        ratio = math.sqrt(np.mean(values**2)) / std
        assert abs(ratio - 1) < error
        assert abs(0.8 * ratio - 1) > error
        assert abs(1.2 * ratio - 1) > error
        neighbours = np.corrcoef(values[::2], values[1::2])[0, 1]
        assert abs(neighbours) < 5.5 / math.sqrt(runs / 2)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_asking_again_gives_the_same_answer(kind, name):
    counter = make(kind, noise=source(name))
    counter.absorb(stream(1)[0])
    np.testing.assert_array_equal(counter.release().values, counter.release().values)
    # A release is a copy, so nobody can write into the counter.
    counter.release().values[:] = 17.0
    assert not (counter.release().values == 17.0).any()


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bits(kind):
    one, other, third = (make(kind, noise=source("fast", seed)) for seed in (1, 1, 2))
    for contribution in stream(13):
        for counter in (one, other, third):
            counter.absorb(contribution)
        np.testing.assert_array_equal(one.release().values, other.release().values)
        assert (one.release().values != third.release().values).all()


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_one_leaf_too_many_is_refused(kind, name):
    counter = make(kind, leaves=3, noise=source(name), users=10)
    for contribution in stream(3):
        counter.absorb(contribution)
    before = counter.release().values
    with pytest.raises(StreamExhausted, match="covers 3 leaves"):
        counter.absorb(stream(1)[0])
    np.testing.assert_array_equal(counter.release().values, before)


@pytest.mark.parametrize("kind", KINDS)
def test_one_user_too_many_is_refused(kind):
    counter = make(kind, leaves=3, users=4)
    counter.absorb(stream(1)[0] + stream(1)[0] + stream(1)[0])
    with pytest.raises(StreamExhausted, match="covers 4 users; this leaf would make 6"):
        counter.absorb(stream(1)[0] + stream(1)[0] + stream(1)[0])


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("stop", [0, 1, 6, 12])
def test_saved_and_restored_it_gives_the_same_releases(kind, name, stop):
    whole = make(kind, noise=source(name, 5))
    first = make(kind, noise=source(name, 5))
    for contribution in stream(13)[:stop]:
        whole.absorb(contribution)
        first.absorb(contribution)
    second = make(kind, noise=source(name, 99))
    second.restore(first.save(), released=stop)
    np.testing.assert_array_equal(second.release().values, first.release().values)
    for contribution in stream(13)[stop:]:
        whole.absorb(contribution)
        second.absorb(contribution)
        if name == "fast":
            np.testing.assert_array_equal(second.release().values, whole.release().values)
        else:
            assert np.abs(
                second.release().values - whole.release().values
            ).max() < 12 * second.noise_std(second.generation)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_older_than_the_last_release_is_refused(kind):
    counter = make(kind)
    counter.absorb(stream(1)[0])
    old = counter.save()
    counter.absorb(stream(1)[0])
    with pytest.raises(StateError, match="generation 1, but generation 2 was already released"):
        make(kind).restore(old, released=counter.release().generation)


def test_a_state_of_another_counter_is_refused():
    state = make("tree").save()
    for other in (
        make("honaker"),
        make("tree", leaves=14),
        make("tree", REQUESTS["laplace"]),
        make("tree", bound=L2Ball(1.0, 3)),
    ):
        with pytest.raises(StateError, match="belongs to a counter with another"):
            other.restore(state, released=0)
    used = make("tree")
    used.absorb(stream(1)[0])
    with pytest.raises(StateError, match="already absorbed"):
        used.restore(state, released=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf_that_failed_half_way_cannot_be_retried(kind):
    """Encoding changes private memory before the noise is drawn: a retry would count the leaf
    twice.
    """
    counter = make(kind)
    state = counter.save()
    draw = counter._source.gaussian
    counter._source.gaussian = lambda *_: (_ for _ in ()).throw(RuntimeError("no entropy"))
    with pytest.raises(RuntimeError, match="no entropy"):
        counter.absorb(stream(1)[0])
    counter._source.gaussian = draw
    for attempt in (lambda: counter.absorb(stream(1)[0]), counter.release, counter.save):
        with pytest.raises(StateError, match="half-way through a leaf"):
            attempt()
    again = make(kind)
    again.restore(state, released=0)
    again.absorb(stream(1)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_counters_cannot_be_copied(kind):
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="noise the same sums twice"):
            way(make(kind))


def test_two_counters_on_one_source_keep_apart_when_restored():
    shared = source("fast", 3)
    one = make("tree", noise=shared)
    other = make("tree", noise=shared)
    states = [one.save(), other.save()]
    back = [make("tree", noise=source("fast", 8)) for _ in states]
    for counter, state in zip(back, states, strict=True):
        counter.restore(state, released=0)
        counter.absorb(stream(1)[0])
    assert (back[0].release().values != back[1].release().values).all()


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_under_another_bound_are_refused(kind):
    with pytest.raises(InvalidParameter, match="another bound"):
        make(kind).absorb(L2Ball(50.0, 3).clip(np.full(3, 40.0)))


def test_what_secure_noise_cannot_serve_is_refused_with_the_way_out():
    for kind in ("buffered", "toeplitz"):
        with pytest.raises(InvalidParameter, match="whole numbers: Tree, HonakerTree or Toeplitz"):
            make(kind, noise=source("secure"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("release", [-1, 1.5, "x", None])
def test_the_noise_of_a_release_that_does_not_exist_is_refused(kind, release):
    with pytest.raises(InvalidParameter, match="t must be"):
        make(kind).noise_std(release)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_leaves_are_refused(kind):
    with pytest.raises(InvalidParameter, match="leaves must be at least 1, got leaves=0"):
        KINDS[kind](0)
