# %% [markdown]
# # Devices, messages, and a server that may crash
#
# `python examples/service.py [--quick] [--out service]`, or cell by cell in an editor that supports `# %%`. It is described in
# docs/how-to/learn_with_local_privacy.md. Server and devices run in one process here, and exchange only bytes.

# %%
import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import confide
from confide.agents import LikelihoodVI, LocalClient
from confide.audit import verify
from confide.errors import ConfideError, DuplicateMessage, StaleMessage, StateError
from confide.policy import Policy
from confide.privacy import certify
from confide.privatizers import every
from confide.trajectory import Trajectories

parser = argparse.ArgumentParser(description="Devices, messages, and a server that may crash.")
parser.add_argument("--quick", action="store_true", help="fewer users and seeds; takes seconds")
parser.add_argument(
    "--out", type=Path, default=Path("service"), help="folder for the published files"
)
options, _ = parser.parse_known_args()  # a notebook adds its own arguments
users, between = (60, 20) if options.quick else (6_000, 500)
rehearsal = tempfile.TemporaryDirectory(prefix="service-")
out, kept = options.out, Path(rehearsal.name)  # states are never in the published folder
out.mkdir(parents=True, exist_ok=True)

# %% [markdown]
# ## What both sides know: the public part of the problem, the release schedule, the privacy request

# %%
world = confide.problems.lock(seed=0)  # the true problem, unknown to server and devices
promise = confide.LocalDP(epsilon=8.0, delta=1e-6)
rng = np.random.default_rng(0)


def learner() -> LikelihoodVI:
    return LikelihoodVI(
        world.public, episodes=users, privacy=promise, schedule=every(between, users)
    )


def device(name: str) -> LocalClient:
    made = learner()
    return LocalClient(made.algorithm, promise, loss=made.loss, store=kept / name)


def play(policy: Policy) -> Trajectories:
    return world.sample(policy, 1, rng)


def refused(send: Callable[[], None], kind: type[ConfideError]) -> None:
    try:
        send()
    except kind as error:
        print(f"  refused: {type(error).__name__}: {error}")
    else:
        raise AssertionError("it was accepted")


# %% [markdown]
# ## One user, from the release to the message

# %%
server = learner()
server.keep(kept / "server.state")
release = server.publish()
phone = device("phone")
message = phone.report(play(phone.plan(release)))
server.absorb(message)
print(f"one message of {len(message)} bytes: {phone.guarantee}")
refused(lambda: server.absorb(message), DuplicateMessage)

# %% [markdown]
# ## A batch of users, and a message that is too late

# %%
late = device("late")
too_late = late.report(play(late.plan(release)))
while server.released().generation == 0:
    client = server.client()  # a device in this process, with its own noise
    server.absorb(client.report(play(client.plan(release))))
print(f"{server.users} users, {server.released().generation} release")
refused(lambda: server.absorb(too_late), StaleMessage)

# %% [markdown]
# ## A crash within a batch
# Messages since the last release are lost with the process; devices send the same bytes again, so that noise is added once per user.

# %%
second = server.publish()
names = [f"second-{i}" for i in range(between // 2)]
sent = {}
for name in names:
    one = device(name)
    sent[name] = one.report(play(one.plan(second)))
    server.absorb(sent[name])
before = server.users
del server

server = learner()
server.keep(kept / "server.state")
print(
    f"{before} users before the crash, {server.users} in the state; the release is the same: {server.publish() == second}"
)
for name in names:
    restarted = device(name)
    again = restarted.report(play(restarted.plan(second)))  # another episode, the same bytes
    assert again == sent[name]
    server.absorb(again)
assert server.users == before

# %% [markdown]
# ## The remaining users, and an old backup that is refused

# %%
shutil.copy(kept / "server.state", kept / "backup.state")
while server.users < users:
    release = server.publish()
    client = server.client()
    server.absorb(client.report(play(client.plan(release))))
learned = np.mean([world.value(policy) for policy in server.current_round().policies])
print(f"{server.users} users, {server.released().generation} releases")
print(
    f"value of the current policies: {learned:.2f}; uniform play: {world.uniform_value:.2f}, optimal play: {world.optimal_value:.2f}"
)
shutil.copy(kept / "backup.state", kept / "server.state")
refused(lambda: learner().keep(kept / "server.state"), StateError)

# %% [markdown]
# ## The published files

# %%
(out / "release.bin").write_bytes(server.publish())
server.current_round().policies[0].save(out / "policy.npz")
certificate = certify(server.guarantee, server.mechanisms(), subject="a rehearsal of the service")
verify(certificate)
certificate.save(out / "certificate.json")
print(f"{server.guarantee}\n{', '.join(sorted(path.name for path in out.iterdir()))} in {out}")
rehearsal.cleanup()  # in practice a service keeps its states private
