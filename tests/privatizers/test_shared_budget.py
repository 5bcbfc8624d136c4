"""One budget in shares: what all releases together give away is what was paid for, and no more can
be released.
"""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.audit.verify import verify
from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.mechanisms.sources import noise_source
from confide.privacy import CentralDP, NoPrivacy, Relation, Trust
from confide.privacy.bounded import Bounded, L2Ball
from confide.privacy.certificate import certify
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import NO_PRIVACY, GaussianDP, PureDP, loss_for
from confide.privatizers import Share, SharedBudget

BOUND = L2Ball(1.0, 3)
GAUSSIAN = CentralDP(1.0, 1e-5)
PURE = CentralDP(1.0, delta=0.0)
MU = 0.268051
EQUAL = [0.25] * 4
UNEQUAL = [0.1, 0.2, 0.1, 0.05, 0.3, 0.25]
TOTAL = Bounded(np.array([17.0, -4.25, 0.5]), BOUND, 100)


def budget(shares=EQUAL, privacy=GAUSSIAN, *, seed=0, source="fast", users=100, loss=None):
    noise = noise_source(source, seed if source == "fast" else None)
    return SharedBudget(
        [Share(BOUND, share) for share in shares],
        privacy=privacy,
        noise=noise,
        users=users,
        loss=loss,
    )


def answer(one_budget, total=TOTAL):
    released = one_budget.release(total)
    return released.values, released.noise.std


def amount(loss):
    return loss.mu if isinstance(loss, GaussianDP) else loss.epsilon


@pytest.mark.parametrize("privacy", [GAUSSIAN, PURE], ids=str)
@pytest.mark.parametrize("shares", [EQUAL, UNEQUAL, [1.0], [1e-6, 1 - 1e-6]], ids=str)
def test_all_answers_together_are_what_was_paid_for(privacy, shares):
    paid = loss_for(privacy)
    together = budget(shares, privacy, loss=paid).loss()
    assert type(together) is type(paid)
    assert amount(together) == pytest.approx(amount(paid), rel=1e-9)


@given(
    st.lists(st.floats(1e-6, 1), min_size=1, max_size=40),
    st.sampled_from([GaussianDP(0.3), PureDP(2.0)]),
    st.floats(0.01, 1),
)
def test_whatever_the_shares_they_never_cost_more(weights, paid, used):
    """Shares of part of a budget cost that part: mu^2 adds up, epsilon adds up."""
    total = math.fsum(weights)
    shares = [used * weight / total for weight in weights]
    together = budget(shares, GAUSSIAN if isinstance(paid, GaussianDP) else PURE, loss=paid).loss()
    power = 2 if isinstance(paid, GaussianDP) else 1
    assert amount(together) ** power == pytest.approx(used * amount(paid) ** power, rel=1e-9)
    assert amount(together) <= amount(paid) * (1 + 1e-9)


@pytest.mark.parametrize(
    "wrong", [[0.5, 0.6], [0.5, 0.0], [1.5], [-0.1, 0.5], [math.nan], [0.5, math.inf]], ids=str
)
def test_shares_that_do_not_add_up_are_refused(wrong):
    with pytest.raises(InvalidParameter, match=r"add up to at most one|share must be in \(0, 1\]"):
        budget(wrong)


def test_no_more_can_be_released_than_was_paid_for():
    shared = budget()
    assert len(shared) == 4
    for _ in range(4):
        answer(shared)
    with pytest.raises(StreamExhausted, match="covers 4 releases, and all were made"):
        answer(shared)
    assert shared.asked == 4


def test_sums_of_others_are_refused_and_cost_nothing():
    shared = budget()
    for wrong in (
        Bounded(np.zeros(3), L2Ball(2.0, 3), 100),
        Bounded(np.zeros(3), BOUND, 101),
        Bounded(np.zeros(2), L2Ball(1.0, 2)),
    ):
        with pytest.raises(InvalidParameter, match=r"another bound|covers 100 users"):
            answer(shared, wrong)
    assert shared.asked == 0


def test_what_is_skipped_is_not_spent_on_others():
    """Each place has its share: after a skip the next answer has the noise of its own place."""
    shared = budget(UNEQUAL)
    stds = [answer(budget([share, 1 - share], loss=loss_for(GAUSSIAN)))[1] for share in UNEQUAL]
    shared.skip(1)
    assert answer(shared)[1] == pytest.approx(stds[1])
    shared.skip(2)
    assert shared.asked == 4
    assert answer(shared)[1] == pytest.approx(stds[4])
    shared.skip(100)
    with pytest.raises(StreamExhausted):
        answer(shared)
    assert amount(shared.loss()) == pytest.approx(MU, rel=1e-5)  # of all of them, asked or not


@pytest.mark.parametrize(
    ("privacy", "excess"), [(GAUSSIAN, 2), (PURE, 3.5)], ids=["gaussian", "ball"]
)
def test_the_noise_is_as_large_as_it_says_and_as_it_must_be(privacy, excess):
    """2000 answers of 3 numbers each: their mean and standard deviation within 5 standard errors
    (false alarms: 1 in 10^6 each).
    """
    shared = budget([1 / 2000] * 2000, privacy)
    answers = [answer(shared) for _ in range(2000)]
    values = np.stack([values for values, _ in answers])
    stds = {std for _, std in answers}
    # sensitivity 2 over mu sqrt(1/2000), or over epsilon/2000 times sqrt(3 + 1)
    expected = 2 * math.sqrt(2000) / MU if privacy.delta else 2 * 2 * 2000
    assert list(stds) == [pytest.approx(expected, rel=1e-5)]  # one number for all of them
    errors = values - TOTAL.values
    assert abs(errors.mean()) < 5 * expected / math.sqrt(6000)
    assert errors.std() == pytest.approx(expected, rel=5 * math.sqrt(excess / 4 / 6000))
    # coordinates are uncorrelated,
    assert np.abs(np.corrcoef(errors.T)[np.triu_indices(3, 1)]).max() < 5 / math.sqrt(2000)
    # and so are answers
    assert abs(np.corrcoef(errors[:-1].ravel(), errors[1:].ravel())[0, 1]) < 5 / math.sqrt(6000)


def test_noise_follows_the_shares():
    for privacy, power in ((GAUSSIAN, 0.5), (PURE, 1.0)):
        shared = budget([0.1, 0.4, 0.5], privacy)
        first, second, third = (answer(shared)[1] for _ in range(3))
        assert first / second == pytest.approx(4**power)
        assert first / third == pytest.approx(5**power)


def test_a_user_who_contributes_zero_costs_half():
    half = budget(privacy=CentralDP(1.0, 1e-5, Relation.NULL))
    assert answer(half)[1] == pytest.approx(answer(budget())[1] / 2)
    assert half.loss() == budget().loss()


def test_without_privacy_answers_are_exact():
    shared = budget(privacy=NoPrivacy())
    values, std = answer(shared)
    np.testing.assert_array_equal(values, TOTAL.values)
    assert std == 0
    assert shared.loss() == NO_PRIVACY


@pytest.mark.parametrize("privacy", [GAUSSIAN, PURE], ids=str)
def test_restored_it_goes_on_with_the_same_draws(privacy):
    whole = budget(UNEQUAL, privacy, seed=3)
    first = budget(UNEQUAL, privacy, seed=3)
    second = budget(UNEQUAL, privacy, seed=8)
    for _ in range(2):
        answer(whole), answer(first)
    first.skip(1), whole.skip(1)
    second.restore(first.save())
    assert second.asked == 3
    for _ in range(3):
        (expected, std) = answer(whole)
        (values, same) = answer(second)
        np.testing.assert_array_equal(values, expected)
        assert std == same
    with pytest.raises(StreamExhausted):
        answer(second)


def test_a_state_of_other_shared_or_into_shared_asked_already_is_refused():
    state = budget(UNEQUAL).save()
    with pytest.raises(StateError, match="another budget"):
        budget(EQUAL).restore(state)
    partly_spent = budget(UNEQUAL)
    answer(partly_spent)
    with pytest.raises(StateError, match="spent from already"):
        partly_spent.restore(state)
    with pytest.raises(StateError, match="damaged"):
        budget(UNEQUAL).restore(state[:-1] + b"x")


def test_shared_of_one_source_draw_apart_also_when_restored():
    noise = noise_source("fast", 0)
    shares = [Share(BOUND, share) for share in EQUAL]
    originals = [
        SharedBudget(shares, loss=GaussianDP(0.2), privacy=GAUSSIAN, users=100, noise=noise)
        for _ in range(2)
    ]
    restored = [budget(seed=seed, loss=GaussianDP(0.2)) for seed in (1, 2)]
    for first, second in zip(originals, restored, strict=True):
        second.restore(first.save())
    one, other = (answer(shared)[0] for shared in restored)
    assert not np.isin(one, other).any()


@pytest.mark.parametrize("privacy", [GAUSSIAN, PURE], ids=str)
def test_secure_answers_are_on_the_lattice_and_have_the_same_noise(privacy):
    """900 draws in 300 answers: the standard deviation within 6 standard errors (no seed; false
    alarms: 1 in 10^8).
    """
    shared = budget([1 / 300] * 300, privacy, source="secure")
    answers = [answer(shared) for _ in range(300)]
    values = np.stack([values for values, _ in answers])
    std = answers[0][1]
    np.testing.assert_array_equal(values / BOUND.grid, np.rint(values / BOUND.grid))
    assert std == pytest.approx(answer(budget([1 / 300] * 300, privacy))[1], rel=1e-5)
    excess = 2 if privacy.delta else 5
    assert (values - TOTAL.values).std() == pytest.approx(std, rel=6 * math.sqrt(excess / 4 / 900))
    assert amount(shared.loss()) <= amount(loss_for(privacy)) * (1 + 1e-9)


def test_restored_secure_shared_draw_afresh():
    first = budget(source="secure")
    second = budget(source="secure")
    answer(first)
    state = first.save()
    second.restore(state)
    assert second.asked == 1
    assert (answer(first)[0] != answer(second)[0]).any()


@pytest.mark.parametrize("privacy", [GAUSSIAN, PURE], ids=str)
@pytest.mark.parametrize("source", ["fast", "secure"])
@pytest.mark.parametrize("shares", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_a_certificate_of_all_shared_can_be_computed_again(privacy, source, shares):
    shared = budget(shares, privacy, source=source)
    mechanisms = shared.mechanisms()
    assert len(mechanisms) == len(set(shares))
    assert sorted(mechanism.parameters["leaves"] for mechanism in mechanisms) == sorted(
        shares.count(share) for share in set(shares)
    )
    guarantee = Guarantee(shared.loss(), privacy, Trust.CENTRAL, 100, source)
    checked = verify(certify(guarantee, mechanisms, subject="shared"))
    assert checked.epsilon == pytest.approx(1.0, rel=1e-6)
    assert len(checked.losses) == len(mechanisms)


def test_shared_cannot_be_copied():
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError, match="two copies would spend it twice"):
            way(budget())


def test_all_releases_are_pure_where_each_has_less_noise_then():
    """Two releases of 2 numbers: every one has the same share of its Gaussian noise, and together
    they are epsilon-DP.
    """
    shares = [Share(L2Ball(1.0, 2), 0.9), Share(L2Ball(3.0, 1), 0.1)]
    for source in ("fast", "secure"):
        pure, gaussian = (
            SharedBudget(shares, privacy=GAUSSIAN, noise=noise_source(source), users=10, loss=loss)
            for loss in (None, loss_for(GAUSSIAN))
        )
        assert isinstance(pure.loss(), PureDP) and pure.loss().epsilon == pytest.approx(1.0)
        totals = [Bounded(np.zeros(share.bound.size), share.bound, 10) for share in shares]
        ratios = [
            pure.release(total).noise.std / gaussian.release(total).noise.std for total in totals
        ]
        assert ratios[0] == pytest.approx(ratios[1], rel=1e-4) and ratios[0] < 0.7
        verified = verify(certify(pure.guarantee, pure.mechanisms()))
        assert verified.epsilon <= 1 and all(isinstance(loss, PureDP) for loss in verified.losses)


def test_many_releases_and_large_ones_stay_gaussian():
    for shares in (
        [Share(L2Ball(1.0, 2), 0.1, str(i)) for i in range(10)],
        [Share(L2Ball(1.0, 40), 1.0)],
    ):
        one_budget = SharedBudget(shares, privacy=GAUSSIAN, noise=noise_source("fast", 0), users=10)
        assert isinstance(one_budget.loss(), GaussianDP) and one_budget.loss().mu == pytest.approx(
            MU, rel=1e-5
        )


def test_a_state_with_noise_of_another_kind_is_refused():
    """Gaussian and pure releases together would lose more than either of them alone."""
    gaussian = budget([0.5, 0.5], loss=loss_for(GAUSSIAN))
    answer(gaussian)
    pure = budget([0.5, 0.5])
    assert isinstance(pure.loss(), PureDP)
    with pytest.raises(StateError, match="another budget"):
        pure.restore(gaussian.save())


def test_a_state_goes_on_with_the_noise_that_it_began_with():
    pure = budget([0.5, 0.5])
    answer(pure)
    restored = budget([0.5, 0.5])
    restored.restore(pure.save())
    assert isinstance(restored.loss(), PureDP)
    assert answer(restored)[1] == pytest.approx(answer(pure)[1])
