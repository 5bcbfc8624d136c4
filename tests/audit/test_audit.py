"""Honest mechanisms stand, and deliberately broken twins fall.

Each audit has 99 % confidence and a fixed seed; the chance that an honest mechanism is refuted is below 1 %, before the seed is fixed.
"""

from dataclasses import replace

import numpy as np
import pytest

from confide.audit import clopper_pearson, refute, subject, subjects
from confide.audit.agents import LOCAL, PRIVATE
from confide.audit.estimators import TWO_QUESTIONS
from confide.audit.mechanisms import TWINS, CounterSubject
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Exact
from confide.privacy import CentralDP, PureDP
from confide.privacy.bounded import L2Ball
from confide.privatizers import SharedBudget

PRIVACY, LARGE = CentralDP(1.0, 1e-2), CentralDP(3.0, 1e-2)  # a large epsilon is told from a larger one in fewer runs
AGENTS = list(PRIVATE)
ANSWERS = "lsvi-ucb-answers"
ESTIMATORS = ("counts-and-sums", "dp-lsw", "dp-lsl", *TWO_QUESTIONS)  # attacked in tests/evaluation
RUNS = {
    "smooth": 60_000,
    "gaussian": 8_000,
    "laplace": 8_000,
    **dict.fromkeys(AGENTS, 500),
    "likelihood-vi": 200,
    "next-state-vi": 200,
    "lsvi-ucb-answers": 800,
}  # 2 500 for streams


def attack(name, *, twin=None, runs=None, privacy=None, source="fast"):
    privacy = privacy or (PRIVACY if name == "smooth" else LARGE)
    attacked = subject(name, privacy, twin=twin, source=source)
    delta = 0.0 if isinstance(attacked.loss, PureDP) else privacy.delta
    return refute(attacked, delta=delta, runs=runs or RUNS.get(name, 2_500), rng=np.random.default_rng(5))


@pytest.mark.parametrize("name", [name for name in subjects() if name not in (*ESTIMATORS, ANSWERS)])
def test_promises_are_not_refuted(name):
    result = attack(name)
    assert not result.refuted
    shown = 0.1 if name == "next-state-vi" else 0.4 if name in (*AGENTS, "smooth") else 1.2
    assert result.epsilon_lower > shown  # and the attack was not a blunt one


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("name", [name for name in subjects() if name not in ("exact", *AGENTS, ANSWERS, *ESTIMATORS)])
def test_broken_twins_are_caught(name, twin):
    if (name, twin) == ("stream", "clip"):
        with pytest.raises(InvalidParameter, match="cannot be audited without clipping"):
            attack(name, twin=twin)
        return
    runs = {"clip": 500, "shared": 500, "noise": max(4_000, RUNS.get(name, 0))}.get(twin)
    assert attack(name, twin=twin, runs=runs).refuted


@pytest.mark.parametrize("name", AGENTS)
def test_broken_agents_are_caught(name):
    """The whole output of an agent with 64 users, one of them replaced. The subtler twins need 5 000 runs and more: `confide audit`."""
    assert attack(name, twin="shared", runs=100, privacy=PRIVACY).refuted


def test_too_little_noise_on_answers_is_caught(monkeypatch):
    """LSVI-UCB's prefix sums are honest here, and the certificate says nothing wrong: only an attack can tell."""
    honest = SharedBudget.release

    def release(self, total):
        made = honest(self, total)
        return replace(made, values=total.values + 0.3 * (made.values - total.values))

    assert not attack(ANSWERS, runs=500).refuted
    monkeypatch.setattr(SharedBudget, "release", release)
    assert attack(ANSWERS, runs=500).refuted


@pytest.mark.parametrize(("twin", "runs"), [(None, 1_000), ("noise", 1_500), ("shared", 300), ("redraw", 600)])
def test_messages_of_devices(twin, runs):
    """Two devices, each asked twice. Too little noise, noise that devices share, and noise drawn again are caught."""
    attacked = subject("ucrl-vtr", CentralDP(3.0, 1e-2), twin=twin, trust="local")
    result = refute(attacked, delta=1e-2, runs=runs, rng=np.random.default_rng(5))
    assert result.refuted == (twin is not None)
    assert result.mu_lower > 0.6 * result.mu


@pytest.mark.parametrize("name", LOCAL[1:])
def test_messages_of_every_agents_devices_stand(name):
    result = refute(subject(name, CentralDP(3.0, 1e-2), trust="local"), delta=1e-2, runs=300, rng=np.random.default_rng(5))
    assert not result.refuted and result.mu_lower > 0.2 * result.mu


def test_messages_with_secure_or_laplace_noise_stand():
    for privacy, source in ((CentralDP(3.0, 1e-2), "secure"), (CentralDP(3.0), "fast")):
        attacked = subject("ucrl-vtr", privacy, source=source, trust="local")
        result = refute(attacked, delta=privacy.delta, runs=300, rng=np.random.default_rng(5))
        assert not result.refuted and result.epsilon_lower > 0


def test_the_plain_gaussian_mechanism_is_audited_sharply():
    result = attack("gaussian", runs=80_000, privacy=PRIVACY)
    assert 0.8 < result.sharpness < 1
    assert 0.9 < result.mu_lower / result.mu < 1


@pytest.mark.parametrize("name", ["tree", "honaker", "toeplitz", "laplace"])
def test_secure_noise_stands_too(name):
    assert not attack(name, source="secure", runs=1_500).refuted


def test_pure_counters_stand():
    assert not attack("tree", privacy=CentralDP(1.0)).refuted


class LowBits(CounterSubject):
    """Reads the last bit only [Mironov12]: y in (1/2, 1) comes from 1 + noise, which has one, or from noise near 2, minus 1: none."""

    def score(self):
        return lambda seen: ((seen > 0.5) & (seen < 1) & (seen * 2.0**53 % 2 == 1)).any(axis=1).astype(float)


def test_low_bits_of_fast_noise_refute_it_and_those_of_secure_noise_do_not():
    """Why there is a secure source."""
    refuted = {}
    for source in ("fast", "secure"):
        attacked = LowBits(Exact(1), CentralDP(1.0), source=source, bound=L2Ball(1.0, 1))
        refuted[source] = refute(attacked, delta=0.0, runs=3_000, rng=np.random.default_rng(0)).refuted
    assert refuted == {"fast": True, "secure": False}


def test_clopper_pearson_covers():
    """1000 experiments at 95 %: fewer than 80 misses on either side, a false alarm of 2e-5."""
    rng = np.random.default_rng(0)
    bounds = [clopper_pearson(int(rng.binomial(200, 0.1)), 200, 0.05) for _ in range(1000)]
    assert sum(low > 0.1 for low, _ in bounds) < 80
    assert sum(high < 0.1 for _, high in bounds) < 80
    assert clopper_pearson(0, 10, 0.05)[0] == 0
    assert clopper_pearson(10, 10, 0.05)[1] == 1
    assert clopper_pearson(0, 10, 0.05)[1] == pytest.approx(1 - 0.05**0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: subject("magic", PRIVACY), "unknown audit subject 'magic'; choose one of gaussian"),
        (lambda: subject("tree", PRIVACY, twin="evil"), "twin must be one of noise, clip, redraw, shared, got twin='evil'"),
        (lambda: subject("gaussian", CentralDP(1.0)), "needs delta > 0"),
        (lambda: subject("tree", PRIVACY, twin="noise", source="secure"), "needs fast noise, got source='secure'"),
        (lambda: subject("tree", CentralDP(1.0, 1e-2, relation="null")), 'relation "replace"'),
        (
            lambda: subject("gaussian", PRIVACY, trust="local"),
            "unknown audit subject 'gaussian' under local trust; choose one of ucrl-vtr",
        ),
        (lambda: subject("ucrl-vtr", PRIVACY, trust="blind"), "trust must be one of joint, local"),
        (lambda: subject("ucrl-vtr", PRIVACY, twin="clip", trust="local"), "cannot be audited without clipping"),
        (lambda: attack("gaussian", runs=3), "runs must be at least 100"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()
