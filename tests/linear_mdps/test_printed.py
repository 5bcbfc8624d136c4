"""The constants printed for linear MDPs against values computed independently in 50 digits;
locators in [Luyo21].
"""

import itertools
import math

import mpmath
import pytest

from confide.errors import InvalidParameter
from confide.linear_mdps.printed import (
    LinearSetting,
    constants_for_noise,
    gram_rows,
    printed_linear,
    useful_from,
)
from confide.mechanisms.symmetric import svec_size
from confide.privacy import JointDP, NoPrivacy, Relation
from confide.privacy.loss import NO_PRIVACY, GaussianDP, PureDP, compose

SETTINGS = [
    (100_000, 5, 5, 1.0, 1e-5, 0.1),
    (1000, 3, 8, 0.5, 1e-6, 0.05),
    (10**6, 10, 3, 5.0, 1e-3, 0.01),
]
PRIVACY = JointDP(1.0, 1e-5)
mp = mpmath.mpf


def widths(K, H, d, p, upsilon, C):
    """lambda = d (E.1), c_K = d Upsilon (what the proof of Lemma 21 needs), U_K of Lemma 19, chi
    and beta of Lemma 20.
    """
    ridge = mp(d)
    c_K = d * upsilon
    U = max(mp(1), 2 * H * mpmath.sqrt(d * K / (ridge + c_K)) + C / (ridge + c_K))
    chi = 24**2 * 18 * mp(K) ** 2 * d * U * H / p
    return {
        "shift": c_K,
        "weight_norm": U,
        "chi": chi,
        "beta": 24 * H * mpmath.sqrt(d * (ridge + c_K)) * mpmath.log(chi),
    }


def smallest(enough):
    """A ceiling without roots, so that what comes out even stays even."""
    return mp(next(B for B in range(1, 10**4) if enough(B)))


def e1(K, H, d, epsilon, delta, p):
    """E.1, B = ceil((K epsilon)^(2/5) / (d^(3/5) H^(1/5))); Upsilon is Claim 26 and C is Claim 27,
    both at p / (6 K H).
    """
    B = smallest(lambda B: B**5 * d**3 * H >= (K * epsilon) ** 2)
    B0 = mpmath.ceil(mpmath.log(B, 2) + 1)
    log = mpmath.log(32 * H * B0 * B / delta) ** 2
    sigma_gram = 128 / epsilon * mpmath.sqrt(B * H * B0) * log
    sigma_response = 128 / epsilon * H * mpmath.sqrt(H * B) * log
    union = mpmath.log(6 * K * H / p)
    upsilon = sigma_gram * B0 * (4 * mpmath.sqrt(d) + 2 * union)
    C = sigma_response * (mpmath.sqrt(d) + 2 * mpmath.sqrt(union))
    expected_constants = {
        "batches": B,
        "levels": B0,
        "sigma_gram": sigma_gram,
        "sigma_response": sigma_response,
    }
    return (
        expected_constants
        | {"upsilon": upsilon, "response_norm": C}
        | widths(K, H, d, p, upsilon, C)
    )


def e3(K, H, d, epsilon, p):
    """E.3, B = ceil((K epsilon)^(1/3) / (d^(2/3) H^(1/3))), composed over B releases, H steps and
    two kinds of statistics.

    The L1 sensitivity of phi phi^T in the coordinates of svec is at most sqrt(n) sqrt(2), n = d (d
    + 1) / 2, and that of phi (r + V) is sqrt(d) 2 (H + 1). Upsilon is Claim 29 and C is Claim 28,
    both at p / (6 K H).
    """
    B = smallest(lambda B: B**3 * d**2 * H >= K * epsilon)
    B0 = mpmath.ceil(mpmath.log(B, 2) + 1)
    matrix = mpmath.sqrt(d * (d + 1))
    vector = mpmath.sqrt(d) * 2 * (H + 1)
    sigma_gram = 2 * B * H * matrix / epsilon
    sigma_response = 2 * B * H * vector / epsilon
    union = mpmath.log(6 * K * H * d / p)
    upsilon = sigma_gram * B0 * (2 * d + 2 * mpmath.sqrt(d * union) + union)
    C = sigma_response * mpmath.sqrt(d) * union
    expected_constants = {
        "batches": B,
        "levels": B0,
        "sigma_gram": sigma_gram,
        "sigma_response": sigma_response,
    }
    return (
        expected_constants
        | {"upsilon": upsilon, "response_norm": C}
        | widths(K, H, d, p, upsilon, C)
    )


def check(constants, expected, d, rel=1e-12):
    for name, value in expected.items():
        assert getattr(constants, name) == pytest.approx(float(value), rel=rel), name
    assert isinstance(constants.batches, int)
    assert isinstance(constants.levels, int)
    assert constants.ridge == d
    assert constants.regularizer == pytest.approx(
        float(d + expected["shift"] + expected["upsilon"]), rel=rel
    )


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_appendix_e1(setting):
    """[Luyo21, E.1] (lambda, B, B_0, sigma_Lambda, sigma_u, Upsilon, beta), Claim 27 (C), Lemmas 19
    and 20 (U_K, chi).
    """
    K, H, d, epsilon, delta, p = setting
    constants = printed_linear(JointDP(epsilon, delta), LinearSetting(K, H, d, p))
    with mpmath.workdps(50):
        expected = e1(mp(K), H, d, mp(epsilon), mp(delta), mp(p))
        check(constants, expected, d)
        B = expected["batches"]
        levels = mpmath.floor(mpmath.log(expected["batches"], 2)) + 1
        # phi phi^T of H steps, sqrt(2) apart each, in a tree over B leaves; B H responses, targets
        # in [0, H + 1]
        gram = mpmath.sqrt(2 * H * levels) / expected["sigma_gram"]
        response = 2 * (H + 1) * mpmath.sqrt(B * H) / expected["sigma_response"]
    gram_loss, response_loss = constants.losses(JointDP(epsilon, delta), H, d)
    # the bound's rounding is in the seventh digit
    assert gram_loss.mu == pytest.approx(float(gram), rel=1e-6)
    assert response_loss.mu == pytest.approx(float(response), rel=1e-12)
    assert isinstance(gram_loss, GaussianDP)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_appendix_e3(setting):
    """[Luyo21, E.3] (B, sigma_Lambda, sigma_u, Upsilon, C), Claims 28 and 29, Lemmas 19 and 20
    (U_K, chi, beta).
    """
    K, H, d, epsilon, _, p = setting
    constants = printed_linear(JointDP(epsilon, delta=0.0), LinearSetting(K, H, d, p))
    with mpmath.workdps(50):
        expected = e3(mp(K), H, d, mp(epsilon), mp(p))
        # The sensitivity of phi phi^T includes the rounding of contributions to a grid.
        check(constants, expected, d, rel=1e-5)
        B = expected["batches"]
        levels = mpmath.floor(mpmath.log(expected["batches"], 2)) + 1
        # ||x||_1 <= sqrt(n) ||x||_2
        gram = mpmath.sqrt(svec_size(d)) * mpmath.sqrt(2) * H * levels / expected["sigma_gram"]
        response = mpmath.sqrt(d) * 2 * (H + 1) * B * H / expected["sigma_response"]
    gram_loss, response_loss = constants.losses(JointDP(epsilon, delta=0.0), H, d)
    assert gram_loss.epsilon == pytest.approx(float(gram), rel=1e-5)
    assert response_loss.epsilon == pytest.approx(float(response), rel=1e-5)
    assert isinstance(gram_loss, PureDP)
    assert compose([gram_loss, response_loss]).epsilon <= epsilon * (1 + 1e-12)


def test_e1_in_numbers():
    """The setting of the benchmarks, K = 1e5 and H = d = 5 at epsilon = 1, delta = 1e-5, p = .1, as
    computed once in 50 digits.
    """
    constants = printed_linear(PRIVACY, LinearSetting(100_000, 5, 5))
    assert (constants.batches, constants.levels) == (28, 6)
    expected = {
        "sigma_gram": 1748846.95025564,
        "sigma_response": 3569818.88862402,
        "upsilon": 455165621.996247,
        "shift": 2275828109.98124,
        "response_norm": 37606871.7441117,
        "weight_norm": 1.0,
        "chi": 2.592e16,
        "beta": 483789499.056861,
    }
    for name, value in expected.items():
        assert getattr(constants, name) == pytest.approx(value, rel=1e-13), name


def test_batches_that_come_out_even_are_not_one_more():
    """(K epsilon)^(2/5) / (d^(3/5) H^(1/5)) = 100 / 2 at K = 1e5, d = 2, H = 4, and cbrt(K epsilon)
    / cbrt(d^2 H) = 6 / 2 at K = 216.
    """
    assert printed_linear(PRIVACY, LinearSetting(100_000, 4, 2)).batches == 50
    assert printed_linear(JointDP(1.0, delta=0.0), LinearSetting(216, 2, 2)).batches == 3


def test_there_are_never_more_batches_than_users_and_they_can_be_chosen():
    assert printed_linear(JointDP(1e6, 1e-5), LinearSetting(10, 1, 1)).batches == 10
    assert printed_linear(JointDP(1e6, delta=0.0), LinearSetting(10, 1, 1)).batches == 10
    constants = printed_linear(PRIVACY, LinearSetting(100_000, 5, 5, batches=64))
    assert (constants.batches, constants.levels) == (64, 7)
    assert (
        constants.sigma_response
        > 1.4 * printed_linear(PRIVACY, LinearSetting(100_000, 5, 5)).sigma_response
    )


def test_without_privacy_there_is_no_noise():
    """[Luyo21, Remark 7], sigma = 0: lambda = d and beta = 24 H d ln chi."""
    constants = printed_linear(NoPrivacy(), LinearSetting(1000, 3, 2))
    assert (
        constants.sigma_gram
        == constants.sigma_response
        == constants.upsilon
        == constants.shift
        == constants.response_norm
        == 0
    )
    assert constants.batches == 1000
    assert constants.regularizer == 2
    assert constants.weight_norm == pytest.approx(2 * 3 * math.sqrt(1000))
    assert constants.beta == pytest.approx(
        24 * 3 * 2 * math.log(24**2 * 18 * 1e6 * 2 * constants.weight_norm * 3 / 0.1)
    )
    assert constants.losses(NoPrivacy(), 3, 2) == (NO_PRIVACY, NO_PRIVACY)


def test_the_printed_constants_really_give_a_hundred_thousandth_of_the_epsilon():
    """ERRATUM: at nominal epsilon = 1, K = 1e5, H = d = 5 and delta = 1e-5 the printed noise gives
    epsilon = 1.38e-5.
    """
    constants = printed_linear(PRIVACY, LinearSetting(100_000, 5, 5))
    together = compose(constants.losses(PRIVACY, 5, 5))
    true_epsilon = together.epsilon_at(1e-5)
    assert f"{true_epsilon:.3g}" == "1.38e-05"
    # Its exact profile: delta(epsilon) of mu-GDP.
    with mpmath.workdps(50):
        mu = mp(together.mu)
        epsilon = mp(true_epsilon)
        delta = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )
    assert float(delta) == pytest.approx(1e-5, rel=1e-6)


def test_the_sensitivities_of_the_paper_are_too_small_for_laplace_noise():
    """ERRATUM: "L1 sensitivity 2" holds in L2 only.

    At H = d = 5 noise for 2 and 4 H gives 1.22 at nominal epsilon = 1.
    """
    pure = JointDP(1.0, delta=0.0)
    setting = LinearSetting(100_000, 5, 5)
    B = printed_linear(pure, setting).batches
    constants = constants_for_noise(pure, setting, (4 * B * 5, 8 * B * 5**2))
    assert compose(constants.losses(pure, 5, 5)).epsilon == pytest.approx(1.219, rel=1e-3)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("batches", [None, 1, 2, 3, 7, 64])
def test_the_stated_pure_epsilon_is_at_most_the_requested_one(relation, batches):
    """Whatever the sizes are: a tree over B batches has at most B levels, and responses are asked
    at most B times.
    """
    for K, H, d, epsilon in itertools.product((100, 10**6), (1, 4), (1, 2, 30), (0.01, 1.0, 20.0)):
        pure = JointDP(epsilon, 0.0, relation)
        constants = printed_linear(pure, LinearSetting(K, H, d, batches=batches))
        assert compose(constants.losses(pure, H, d)).epsilon <= epsilon * (1 + 1e-12)


def test_a_user_who_contributes_zero_has_half_the_loss_of_responses():
    constants = printed_linear(JointDP(1.0, 1e-5, Relation.REPLACE), LinearSetting(1000, 5, 5))
    null = printed_linear(JointDP(1.0, 1e-5, Relation.NULL), LinearSetting(1000, 5, 5))
    gram, response = constants.losses(JointDP(1.0, 1e-5, Relation.REPLACE), 5, 5)
    null_gram, null_response = null.losses(JointDP(1.0, 1e-5, Relation.NULL), 5, 5)
    assert null_response.mu == pytest.approx(response.mu / 2)
    assert null_gram.mu == pytest.approx(gram.mu / math.sqrt(2), rel=1e-5)
    assert null.sigma_gram == constants.sigma_gram


def test_the_bound_of_lambda_is_of_features_alone():
    rows = gram_rows(4, 3)
    assert rows.sensitivity(Relation.REPLACE) == pytest.approx(math.sqrt(2 * 4), rel=1e-5)
    assert rows.sensitivity(Relation.NULL) == pytest.approx(math.sqrt(4), rel=1e-5)


def useful(privacy, K, H, d):
    """Whether the printed bonus can be below H for somebody after K users, all of them alike."""
    constants = printed_linear(privacy, LinearSetting(K, H, d))
    return constants.beta / math.sqrt(constants.regularizer + K) < H


def test_the_printed_bonus_is_useful_from_4e22_episodes():
    """beta / sqrt(lambda + c_K + Upsilon + K) < H, the first K of all."""
    first = useful_from(PRIVACY, horizon=5, dimension=5)
    assert f"{first:.1e}" == "3.9e+22"
    assert useful(PRIVACY, first, 5, 5)
    # Floats of this size are 8e6 apart.
    assert not useful(PRIVACY, first - 10**8, 5, 5)
    assert not any(
        useful(PRIVACY, int(first * share), 5, 5)
        for share in (1e-20, 1e-15, 1e-10, 1e-5, 0.1, 0.5, 0.9, 0.99, 0.9999)
    )


@pytest.mark.parametrize(
    "privacy", [NoPrivacy(), JointDP(1.0, delta=0.0), JointDP(10.0, 1e-2)], ids=str
)
def test_the_first_useful_number_of_episodes_is_the_first(privacy):
    first = useful_from(privacy, horizon=2, dimension=2)
    assert useful(privacy, first, 2, 2)
    assert not any(useful(privacy, int(first * (1 - 2.0**-k)), 2, 2) for k in range(1, 30))


def test_bad_settings_are_refused():
    for wrong in ({"episodes": 0}, {"horizon": 0}, {"dimension": -1}):
        name, value = next(iter(wrong.items()))
        with pytest.raises(
            InvalidParameter, match=f"{name} must be at least 1, got {name}={value}"
        ):
            printed_linear(
                PRIVACY, LinearSetting(**({"episodes": 10, "horizon": 2, "dimension": 2} | wrong))
            )
