"""Attacks on whole releases: a model, and an improvement bound of its policy.

Honest ones survive, broken twins do not.

Each attack runs on a worst-case pair of neighbouring logs: five people of whom one is replaced. It
sees all noisy numbers of the release in units of their noise, and judges them along the exact
difference of the two logs, which is the best test for Gaussian noise. An honest release is refuted
with probability at most 1 % (the confidence is 99 %), before the seed is fixed.
"""

import dataclasses
import functools

import numpy as np
import pytest

import confide
from confide.audit import refute
from confide.audit.mechanisms import Scaled
from confide.logs import in_memory
from confide.logs.split import SplitPart
from confide.mechanisms.sources import FastSource
from confide.offline import ModelRelease, improvement_question
from confide.offline._counting_kernels import PART
from confide.offline.gain_planning import CandidatePolicy, Mixture
from confide.release import LogSums, question
from confide.trajectory import LoggedUsers

PRIVATE = confide.CentralDP(4.0, 0.01)
K, PEOPLE, LONG = 4, 5, 4 * 4 + 1
HOLDS = SplitPart.holds
PAYS = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])


def log_of(state, action, reward, who=0, steps=K + 1, probability=0.5):
    """Five people, of whom one stays in one state with one action; what the others have does not
    exist, so that they contribute zero.
    """
    rows = np.full(PEOPLE, steps)
    ends = np.concatenate([[0], np.cumsum(rows)])
    states, actions = np.full(ends[-1], 99), np.zeros(ends[-1], int)
    mine = slice(ends[who], ends[who + 1])
    states[mine], actions[mine] = state, action
    users, valid = np.arange(PEOPLE + 1), np.ones(PEOPLE, bool)
    given = np.full(ends[-1], reward), ends, users, valid, actions, np.full(ends[-1], probability)
    return in_memory(LoggedUsers(states, *given), max_steps=steps)


class Seen(Exception):
    """Carries what an attacker sees; nothing after it reads the log."""


class Tapped(LogSums):
    """All noisy numbers of a release in units of their noise, at the moment at which the last of
    them is public.
    """

    def release(self, statistic):
        self.seen = [
            *getattr(self, "seen", []),
            (found := super().release(statistic)).values / found.noise.std,
        ]
        if self._budget.asked == len(self._budget):
            raise Seen(np.concatenate(self.seen))
        return found


@pytest.fixture(autouse=True)
def tapped(monkeypatch):
    monkeypatch.setattr(question, "LogSums", Tapped)


def tap(release):
    with pytest.raises(Seen) as seen:
        release()
    return seen.value.args[0]


@dataclasses.dataclass(frozen=True)
class Subject:
    """`seen(world, noise)` are the numbers of one release in units of the noise that they should
    have.
    """

    seen: object
    factor: float = 1.0

    @property
    def loss(self):
        return confide.privacy.loss_for(PRIVATE)

    def observe(self, world, runs, rng):
        source = Scaled(FastSource(rng), self.factor)
        return np.stack([self.seen(world, source) for _ in range(runs)])

    def score(self):
        zero, one = self.exact
        return lambda seen: (seen - (zero + one) / 2) @ (one - zero)

    @property
    def exact(self):
        return [
            self.seen(world, Scaled(FastSource(np.random.default_rng(0)), 1e-12))
            for world in (0, 1)
        ]

    @property
    def reached(self):
        """How much of mu the pair of logs uses up: 1 for a worst one."""
        return np.linalg.norm(np.subtract(*self.exact)) / self.loss.mu


def attack(subject, runs=150):
    return refute(subject, delta=PRIVATE.delta, runs=runs, rng=np.random.default_rng(0))


def survives(subject, runs=150):
    found = attack(subject, runs)
    return (
        not found.refuted
        and 0 < found.epsilon_lower < found.epsilon
        and 0.3 * found.mu < found.mu_lower < found.mu
    )


class Endless(ModelRelease):
    """A twin: the cap on transitions begins anew in every trajectory, and the log has several."""

    def statistic(self, *caps, **how):
        made = super().statistic(*caps, **how)
        weights = np.diff(np.sqrt(np.arange(4 * self.transitions + 1)), prepend=0.0)
        object.__setattr__(
            made, "weights", np.rint(weights * made.weights[1] / PART).astype(np.int64) * PART
        )
        return made


people = functools.cache(log_of)


def model_seen(made, steps, world, noise):
    return tap(
        lambda: made.release(
            people(1 + world, world, 1e9, steps=steps), privacy=PRIVATE, noise=noise
        )
    )


@pytest.mark.parametrize("rewards", [None, PAYS])
def test_a_model_survives_and_its_twins_do_not(rewards):
    sizes = {"states": 3, "actions": 2, "discount": 0.9, "transitions": K, "rewards": rewards}
    sizes |= {"ends": rewards is None, "reward_range": (0.0, 1.0)}
    short, long = (
        Subject(functools.partial(model_seen, ModelRelease(**sizes), steps))
        for steps in (K + 1, LONG)
    )
    # many transitions are clipped
    # the returns of the two people are not as far apart as any could be
    assert short.reached == pytest.approx(1.0, abs=0.05) and long.reached <= 1.001
    assert survives(short, runs=200)
    assert attack(dataclasses.replace(short, factor=0.5)).refuted
    assert attack(Subject(functools.partial(model_seen, Endless(**sizes), LONG))).refuted


MADE = ModelRelease(states=3, actions=2, discount=0.9, transitions=K, rewards=PAYS, ends=False)
POLICY = np.ones(3, int)  # action 1 everywhere
WORST = {  # what somebody has in two neighbouring logs
    "model": ((2, 1, 1.0), (1, 0, 1.0)),  # another row, and the largest return instead of the least
    # the same return, of weight zero or as large as the clip
    "weights": ((1, 0, 1.0), (1, 1, 1.0, 1e-6)),
}


@functools.cache
def learned():
    """A model that was released before the attack, and somebody who is in the other part."""
    parts = [log_of(1, 0, 1.0, who=who).split(0.5) for who in range(PEOPLE)]
    who = next(
        i
        for i, (_, test) in enumerate(parts)
        if any((block.states == 1).any() for block in test.blocks())
    )
    return MADE.release(parts[0][0], privacy=PRIVATE, rng=np.random.default_rng(0)), who


@functools.cache
def parts(method, world, who):
    state, action, reward, *probability = WORST[method][world]
    return log_of(state, action, reward, who, K + 1, *probability).split(0.5)


def both_seen(model, who, method, world, noise):
    """Everything that is published of both parts of a log: a release of the one; the improvement
    bound of the other, with its clip.
    """
    learn, test = parts(method, world, who)
    released = (
        tap(lambda: MADE.release(learn, privacy=PRIVATE, noise=noise.fork()))
        if method == "model"
        else np.zeros(0)
    )
    bound = tap(lambda: model.improvement(POLICY, test, method=method, noise=noise.fork()))
    mixture = improvement_question._choose_test(model, None, test, PRIVATE, method).mixture
    return np.concatenate([released, bound, [] if mixture is None else [mixture.clip]])


@pytest.fixture
def both(monkeypatch):
    """How to attack both parts with a method.

    What is asked of the held-out people is public: a function of the model alone.
    """
    with monkeypatch.context() as untapped:
        untapped.setattr(question, "LogSums", LogSums)
        model, who = learned()
    asked = improvement_question._choose_test(
        model,
        CandidatePolicy(np.eye(2)[POLICY], np.ones(3, bool)),
        people(1, 0, 1.0).split(0.5)[1],
        PRIVATE,
        "weights",
    )
    fixed = dataclasses.replace(asked, mixture=Mixture(1.0, 2.0, 0.0))
    models = dataclasses.replace(asked, method="model", mixture=None)
    monkeypatch.setattr(
        improvement_question, "_check", lambda *_: None
    )  # in memory every log has a name of its own: neighbours have the same
    monkeypatch.setattr(
        improvement_question,
        "_choose_test",
        lambda *call, **_: fixed if call[-1] == "weights" else models,
    )
    yield lambda method: Subject(functools.partial(both_seen, model, who, method))
    parts.cache_clear()


@pytest.mark.filterwarnings("ignore::confide.errors.ConfideWarning")
@pytest.mark.parametrize("method", ["model", "weights"])
def test_an_improvement_bound_survives_and_its_twins_do_not(both, monkeypatch, method):
    honest = both(method)
    assert honest.reached == pytest.approx(1.0, abs=0.01)
    assert survives(honest)
    assert attack(dataclasses.replace(honest, factor=0.5)).refuted
    if method == "model":  # people of both parts are counted in the learning part, too
        parts.cache_clear()
        monkeypatch.setattr(
            SplitPart,
            "holds",
            lambda part, ids: [True] * len(ids) if not part.test else HOLDS(part, ids),
        )
        assert attack(Subject(honest.seen), runs=400).refuted
    # the clip is as large as the largest weight among the people who are tested, instead of the
    # released model's
    else:
        fixed = improvement_question._choose_test(method)

        def recomputed(_, __, holdout, *___, **____):
            largest = max(
                1 / block.probabilities[block.states < 3].min(initial=1.0)
                for block in holdout.blocks()
            )
            return dataclasses.replace(fixed, mixture=Mixture(1.0, min(1 + largest, 20.0), 0.0))

        monkeypatch.setattr(improvement_question, "_choose_test", recomputed)
        assert attack(Subject(honest.seen), runs=100).refuted
