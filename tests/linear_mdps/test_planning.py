"""Value iteration by asking: with exact answers it finds the optimal Q, and what it asks stays
where the sensitivity needs it.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from confide.linear_mdps.contributions import StoredTransitions
from confide.linear_mdps.planning import (
    CentredRule,
    PrefixSums,
    PrintedRule,
    ReleasedResponse,
    backward_induction,
    growth,
)
from confide.planners.regression import Shift
from confide.planners.reward_features import centred_rewards
from confide.problems import latent, one_hot
from confide.statistics.bounds import RegressionRows
from confide.statistics.transitions import RewardTargets
from confide.trajectory import TransitionCounts

WORLDS = [one_hot(), latent(0), latent(1, states=6, actions=3, horizon=3, dimension=3)]
# Users at each state and action.
MANY = 1e9
RULES = {
    "centred": lambda phi: CentredRule(phi, bonus_scale=0.0),
    "printed": lambda phi: PrintedRule(phi, Shift(1.0, 0.0)),
}


def truth(world):
    """P [h, s, a, s'] and r [h, s, a]."""
    phi = world.features
    return np.einsum("sai,hit->hsat", phi, world.measures), np.einsum(
        "sai,hi->hsa", phi, world.reward_weights
    )


def optimal_q(world):
    P, r = truth(world)
    Q = np.zeros_like(r)
    V = np.zeros(world.states)
    for h in reversed(range(world.horizon)):
        Q[h] = r[h] + P[h] @ V
        V = Q[h].max(axis=1)
    np.testing.assert_allclose(V @ world.start, world.optimal_value)
    return Q


def exact_sums(world, std=0.0):
    _, r = truth(world)
    phi = world.features
    gram = MANY * np.repeat(np.einsum("sai,saj->ij", phi, phi)[None], world.horizon, axis=0)
    return PrefixSums(gram, MANY * np.einsum("sai,hsa->hi", phi, r - 0.5), std, std)


def exact_answer(world, question):
    P, r = truth(world)
    targets = question.reward_weight * r[question.step] + P[question.step] @ question.values
    return ReleasedResponse(MANY * np.einsum("sai,sa->i", world.features, targets), 0.0)


def conversation(rule, sums, horizon, answer):
    """(Q, the targets that were asked about)."""
    collected = []

    def respond(target):
        collected.append(target)
        return answer(target)

    return np.stack(backward_induction(rule, sums, horizon, respond)), collected


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.name}-{world.states}")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_exact_answers_give_the_optimal_q(world, rule):
    Q, _ = conversation(
        rule(world.features),
        exact_sums(world),
        world.horizon,
        lambda target: exact_answer(world, target),
    )
    np.testing.assert_allclose(Q, optimal_q(world), atol=1e-6)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.name}-{world.states}")
def test_users_give_the_optimal_q_through_the_statistics(world):
    """10^6 users at each state and action, who move as often as they should, up to one of them:
    through the clips and roundings of all.
    """
    P, r = truth(world)
    H, S, A, _ = P.shape
    counts = np.floor(1e6 * P).astype(np.int64)
    step, state, action, after = np.nonzero(counts)
    rewards = np.clip(r, 0, 1)[step, state, action]
    users = TransitionCounts(
        step, state, action, after, rewards, counts[counts > 0], 10**6 * S * A, H
    )
    kept = StoredTransitions(world.features, H)
    bound = RegressionRows(H, world.features.shape[2], 1.0, target=0.5, balance=1.5)
    kept.add(users)
    gram, response = bound.unpack(
        RewardTargets(bound, centred_rewards(world.features), 1.0).contribution(users).values
    )
    Q, targets = conversation(
        CentredRule(world.features, bonus_scale=0.0),
        PrefixSums(gram, response, 0.0, 0.0),
        H,
        lambda target: ReleasedResponse(
            kept.response(target.step, target.values, target.reward_weight).values, 0.0
        ),
    )
    np.testing.assert_allclose(Q, optimal_q(world), atol=2e-4)
    assert len(targets) == H - 1


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: f"{world.name}-{world.states}")
def test_steps_are_asked_about_from_the_last_to_the_first(world):
    H = world.horizon
    for rule, first in ((RULES["centred"], H - 2), (RULES["printed"], H - 1)):
        _, targets = conversation(
            rule(world.features), exact_sums(world), H, lambda target: exact_answer(world, target)
        )
        assert [question.step for question in targets] == list(range(first, -1, -1))


VALUES = arrays(float, 5, elements=st.floats(0, 5))


@given(VALUES, st.integers(0, 4))
def test_what_is_asked_stays_where_the_sensitivity_needs_it(values, step):
    """Targets lie in [-1, 1 - w], up to rounding, so clipping changes nothing that is asked
    about.
    """
    # Centring cancels digits: the rounding error of a value grows by the inverse of the range.
    spread = float(values.max() - values.min())
    tolerance = 1e-15 * (1 + 4 * float(values.max()) / spread) if spread > 0 else 1e-15
    phi = WORLDS[0].features
    for rule in (RULES["centred"](phi), RULES["printed"](phi)):
        question = rule.target(step, values, 5)
        if question is not None:
            assert question.values.min() >= -1 - tolerance
            assert question.values.max() <= 1 - question.reward_weight + tolerance
            assert 0 <= question.reward_weight <= 1
            assert question.step == step


@given(VALUES, st.integers(0, 3))
def test_centred_questions_use_the_whole_range(values, step):
    """All of [-1, 1] is used, so that the noise is as small as it can be, wherever the values are
    and however small their range.
    """
    question = RULES["centred"](WORLDS[0].features).target(step, values, 5)
    if np.ptp(values) == 0:
        assert question is None
    elif np.ptp(values) > 1e-9:
        assert question.values.min() == pytest.approx(-1)
        assert question.values.max() == pytest.approx(1)
        elsewhere = RULES["centred"](WORLDS[0].features).target(step, 0.25 * values + 3, 5)
        np.testing.assert_allclose(elsewhere.values, question.values, atol=1e-5)


def test_nothing_is_asked_where_there_is_nothing_to_learn():
    """Without rewards in sight all states are worth the same; the last step's rewards are in the
    sums, and so is all of H = 1.
    """
    rule = RULES["centred"](WORLDS[0].features)
    values = np.linspace(0, 1, 5)
    assert rule.target(2, np.full(5, 1.5), 5) is None
    assert rule.target(4, values, 5) is None
    assert rule.target(3, values, 5) is not None
    short = one_hot(horizon=1)
    Q, targets = conversation(
        CentredRule(short.features, bonus_scale=0.0), exact_sums(short), 1, lambda _: None
    )
    assert targets == []
    np.testing.assert_allclose(Q, optimal_q(short), atol=1e-6)


@pytest.mark.parametrize(
    "rule",
    [CentredRule(WORLDS[1].features), PrintedRule(WORLDS[1].features, Shift(100.0, 5.0))],
    ids=["centred", "printed"],
)
def test_the_same_answers_give_the_same_q_and_others_another(rule):
    world = WORLDS[1]
    rng = np.random.default_rng(0)
    noisy = {step: ReleasedResponse(MANY * rng.normal(0.3, 0.1, size=5), 1e6) for step in range(5)}
    one, targets = conversation(
        rule, exact_sums(world, std=1e5), 5, lambda target: noisy[target.step]
    )
    again, asked_again = conversation(
        rule, exact_sums(world, std=1e5), 5, lambda target: noisy[target.step]
    )
    np.testing.assert_array_equal(one, again)
    for question, same in zip(targets, asked_again, strict=True):
        np.testing.assert_array_equal(question.values, same.values)
    changed = noisy | {2: ReleasedResponse(noisy[2].values * 1.5, noisy[2].noise_std)}
    other, _ = conversation(
        rule, exact_sums(world, std=1e5), 5, lambda target: changed[target.step]
    )
    # What comes later was planned before.
    np.testing.assert_array_equal(one[3:], other[3:])
    assert (one[2] != other[2]).any()


def test_q_is_optimistic_and_within_its_range():
    world = WORLDS[0]
    few = PrefixSums(
        *(part / MANY * 20 for part in (exact_sums(world).gram, exact_sums(world).rewards)),
        noise_std=2.0,
        reward_noise_std=2.0,
    )

    def answer(question):
        return ReleasedResponse(exact_answer(world, question).values / MANY * 20, 2.0)

    collected = [
        conversation(CentredRule(world.features, scale), few, 5, answer)[0]
        for scale in (0.0, 0.2, 0.5, 100.0)
    ]
    limits = (5 - np.arange(5))[:, None, None]
    for Q in collected:
        assert (Q >= 0).all()
        assert (limits >= Q).all()
    for less, more in ((collected[0][4], collected[1][4]), (collected[1][4], collected[2][4])):
        assert ((more > less) | (more == 1)).all()
        assert (more < 1).any()
    np.testing.assert_array_equal(collected[3], np.broadcast_to(limits, collected[3].shape))


def test_more_noise_is_a_wider_bonus():
    """Noise of the sums and of the answer both count, in standard errors."""
    world = WORLDS[0]
    values = np.linspace(0, 1, 5)
    gram = 1000 * np.repeat(np.eye(10)[None], 5, axis=0)
    rewards = np.zeros((5, 10))

    def q(std, reward_std, answer_std, scale=0.2):
        rule = CentredRule(world.features, scale)
        return rule.q_values(
            2,
            values,
            5,
            PrefixSums(gram, rewards, std, reward_std),
            ReleasedResponse(np.zeros(10), answer_std),
        )[0, 0]

    bare = q(0.0, 0.0, 0.0)
    assert bare - q(0.0, 0.0, 0.0, scale=0.0) == pytest.approx(0.2 * math.sqrt(0.1 / 1001))
    # ||Lambda^-1 phi|| = 1/1001: reward noise as it is, the answer's times half the range of the
    # values, 1/2
    assert q(0.0, 300.0, 0.0) - 1 == pytest.approx(
        0.2 * math.sqrt(0.1 / 1001 + (300 / 1001) ** 2), rel=1e-6
    )
    assert q(0.0, 0.0, 300.0) - 1 == pytest.approx(
        0.2 * math.sqrt(0.1 / 1001 + (150 / 1001) ** 2), rel=1e-6
    )
    assert q(50.0, 0.0, 0.0) > bare


@pytest.mark.parametrize("std", [0.0, 8.0])
@pytest.mark.parametrize(
    ("world", "widest"), [(WORLDS[0], 1), (WORLDS[1], 5)], ids=["one-hot", "latent"]
)
def test_centred_is_repaired_least_squares(world, widest, std):
    """P = (Lambda)_+ + rho I, rho half the norm of the noise that is left in Lambda, s sqrt(entries
    in a row) / 2, and at least 1.
    """
    rng = np.random.default_rng(0)
    d = world.features.shape[2]
    phi = world.features
    values = np.linspace(0.5, 2.5, world.states)
    eigenvalues = np.linspace(-20, 300, d)
    vectors = np.eye(d)
    if widest > 1:
        vectors = np.linalg.qr(rng.normal(size=(d, d)))[0]
    gram = (vectors * eigenvalues) @ vectors.T
    rewards = rng.normal(size=d) * 20
    answer = ReleasedResponse(rng.normal(size=d) * 20, 3.0)
    Q = CentredRule(phi).q_values(
        1, values, 5, PrefixSums(np.stack([gram] * 5), np.stack([rewards] * 5), std, 2.0), answer
    )
    inverse = (
        vectors / (np.maximum(eigenvalues, 0) + max(1.0, std * math.sqrt(widest) / 2))
    ) @ vectors.T
    rows = phi @ inverse
    # Values are 1.5 +- 1.
    noise = 2.0**2 + (std * (0.5 + 1.0) / 2) ** 2 + (1.0 * 3.0) ** 2
    error = np.sqrt(0.1 * (rows * phi).sum(axis=2) + noise * (rows**2).sum(axis=2))
    expected = rows @ (rewards + answer.values) + 0.5 + 1.5 + 0.2 * error
    assert ((expected > 0) & (expected < 4)).sum() > 5
    np.testing.assert_allclose(Q, np.clip(expected, 0, 4), rtol=1e-9)


def test_entries_that_no_feature_pair_touches_keep_no_noise():
    """One-hot features: Lambda is diagonal, whatever noise says; with features that overlap its
    entries count.
    """
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(5, 10, 10)) * 1e8
    for world, same in ((WORLDS[0], True), (WORLDS[1], False)):
        sums = exact_sums(world)
        d = world.features.shape[2]
        off = (noise + noise.swapaxes(1, 2))[:, :d, :d] * (1 - np.eye(d))
        noisy = PrefixSums(sums.gram + off, sums.rewards, 0.0, 0.0)
        Q = [
            conversation(
                CentredRule(world.features),
                each,
                5,
                lambda target, world=world: exact_answer(world, target),
            )[0]
            for each in (sums, noisy)
        ]
        assert np.allclose(*Q, atol=1e-9) == same


def test_printed_is_algorithm_2():
    """[Luyo21, Alg. 2]: w = (Lambda + shift I)^-1 u, Q = clip(phi.w + beta ||phi||, 0, H) in the
    norm of the inverse, at every step.
    """
    world = WORLDS[2]
    rng = np.random.default_rng(0)
    H = 3
    d = 3
    shift = 40.0
    beta = 0.7
    B = rng.normal(size=(H, 50, d))
    sums = PrefixSums(np.einsum("hki,hkj->hij", B, B), np.zeros((H, d)), 3.0, 3.0)
    raw = {step: rng.normal(size=d) * 20 for step in range(H)}
    rule = PrintedRule(world.features, Shift(shift, beta))
    Q, targets = conversation(
        rule, sums, H, lambda target: ReleasedResponse(raw[target.step] / (H + 1), 1.0)
    )
    values = np.zeros(6)
    for question in targets:
        h = question.step
        np.testing.assert_allclose(question.values, values / (H + 1))
        assert question.reward_weight == 1 / (H + 1)
        inverse = np.linalg.inv(sums.gram[h] + shift * np.eye(d))
        widths = np.sqrt(np.einsum("sai,ij,saj->sa", world.features, inverse, world.features))
        expected = np.clip(world.features @ inverse @ raw[h] + beta * widths, 0, H)
        np.testing.assert_allclose(Q[h], expected, rtol=1e-9)
        values = expected.max(axis=1)


def random_gram(seed, d=3, h=2):
    X = np.random.default_rng(seed).normal(size=(h, 20, d))
    return np.einsum("hki,hkj->hij", X, X)


@given(st.integers(0, 10**6), st.floats(1, 50))
def test_a_multiple_has_grown_by_the_multiple(seed, times):
    gram = random_gram(seed)
    assert growth(times * gram, gram, ridge=1e-9) == pytest.approx(times, rel=1e-6)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(1e-3, 10))
def test_growth_is_never_below_that_of_any_direction(seed, more, ridge):
    """Sums of later users only add: growth is at least one, and at least what each direction and
    each step has grown by.
    """
    before = random_gram(seed)
    now = before + random_gram(more) * np.array([1.0, 0.01])[:, None, None]
    factor = growth(now, before, ridge)
    x = np.random.default_rng(more).normal(size=(200, 3))
    W = before + ridge * np.eye(3)
    V = now + ridge * np.eye(3)
    ratios = np.einsum("ki,hij,kj->hk", x, V, x) / np.einsum("ki,hij,kj->hk", x, W, x)
    assert factor >= ratios.max() * (1 - 1e-9)
    assert factor >= 1 - 1e-9
    exact = max(np.linalg.eigvals(np.linalg.solve(W[h], V[h])).real.max() for h in range(2))
    assert factor == pytest.approx(exact, rel=1e-6)


def test_growth_of_noisy_matrices():
    """Negative eigenvalues count as zero on both sides: a direction that was never seen and is not
    seen now has not grown.
    """
    before = np.diag([100.0, -30.0])[None]
    now = np.diag([150.0, -5.0])[None]
    assert growth(now, before, ridge=1.0) == pytest.approx(151 / 101)
    # the other direction has shrunk, and none has grown
    assert growth(before, now, ridge=1.0) == pytest.approx(1.0)
    seen = np.diag([100.0, 50.0])[None]
    assert growth(seen, before, ridge=1.0) == pytest.approx(51)
    # the ridge is what noise alone may look like
    assert growth(seen, before, ridge=100.0) == pytest.approx(1.5)
    # A determinant would say nothing here.
    assert np.linalg.det(now[0]) < 0
