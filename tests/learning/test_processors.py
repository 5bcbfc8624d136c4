"""Devices on other processors: their messages are counted if they answer the server's round, and
refused otherwise.
"""

import json
import os
import subprocess
import sys

import pytest

from confide.agents import QuestionsVI
from confide.errors import AnotherRound
from confide.mechanisms.sources import noise_source
from confide.privacy import LocalDP
from confide.privatizers import Message
from confide.problems import lock

# The first round of questions has many that are equally good, so that last bits decide between
# them.
PLAN = """
import json, sys
from confide.agents import QuestionsVI
from confide.mechanisms.sources import noise_source
from confide.privacy import LocalDP
from confide.problems import lock
import numpy as np
world = lock(0)
privacy = LocalDP(200.0, 1e-3)
agent = QuestionsVI(world.public, episodes=400, privacy=privacy, noise=noise_source("fast", 0))
agent.rng = np.random.default_rng(0)
client = agent.client()
policy = client.plan(bytes.fromhex(sys.argv[1]))
print(json.dumps(client.report(world.sample(policy, 1, np.random.default_rng(3))).hex()))
"""


@pytest.mark.process
def test_messages_from_other_processors():
    def server():
        return QuestionsVI(
            lock(0).public,
            episodes=400,
            privacy=LocalDP(200.0, 1e-3),
            noise=noise_source("fast", 0),
        )

    release = server().publish().hex()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PLAN, release],
            env={**os.environ, "OPENBLAS_CORETYPE": kernels},
            stdout=subprocess.PIPE,
            text=True,
        )
        for kernels in ("Nehalem", "Haswell")
    ]
    messages = [
        Message.from_bytes(bytes.fromhex(json.loads(process.communicate(timeout=120)[0])))
        for process in processes
    ]
    for message in messages:
        agent = server()
        if message.round == agent.current_round().digest:
            agent.absorb(message)
            assert agent.users == 1
        else:
            with pytest.raises(AnotherRound, match="another kind of processor"):
                agent.absorb(message)
            assert agent.users == 0
