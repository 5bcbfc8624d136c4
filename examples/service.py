# %% [markdown]
# # Devices, messages, and a server that may crash
#
# Run `python examples/service.py [--quick] [--out service]`, or run it cell by cell in an editor
# that supports `# %%`. docs/how-to/learn_with_local_privacy.md describes it. The server and the
# devices run in one process here, but exchange only bytes.

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
# A notebook adds arguments of its own, so unknown ones are ignored.
options, _ = parser.parse_known_args()
users = 60 if options.quick else 6_000
batch_size = 20 if options.quick else 500
published = options.out
published.mkdir(parents=True, exist_ok=True)
# The states of the server and of the devices must never be in the published folder.
temporary_folder = tempfile.TemporaryDirectory(prefix="service-")
private_folder = Path(temporary_folder.name)
server_state = private_folder / "server.state"
backup_state = private_folder / "backup.state"

# %% [markdown]
# ## What both sides share
# Server and devices need the public part of the problem, the schedule of releases and the privacy
# request.

# %%
# The server and the devices use only problem.public. The rest simulates the users.
problem = confide.problems.lock(seed=0)
privacy = confide.LocalDP(epsilon=8.0, delta=1e-6)
rng = np.random.default_rng(0)


def make_agent() -> LikelihoodVI:
    schedule = every(batch_size, users)
    return LikelihoodVI(problem.public, episodes=users, privacy=privacy, schedule=schedule)


def start_device(name: str) -> LocalClient:
    """Start a device, or start it again. Its state is kept in a file of this name."""
    agent = make_agent()
    return LocalClient(agent.algorithm, privacy, loss=agent.loss, store=private_folder / name)


def play(policy: Policy) -> Trajectories:
    """Simulate the episode of one user."""
    return problem.sample(policy, 1, rng)


def expect_refusal(send: Callable[[], None], error_class: type[ConfideError]) -> None:
    try:
        send()
    except error_class as error:
        print(f"  refused: {type(error).__name__}: {error}")
    else:
        raise AssertionError(f"expected {error_class.__name__}, but the server accepted it")


# %% [markdown]
# ## One user, from the release to the message

# %%
server = make_agent()
server.keep(server_state)
release = server.publish()
phone = start_device("phone")
message = phone.report(play(phone.plan(release)))
server.absorb(message)
print(f"one message of {len(message)} bytes: {phone.guarantee}")
expect_refusal(lambda: server.absorb(message), DuplicateMessage)

# %% [markdown]
# ## A batch of users, and a message that is too late

# %%
late_device = start_device("late")
late_message = late_device.report(play(late_device.plan(release)))
while server.released().generation == 0:
    # This is a device in the same process, with noise of its own.
    client = server.client()
    server.absorb(client.report(play(client.plan(release))))
print(f"{server.users} users, {server.released().generation} release")
expect_refusal(lambda: server.absorb(late_message), StaleMessage)

# %% [markdown]
# ## A crash within a batch
# The messages since the last release are lost with the process. The devices send the same bytes
# again, so noise is added only once per user.

# %%
release = server.publish()
device_names = [f"second-{i}" for i in range(batch_size // 2)]
messages = {}
for name in device_names:
    device = start_device(name)
    messages[name] = device.report(play(device.plan(release)))
    server.absorb(messages[name])
users_before_crash = server.users
del server

server = make_agent()
server.keep(server_state)
print(
    f"{users_before_crash} users before the crash, {server.users} in the state; "
    f"the release is the same: {server.publish() == release}"
)
for name in device_names:
    device = start_device(name)
    # The user plays another episode, but the device sends the bytes of its first report.
    message = device.report(play(device.plan(release)))
    assert message == messages[name]
    server.absorb(message)
assert server.users == users_before_crash

# %% [markdown]
# ## The remaining users, and an old backup that is refused

# %%
shutil.copy(server_state, backup_state)
while server.users < users:
    release = server.publish()
    client = server.client()
    server.absorb(client.report(play(client.plan(release))))
policies = server.current_round().policies
mean_value = np.mean([problem.value(policy) for policy in policies])
print(f"{server.users} users, {server.released().generation} releases")
print(
    f"value of the current policies: {mean_value:.2f}; "
    f"uniform play: {problem.uniform_value:.2f}, optimal play: {problem.optimal_value:.2f}"
)
shutil.copy(backup_state, server_state)
expect_refusal(lambda: make_agent().keep(server_state), StateError)

# %% [markdown]
# ## The published files

# %%
(published / "release.bin").write_bytes(server.publish())
policies[0].save(published / "policy.npz")
certificate = certify(server.guarantee, server.mechanisms(), subject="a rehearsal of the service")
verify(certificate)
certificate.save(published / "certificate.json")
file_names = sorted(path.name for path in published.iterdir())
print(f"{server.guarantee}\n{', '.join(file_names)} in {published}")
# In practice a service keeps its states, and they stay private.
temporary_folder.cleanup()
