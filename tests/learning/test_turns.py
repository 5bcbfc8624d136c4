"""An agent that several threads use says plainly that it is not thread-safe."""

import threading

import numpy as np
import pytest

import confide
from confide.errors import StateError, StreamExhausted
from confide.learning.turns import NOT_THREAD_SAFE
from confide.mechanisms import noise_source
from confide.problems import lock

WORLD = lock()


def agent(episodes=5_000):
    privacy = confide.JointDP(1.0, 1e-5)
    return confide.agents.UCRLVTR(
        WORLD.public, episodes=episodes, privacy=privacy, noise=noise_source("fast", 0)
    )


def serve(one, number, errors):
    rng = np.random.default_rng(number)
    for _ in range(10):
        try:
            batch = one.next_batch()
            one.observe(WORLD.sample(batch.policy, min(batch.users, 100), rng))
        except Exception as error:
            errors.append(error)


def test_eight_threads_get_a_plain_error():
    shared = agent()
    errors = []
    threads = [threading.Thread(target=serve, args=(shared, number, errors)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(
        isinstance(error, StreamExhausted) or NOT_THREAD_SAFE in str(error) for error in errors
    ), errors


def test_a_call_in_the_middle_of_another_one_is_refused():
    shared = agent()
    batch = shared.next_batch()
    errors = []
    shared._turns.begin()
    thread = threading.Thread(target=serve, args=(shared, 0, errors))
    thread.start()
    thread.join()
    shared._turns.end()
    assert all("another thread is using this agent" in str(error) for error in errors)
    assert shared.next_batch() == batch


def test_an_error_after_another_threads_call_says_so():
    shared = agent()
    shared.next_batch()
    thread = threading.Thread(target=serve, args=(shared, 0, []))
    thread.start()
    thread.join()
    seen = WORLD.sample(WORLD.optimal_policy, 5_000, np.random.default_rng(0))
    with pytest.raises(
        StateError,
        match="Another thread has used this agent in between; an agent is not thread-safe",
    ):
        shared.observe(seen)


def test_threads_that_take_turns_are_served():
    shared = agent()
    errors = []
    for number in range(3):
        thread = threading.Thread(target=serve, args=(shared, number, errors))
        thread.start()
        thread.join()
    assert errors == []
    assert shared.users > 0
