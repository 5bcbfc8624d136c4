import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import confide
from confide.agents import UCRLVTR
from confide.audit import verify
from confide.errors import CertificateError, InvalidParameter, StateError
from confide.identity import Identity
from confide.learning.algorithm import Calibration, Round
from confide.learning.learner import Learner
from confide.learning.reference import NoData, Oracle, Uniform
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import StateFile
from confide.policy import TabularPolicy
from confide.privacy.bounded import L2Ball
from confide.privacy.loss import PureDP
from confide.privacy.request import Trust
from confide.privatizers import geometric
from confide.problems import lock
from confide.runs.run import Run
from confide.runs.runner import run

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("visits_agent", HERE / "visits_agent.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
Visits = _module.Visits

PROBLEM = lock(0)
PRIVACY = confide.JointDP(1.0, 1e-5)


def visits(episodes=5000, privacy=PRIVACY):
    return Visits(PROBLEM.public, episodes=episodes, privacy=privacy)


def test_reference_agents_have_exact_regret():
    K = 1000
    for agent, value in (
        (Uniform(PROBLEM.public, episodes=K), 0.1108),
        (Oracle(PROBLEM, episodes=K), 1.1676),
        (NoData(PROBLEM.public, episodes=K), 0.0834),
    ):
        done = run(agent, PROBLEM)
        assert done.value[-1] == pytest.approx(value, abs=1e-4)
        assert done.regret[-1] == pytest.approx(K * (PROBLEM.optimal_value - done.value[-1]))
        assert done.checkpoints[-1] == K
        assert done.guarantee.trust is Trust.NONE


def test_regret_is_the_sum_over_users():
    done = run(visits(), PROBLEM, seed=3)
    per_user = np.concatenate(
        [np.full(s.users, PROBLEM.optimal_value - s.value) for s in done.segments]
    )
    np.testing.assert_allclose(done.regret, np.cumsum(per_user)[done.checkpoints - 1], rtol=1e-12)
    assert [s.users for s in done.segments] == list(np.diff([0, *visits().schedule.times]))
    # exact averages over users are not part of what is published
    assert np.isnan(done.mean_return).all()


def test_one_seed_decides_everything():
    one = run(visits(), PROBLEM, seed=1)
    same = run(visits(), PROBLEM, seed=1)
    other = run(visits(), PROBLEM, seed=2)
    assert one.segments == same.segments
    assert one.segments != other.segments
    assert one.certificate.document["guarantee"]["epsilon"] == pytest.approx(1.0)


def test_the_certificate_of_a_run_verifies():
    done = run(visits(), PROBLEM)
    assert verify(done.certificate).epsilon == pytest.approx(1.0)
    assert (
        str(done.guarantee)
        == "JointDP(epsilon=1, delta=1e-05), replace one user, 5000 users, fast noise"
    )


def test_it_saves_and_loads(tmp_path):
    done = run(visits(), PROBLEM, command="confide run ...")
    done.save(tmp_path / "a")
    back = Run.load(tmp_path / "a")
    np.testing.assert_array_equal(back.regret, done.regret)
    np.testing.assert_array_equal(back.policy.actions, done.policy.actions)
    assert back.segments == done.segments
    assert back.certificate == done.certificate
    assert (back.command, back.versions) == (done.command, done.versions)
    header, *rows = (tmp_path / "a/curve.csv").read_text().splitlines()
    assert header == "users,regret,value,mean_return,noise_std,signal"
    assert len(rows) == len(done.checkpoints)
    (tmp_path / "a/certificate.json").unlink()
    with pytest.raises(
        InvalidParameter, match=r"not contain the whole run: certificate\.json is missing"
    ):
        Run.load(tmp_path / "a")
    (tmp_path / "a/run.json").write_text("{}")
    with pytest.raises(InvalidParameter, match="does not contain a saved run"):
        Run.load(tmp_path / "a")


def test_fewer_episodes_than_the_agents_but_never_more():
    assert run(visits(), PROBLEM, episodes=1234).episodes == 1234
    for episodes in (0, 5001):
        with pytest.raises(InvalidParameter, match="between 1 and the agent's 5000"):
            run(visits(), PROBLEM, episodes=episodes)


def test_an_agent_that_has_seen_data_is_refused():
    agent = visits()
    run(agent, PROBLEM, episodes=100)
    with pytest.raises(InvalidParameter, match="already absorbed data"):
        run(agent, PROBLEM)


def test_ctrl_c_keeps_what_is_done_and_goes_on(tmp_path):
    whole = run(visits(), PROBLEM, seed=4)
    state = StateFile(tmp_path / "run.state")

    def interrupt(served, _regret):
        if served > 1000:
            raise KeyboardInterrupt

    part = run(visits(), PROBLEM, seed=4, state=state, progress=interrupt)
    assert 1000 < part.episodes < 5000
    assert not part.complete
    assert oct(os.stat(state.path).st_mode & 0o777) == "0o600"
    rest = run(visits(), PROBLEM, seed=4, state=state)
    assert rest.segments == whole.segments
    # Complete: nothing is drawn again.
    again = run(visits(), PROBLEM, seed=4, state=state)
    assert again.segments == whole.segments
    np.testing.assert_array_equal(again.policy.actions, whole.policy.actions)


def test_the_state_of_another_run_is_refused(tmp_path):
    state = StateFile(tmp_path / "run.state")

    def interrupt(_served, _regret):
        raise KeyboardInterrupt

    run(visits(), PROBLEM, seed=4, state=state, progress=interrupt)
    with pytest.raises(StateError, match="another run"):
        run(visits(), PROBLEM, seed=5, state=state)


def test_real_interrupts_at_any_moment_are_taken_up_with_the_same_bits(tmp_path):
    """SIGINT from a timer, whatever the code is doing: the run stops between two chunks, and goes
    on from there.
    """

    def fresh():
        agent = UCRLVTR(PROBLEM.public, episodes=30_000, privacy=PRIVACY)
        agent.abilities = replace(agent.abilities, counts=False)
        return agent

    whole = run(fresh(), PROBLEM, seed=1)
    rng = np.random.default_rng(0)
    interrupted = 0
    for trial in range(8):
        state = StateFile(tmp_path / f"{trial}.state")
        timer = threading.Timer(
            float(rng.uniform(0.001, 0.05)), os.kill, (os.getpid(), signal.SIGINT)
        )
        # a late timer must not stop the tests
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        timer.start()
        part = run(fresh(), PROBLEM, seed=1, state=state)
        timer.join()
        signal.signal(signal.SIGINT, before)
        interrupted += not part.complete
        assert run(fresh(), PROBLEM, seed=1, state=state).segments == whole.segments
    assert interrupted


def test_agents_that_are_none_are_refused():
    class Nothing:
        guarantee = None

        def next_batch(self):
            return None

        def observe(self, users):
            return users

    with pytest.raises(InvalidParameter, match="must be a Guarantee"):
        run(Nothing(), PROBLEM, episodes=3)
    with pytest.raises(InvalidParameter, match="give episodes="):
        run(Nothing(), PROBLEM)
    with pytest.raises(InvalidParameter, match="no next_batch"):
        run("uniform", PROBLEM)
    with pytest.raises(InvalidParameter, match="seed must be at least 0"):
        run(Uniform(PROBLEM.public, episodes=3), PROBLEM, seed=-1)


def test_a_saved_promise_that_does_not_hold_is_not_shown(tmp_path):
    run(visits(), PROBLEM).save(tmp_path / "a")
    text = (tmp_path / "a/certificate.json").read_text()
    document = json.loads(text)
    document["guarantee"]["epsilon"] = 0.001
    (tmp_path / "a/certificate.json").write_text(json.dumps(document))
    with pytest.raises(CertificateError, match="is stated"):
        Run.load(tmp_path / "a")


KILLED = """
    import importlib.util, sys, time
    import confide
    import confide.runs.loop as loop
    import confide.runs.runner as runner
    from confide.mechanisms.state import StateFile
    from confide.mechanisms.sources import noise_source
    from confide.problems import lock

    spec = importlib.util.spec_from_file_location("visits_agent", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loop.SAVE_EVERY = 0.0
    problem = lock(0)
    shown = open(sys.argv[3] + ".shown", "a")

    class Slow(module.Visits):
        name = "visits"
        def next_batch(self):
            time.sleep(0.02)
            release = self._privatizer.release()
            print(release.generation, list(release.values), file=shown, flush=True)
            return super().next_batch()

    agent = Slow(problem.public, episodes=5000, privacy=confide.JointDP(1.0, 1e-5))
    source = noise_source("secure") if sys.argv[4] == "secure" else None
    state = StateFile(sys.argv[2])
    runner.run(agent, problem, seed=9, state=state, source=source).save(sys.argv[3])
"""


@pytest.mark.parametrize("source", ["fast", "secure"])
def test_killed_half_way_it_resumes_with_the_same_bits_and_the_same_noise(tmp_path, source):
    """SIGKILL three times. Whatever release was planned from before a kill has the same noise
    after it.
    """
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(KILLED),
        HERE / "visits_agent.py",
        tmp_path / "s.state",
        tmp_path / "out",
        source,
    ]
    for pause in (0.1, 0.25, 0.15):
        process = subprocess.Popen(command)
        while not (tmp_path / "s.state").exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(pause)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True)
    seen = {}
    for line in (tmp_path / "out.shown").read_text().splitlines():
        generation, values = line.split(" ", 1)
        # A kill may cut a line.
        if values.endswith("]"):
            assert seen.setdefault(generation, values) == values
    resumed = Run.load(tmp_path / "out")
    assert resumed.complete
    if source == "fast":
        agent = visits()
        agent.name = "visits"
        assert resumed.segments == run(agent, PROBLEM, seed=9).segments


def test_a_million_episodes_of_uniform_play():
    assert run(Uniform(PROBLEM.public, episodes=10**6), PROBLEM).episodes == 10**6


def test_trajectories_hide_what_users_did():
    seen = PROBLEM.sample(PROBLEM.optimal_policy, 3, np.random.default_rng(0))
    assert repr(seen) == "Trajectories()"


LOCAL = confide.LocalDP(10.0, 1e-6)


def local(episodes=2000, privacy=LOCAL):
    return UCRLVTR(PROBLEM.public, episodes=episodes, privacy=privacy)


def test_a_local_run_goes_through_devices_and_messages():
    """Uniform play loses 2114; device by device it was measured at 400 to 800."""
    absorbed = []

    class Counting(UCRLVTR):
        def absorb(self, message):
            absorbed.append(message)
            super().absorb(message)

    done = run(Counting(PROBLEM.public, episodes=2000, privacy=LOCAL), PROBLEM, seed=1)
    assert len(absorbed) == len(set(absorbed)) == done.episodes == 2000
    assert (
        str(done.guarantee)
        == "LocalDP(epsilon=10, delta=0), replace one user, 2000 users, fast noise"
    )
    assert verify(done.certificate).epsilon == pytest.approx(10.0)
    assert "imulated" not in str(
        [done.certificate.document[key] for key in ("mechanisms", "assumptions")]
    ).replace("simulation", "")
    assert done.regret[-1] < 0.6 * 2000 * (PROBLEM.optimal_value - PROBLEM.uniform_value)


def test_a_local_crowd_is_simulated_and_says_so():
    # Too many to send messages one by one.
    done = run(local(20_000), PROBLEM)
    assert done.certificate.assumptions[-1].kind == "simulated"
    assert "drawn at once" in done.certificate.assumptions[-1].text
    assert "simulated for 20000 users" in done.certificate.document["mechanisms"][0]["query"]
    assert done.regret[-1] < 0.2 * 20_000 * (PROBLEM.optimal_value - PROBLEM.uniform_value)
    assert (
        run(local(300), PROBLEM, counts=True)
        .certificate.document["mechanisms"][0]["query"]
        .endswith("one Gaussian sum with the messages' variance")
    )


def test_messages_and_crowds_lose_alike():
    """Mean regret of 300 users over 12 seeds of each: the two means differ by less than 4 standard
    errors but for 1e-4.
    """
    ways = [
        [run(local(300), PROBLEM, seed=seed, counts=counts).regret[-1] for seed in range(12)]
        for counts in (True, False)
    ]
    error = np.sqrt(sum(np.var(way, ddof=1) / len(way) for way in ways))
    assert abs(np.mean(ways[0]) - np.mean(ways[1])) < 4 * error + 1e-9


def test_user_by_user_when_asked():
    by_users = run(UCRLVTR(PROBLEM.public, episodes=2000, privacy=PRIVACY), PROBLEM, counts=False)
    assert "Simulated" not in str(by_users.certificate.document["assumptions"])
    counted = run(UCRLVTR(PROBLEM.public, episodes=2000, privacy=PRIVACY), PROBLEM, counts=True)
    assert "Simulated" in str(counted.certificate.document["assumptions"])
    with pytest.raises(InvalidParameter, match="counts=True needs"):
        run(visits(), PROBLEM, counts=True)
    with pytest.raises(InvalidParameter, match="fast noise where devices send messages"):
        run(local(60), PROBLEM, counts=True, source=noise_source("secure"))


def test_secure_devices():
    done = run(local(60), PROBLEM, source=noise_source("secure"))
    assert (done.guarantee.users, done.guarantee.source) == (60, "secure")
    assert verify(done.certificate).losses == (PureDP(done.certificate.guarantee.request.epsilon),)


def test_an_interrupted_local_run_is_taken_up_with_the_same_bits(tmp_path):
    whole = run(local(3000), PROBLEM, seed=2)
    state = StateFile(tmp_path / "run.state")
    # In the middle of a round: chunks of 1024 devices, or fewer.
    stops = iter([40, 700, 2200])

    def until(stop):
        def interrupt(served, _regret):
            if served > stop:
                raise KeyboardInterrupt

        return interrupt

    for stop in stops:
        assert not run(local(3000), PROBLEM, seed=2, state=state, progress=until(stop)).complete
    assert run(local(3000), PROBLEM, seed=2, state=state).segments == whole.segments


class EitherAction:
    """Two policies at a time; users contribute where they ended."""

    bound = L2Ball(1.0, PROBLEM.states)

    def plan(self, released):
        policies = tuple(
            TabularPolicy(np.full((PROBLEM.horizon, PROBLEM.states), a), PROBLEM.actions)
            for a in range(2)
        )
        return Round(policies, self, memory={"seen": np.array(released.generation)})

    def contribution(self, users):
        return self.bound.clip(np.eye(PROBLEM.states)[users.states[0, -1]])


def test_devices_play_the_average_of_a_rounds_policies():
    calibration = Calibration(EitherAction(), geometric(100))
    agent = Learner(calibration, privacy=LOCAL, identity=Identity("either"))
    agent.name = "either"
    done = run(agent, PROBLEM)
    values = [PROBLEM.value(policy) for policy in agent.algorithm.plan(agent.released()).policies]
    assert done.complete
    assert [segment.value for segment in done.segments] == pytest.approx(
        [np.mean(values)] * len(done.segments)
    )


def test_a_local_promise_without_devices_is_refused(monkeypatch):
    promise = UCRLVTR(
        PROBLEM.public, episodes=10, privacy=LOCAL, noise=noise_source("fast", 0)
    ).guarantee
    monkeypatch.setattr(Visits, "guarantee", promise)
    with pytest.raises(InvalidParameter, match=r"does not declare Abilities"):
        run(visits(), PROBLEM)
