"""Messages of a slim client: the noise is worth what the person accepts, whatever tables a server
sends.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from service_bench import device, play, serving, spec

from confide.errors import InvalidDocument, PromiseBroken
from confide.mechanisms.exact import ExactSource
from confide.policy import (
    TabularPolicy,
)
from confide.privatizers import Message
from confide.service.core.live import make_learner
from confide.service.core.round_document import plain_channel
from confide.service.device.episodes import contribution, message_bytes, sensitivity
from confide.service.device.messages import mechanism_of, message


def learner_of(epsilon, delta):
    """Of a local run that is so weakly private that additive noise is less than that of a
    report.
    """
    return make_learner(spec(trust="local", noise="secure", epsilon=epsilon, delta=delta))


@pytest.mark.parametrize(
    ("epsilon", "delta", "distribution"), [(60.0, 1e-5, "gaussian"), (200.0, 0.0, "laplace")]
)
def test_additive_noise_of_a_run(epsilon, delta, distribution):
    """A run's own channel keeps its promise and not a little more; its server takes the message.
    300 messages: the noise's standard
    deviation within 6 standard errors, 7 % over 20 numbers (false alarms below 1e-6)."""
    learner = learner_of(epsilon, delta)
    channel, statistic = plain_channel(learner.channel()), learner.current_round().statistic.plain()
    assert channel["noise"]["distribution"] == distribution
    mechanism = mechanism_of(channel, statistic, epsilon, delta)
    with pytest.raises(PromiseBroken):
        mechanism_of(channel, statistic, 0.8 * epsilon, delta)
    zero = np.zeros(channel["size"], dtype=np.int64)
    answered = learner.current_round().digest.hex()
    streams = [ExactSource(np.random.default_rng(seed).bytes) for seed in range(300)]
    sent = [message(channel, mechanism, zero, 0, answered, stream) for stream in streams]
    noise = np.array([Message.from_bytes(each).values for each in sent])
    assert np.std(noise) == pytest.approx(learner.channel().noise.std, rel=0.07)
    assert np.std(0.8 * noise) != pytest.approx(learner.channel().noise.std, rel=0.07)
    np.testing.assert_array_equal(learner.decoded(sent[0]), np.rint(noise[0] / channel["grid"]))


def test_sensitivity_is_that_of_the_worst_two_episodes():
    table = np.zeros((1, 1, 3, 2), dtype=int)
    table[0, 0, 1], table[0, 0, 2] = (3, 0), (0, 4)
    l2, l1 = sensitivity({"kind": "transitions", "steps": 4, "table": table.tolist()}, 0.5)
    assert (l2, l1) == (0.5 * 5 * 2, 0.5 * 7 * 4)


@pytest.fixture
def gaussian():
    learner = learner_of(60.0, 1e-5)
    return plain_channel(learner.channel()), learner.current_round().statistic.plain()


def test_a_server_cannot_make_the_noise_worth_less(gaussian):
    """By larger tables, by a smaller scale, or by another lattice."""
    channel, statistic = gaussian
    larger = statistic | {"table": (2 * np.array(statistic["table"])).tolist()}
    with pytest.raises(PromiseBroken):
        mechanism_of(channel, larger, 60.0, 1e-5)
    with pytest.raises(PromiseBroken):
        mechanism_of(
            channel | {"noise": channel["noise"] | {"scale": channel["noise"]["scale"] / 2}},
            statistic,
            60.0,
            1e-5,
        )
    with pytest.raises(InvalidDocument, match="lattice"):
        mechanism_of(
            channel | {"noise": channel["noise"] | {"step": 2 * channel["grid"]}},
            statistic,
            60.0,
            1e-5,
        )
    with pytest.raises(InvalidDocument, match="lattice"):
        mechanism_of(channel | {"noise": channel["noise"] | {"step": None}}, statistic, 60.0, 1e-5)
    with pytest.raises(InvalidDocument, match="knows no noise"):
        mechanism_of(channel | {"noise": {"distribution": "cube"}}, statistic, 60.0, 1e-5)


def test_a_server_cannot_make_a_budget_buy_more():
    """By a coarser grid, or by pairs of which all count at the same place."""
    statistic = {"kind": "budget", "layers": 1, "states": 2, "actions": 1, "steps": 8, "balance": 0}
    statistic |= {"indptr": [0, 2, 4], "successors": [0, 1, 0, 1], "costs": [2**38, 2**38]}
    l2, l1 = sensitivity(statistic, 2.0**-24)
    assert (l2, l1) == (math.sqrt(2), 2 * math.sqrt(2))
    assert sensitivity(statistic, 2.0**-20) == (16 * l2, 16 * l1)
    noise = {"distribution": "gaussian", "scale": 20.0, "step": 2.0**-24}
    channel = {
        "id": "00" * 8,
        "kind": "numbers",
        "size": 4,
        "grid": 2.0**-24,
        "source": "secure",
        "noise": noise,
    }
    rng = np.random.default_rng(0)
    made = [
        contribution(statistic, channel, (rng.integers(0, 2, 9).tolist(), [0] * 8, [])) * 2.0**-24
        for _ in range(200)
    ]
    assert 0.9 < max(np.linalg.norm(one - other) for one in made for other in made) <= l2
    for indptr in ([0, 0, 2, 4], [0, 2, 1], [-1, 2, 4], [0, 2, 5]):
        with pytest.raises(InvalidDocument):
            mechanism_of(channel, statistic | {"indptr": indptr}, 1.0, 1e-5)


def test_messages_have_the_bytes_of_the_library(bench):
    run = bench.create(trust="local")
    channel = plain_channel(run.learner.channel())
    made = Message(
        3,
        bytes(range(16)),
        bytes.fromhex(channel["id"]),
        np.array([17.0]),
        "index",
        bytes(range(32)),
    )
    assert (
        message_bytes(
            3, bytes(range(32)), bytes(range(16)), bytes.fromhex(channel["id"]), "index", [17.0]
        )
        == made.to_bytes()
    )


def test_a_server_cannot_raise_the_epsilon_of_a_message(folder):
    with serving(folder, spec(trust="local")) as http:
        one = device(http, "ann", trust="local")
        one.join()
        document = json.loads(json.dumps(one.round.document))
        document["channel"]["noise"]["epsilon"] = 40.0
        one.round = replace(one.round, document=document)
        with pytest.raises(PromiseBroken, match="epsilon=40"):
            one.report(*play(one, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("agent", "problem"), [("likelihood-vi", "lock"), ("tabular-psrl", "riverswim")]
)
def test_gaussian_noise_is_of_the_sensitivity_that_the_device_computes(folder, agent, problem):
    """A run for clients that draw numbers; the noise is not weaker than what the tables need, up to
    the rounding that the server adds.
    """
    made = spec(agent=agent, problem=problem, trust="local", local_noise="gaussian")
    with serving(folder, made) as http:
        run = http.service.runs["demo"]
        channel, statistic = (json.loads(run.round.body)[name] for name in ("channel", "statistic"))
        found, stated = sensitivity(statistic, channel["grid"])[0], channel["noise"]["sensitivity"]
        assert stated * (1 - 1e-5) <= found <= stated
        one = device(http, "ann", trust="local")
        one.join()
        world, rng = made.make_problem(), np.random.default_rng(0)
        episode = world.sample(
            TabularPolicy(np.array(one.round.policy["actions"]), one.round.policy["choices"]),
            1,
            rng,
        )
        assert one.report(episode.states[0], episode.actions[0], episode.rewards[0]) == "counted"
        weak = json.loads(json.dumps(one.round.document))
        weak["channel"]["noise"]["scale"] *= 0.9
        other = device(http, "bob", trust="local")
        other.join()
        other.round = replace(other.round, document=weak)
        with pytest.raises(PromiseBroken, match="noise gives epsilon="):
            other.report([0, 0], [0], [0.0])
