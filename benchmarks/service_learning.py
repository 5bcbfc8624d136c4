"""Learning over HTTP against the same run in one process: final values, joint and local.

A crowd of simulated users uses a real server through the Python client: up to 2,000 of them are in
flight at the same time; some are late, some send their report twice, some stay silent for ever, and
1 % send nonsense.

    python benchmarks/service_learning.py --seeds 4 --write
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from record import record

import confide
from confide.errors import StaleMessage
from confide.mechanisms.sources import noise_source
from confide.service.core.folder import ServiceFolder
from confide.service.core.verification import verify_store
from confide.service.device.client import Accepts, Device
from confide.service.device.crowd import SharedReads, plain_policy
from confide.service.device.transport import ServiceRefused, over_http

PORT = 18741
USERS = 4000
EVERY = 1000
IN_FLIGHT = 2000
REQUESTS = {"joint": confide.JointDP(0.02, 1e-5), "local": confide.LocalDP(0.5, delta=0.0)}
PROBLEM = confide.problems.lock(0)


def value(agent):
    """Of the last round's policies, by their shares."""
    current = agent.current_round()
    shares = np.array(current.shares or [1.0] * len(current.policies))
    return float(
        sum(
            share * PROBLEM.value(policy)
            for share, policy in zip(shares / shares.sum(), current.policies, strict=True)
        )
    )


def make_agent(trust, seed):
    schedule = confide.privatizers.every(EVERY, USERS)
    agent = confide.agents.LikelihoodVI(
        PROBLEM.public,
        episodes=USERS,
        privacy=REQUESTS[trust],
        schedule=schedule,
        noise=noise_source("fast", seed),
    )
    agent.rng = np.random.default_rng(seed)
    return agent


def alone(trust, seed):
    """In one process, user by user."""
    learner = make_agent(trust, seed)
    rng = np.random.default_rng(1000 + seed)
    for _ in range(USERS):
        policy = learner.assign(int(rng.integers(2**62)) << 66).policy
        episode = PROBLEM.sample(policy, 1, rng)
        if trust == "joint":
            learner.observe(episode)
        else:
            client = learner.client()
            client.adopt(learner.current_round(), learner.released().generation)
            learner.absorb(client.report(episode))
    return value(learner)


def over_the_network(trust, seed, folder):
    """Learn over HTTP from a crowd of simulated users.

    Return the final value and the outcomes of users. Check what the database says of the guarantee.
    """
    request = REQUESTS[trust]
    run = Path(folder) / "run.toml"
    run.write_text(
        f'name = "crowd"\nagent = "likelihood-vi"\nproblem = "lock"\ntrust = "{trust}"\n'
        f"epsilon = {request.epsilon}\ndelta = {request.delta}\n"
        f'users = {USERS}\nnoise = "fast"\nseed = {seed}\n[batch]\nschedule = {EVERY}\n'
    )
    command = [
        sys.executable,
        "-m",
        "confide",
        "serve",
        str(run),
        "--port",
        str(PORT),
        "--folder",
        str(Path(folder) / "service"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        key = [server.stderr.readline() for _ in range(2)][1].rsplit(" ", 1)[1].strip()
        while "serving" not in server.stdout.readline():
            pass
        outcomes = crowd(trust, seed, key)
        server.terminate()
    place = ServiceFolder(Path(folder) / "service")
    store = place.store()
    failed = [
        finding.says
        for finding in verify_store(store, place.keys, place.marks)
        if not finding.holds
    ]
    people = sum(store.participants("crowd").values())
    store.close()
    service = place.open()
    final = value(service.runs["crowd"].learner)
    service.stop()
    place.let_go()
    assert not failed and people == USERS, (failed, people)
    return final, outcomes


def crowd(trust, seed, key):
    send = SharedReads(over_http())
    rng = random.Random(seed)
    outcomes = {}
    accepts = Accepts(REQUESTS[trust].epsilon, REQUESTS[trust].delta, trust, simulation=True)

    def join(number):
        device = Device(
            f"http://127.0.0.1:{PORT}",
            "crowd",
            subject=f"person {number}",
            api_key=key,
            accepts=accepts,
            send=send,
            source=noise_source("fast"),
        )
        device.join()
        return number, device

    def report(pair):
        number, device = pair
        kind = rng.random()
        own = np.random.default_rng([seed, number])
        if kind < 0.03:
            return "silent"
        episode = PROBLEM.sample(plain_policy(device.round.policy), 1, own)
        parts = (episode.states[0], episode.actions[0], episode.rewards[0])
        try:
            if kind < 0.04:
                parts = ([1e300] * 6, ["nonsense"] * 5, [float("nan")] * 5)
            outcome = device.report(*parts)
            if kind > 0.95:
                assert device.report(*parts) == "same"
        except StaleMessage:
            send.forget()
            return "late"
        except ServiceRefused as refused:
            return refused.kind
        return outcome

    number = 0
    with ThreadPoolExecutor(16) as pool:
        while outcomes.get("finished", 0) == 0 and number < 20 * USERS:
            left = USERS - outcomes.get("counted", 0)
            flying = list(pool.map(join, range(number, number + max(50, min(IN_FLIGHT, 2 * left)))))
            number += len(flying)
            rng.shuffle(flying)
            for outcome in pool.map(report, flying):
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
            send.forget()
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/runs/crowd/release") as answer:
                if int(answer.headers["confide-generation"]) >= USERS // EVERY:
                    break
    return outcomes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=4, help="the number of seeds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    lines = [
        "| trust | in one process | over HTTP | difference / its standard error | users |",
        "|---|---|---|---|---|",
    ]
    for trust in REQUESTS:
        one = np.array([alone(trust, seed) for seed in range(4 * options.seeds)])
        two = []
        total = {}
        started = time.monotonic()
        for seed in range(options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                final, outcomes = over_the_network(trust, seed, folder)
            two.append(final)
            total = {
                name: total.get(name, 0) + outcomes.get(name, 0) for name in {*total, *outcomes}
            }
            print(trust, seed, final, outcomes, f"{time.monotonic() - started:.0f} s", flush=True)
        two = np.array(two)
        error = np.sqrt(one.var(ddof=1) / len(one) + two.var(ddof=1) / len(two))
        outcome_text = ", ".join(f"{count:,} {name}" for name, count in sorted(total.items()))
        apart = (two.mean() - one.mean()) / error
        lines.append(
            f"| {trust} | {one.mean():.4f} ({len(one)} runs) | {two.mean():.4f} ({len(two)} runs) "
            f"| {apart:+.2f} | {outcome_text} |"
        )
    text = (
        f"`likelihood-vi` on `lock`, {USERS:,} users, a release after each {EVERY}; "
        f"optimal value {PROBLEM.optimal_value:.4f}. Joint: "
        f"{REQUESTS['joint']}; local: {REQUESTS['local']}. `confide service verify` held for every "
        "database: each person was counted once.\n\n"
    )
    record("Learning over HTTP", text + "\n".join(lines) + "\n", write=options.write)


if __name__ == "__main__":
    main()
