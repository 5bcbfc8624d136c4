"""The loop of a run: it serves a batch of users with each policy until all users are served.

What leaves this file is the state file of an interrupted run. It is PRIVATE, because it contains
the agent's exact sums. Its entries are listed in `Loop.save`; `Loop.resume` reads the same ones.

Sizes of chunks may be changed freely where users are counted. Elsewhere the generator of the world
is used chunk by chunk, so other sizes give other users for the same seed.
"""

import io
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, StateError
from confide.learning.agent import abilities_of, agent_name
from confide.learning.learner import Learner
from confide.mechanisms.state import StateFile, pack, unpack
from confide.policy import Policy, load_policy
from confide.privacy.request import Trust
from confide.runs.run import Segment
from confide.trajectory import Trajectories, TransitionCounts, counts_of_nobody

Array = npt.NDArray[np.float64]

# Users who are sampled at a time, so that memory does not grow with the batch.
CHUNK = 65_536
# Devices that are simulated at a time. It is small, so that Ctrl-C does not wait for long.
DEVICES = 1024
# Up to so many users of an agent with device trust are simulated device by device, by default.
ONE_BY_ONE = 10_000
# So few users are sampled faster than they are counted.
FEW = 32
# Seconds between two saved states. A crash loses at most the work of so many seconds.
SAVE_EVERY = 5.0
# Seconds that a chunk has to end after Ctrl-C.
GRACE = 2.0

# It is called with the number of users served and the regret so far (None if it is unknown).
Progress = Callable[[int, float | None], None]


class Loop:
    """One run while it goes on: the agent, the generator of the world, and the segments so far.

    All of this survives a crash. Between two chunks of users the loop can be saved; within a chunk
    the agent may have absorbed only a part of it.

    Users come in one of four ways:
    - `ignores_users`: nobody is simulated, because the agent does not look at data and the values
      of its policies are known;
    - `uses_counts`: a whole batch comes as its exact transition counts;
    - `sends_messages`: each user is a device that sends a message;
    - otherwise as trajectories. If `is_crowd`, these are of devices, and the agent gets the sum of
      their messages, drawn at once.
    """

    def __init__(
        self,
        agent: Any,
        problem: Any,
        total: int,
        rng: np.random.Generator,
        state: StateFile | None,
        label: str,
        *,
        counts: bool | None = None,
    ) -> None:
        self.agent = agent
        self.problem = problem
        self.total = total
        self.rng = rng
        self.state = state
        self.label = label

        self.served = 0
        self.regret = 0.0
        self.segments: list[Segment] = []
        self.policy: Policy | None = None

        self.optimal_value = problem.optimal_value
        self.values_are_known = self.optimal_value is not None
        self.abilities = abilities_of(agent)

        self.ignores_users = self.values_are_known and self.abilities.ignores_data
        self.uses_counts = not self.ignores_users and _uses_counts(agent, problem, total, counts)
        has_devices = not self.ignores_users and not self.uses_counts and _has_devices(agent)
        self.is_crowd = (
            has_devices
            and counts is None
            and total > ONE_BY_ONE
            and agent.guarantee.source == "fast"
        )
        self.sends_messages = has_devices and not self.is_crowd
        # Few users are faster one by one. A crowd of devices needs counts.
        self._may_sample_few = not agent.guarantee.trust.devices

        # Of the last segment: users still to serve, and the sum and the sum of squares of returns.
        self._users_left = 0
        self._return_sum = 0.0
        self._squared_return_sum = 0.0
        # Whether users of the batch's policy have regrets of their own, which depend on where they
        # start, and the sum of these regrets in the last chunk.
        self._regret_by_start = False
        self._chunk_regret = 0.0

        self._saves = 0
        # The number of users served when the state was last saved.
        self._saved_at = -1
        self._stop = False
        # Whether it was interrupted half-way through a chunk.
        self.was_cut_off = False
        self._started = time.monotonic()
        self._saved_time = self._started

    def go(self, progress: Progress | None) -> None:
        """Serve users until all are served, or Ctrl-C is pressed; then keep what is done."""
        try:
            with self._polite_interrupt():
                while self.served < self.total and not self._stop:
                    self._serve_batch(progress)
        except KeyboardInterrupt:
            self._stop = True
        if self._stop or self.served == self.total:
            self.save()

    def _serve_batch(self, progress: Progress | None) -> None:
        batch = self.agent.next_batch()
        users = min(batch.users, self.total - self.served)
        if users < 1 or (self._users_left and users != self._users_left):
            raise InvalidParameter(
                f"{agent_name(self.agent)}.next_batch must serve at least one user, "
                f"got users={batch.users}"
            )
        counts_starts = getattr(self.problem, "counts_starts", None)
        self._regret_by_start = bool(
            self.values_are_known and counts_starts and counts_starts(batch.policy)
        )
        # A resumed run goes on with the segment that was not finished.
        if not self._users_left:
            self._begin_segment(batch.policy, users)
        self.policy = batch.policy
        while self._users_left and not self._stop:
            self._serve_chunk(batch.policy)
            if progress is not None:
                progress(self.served, self.regret if self.values_are_known else None)
            self._save_in_time()

    def _begin_segment(self, policy: Policy, users: int) -> None:
        value = None
        if self.values_are_known and not self._regret_by_start:
            value = self._value(policy)
        noise_std = None
        signal_size = None
        if self.abilities.levels:
            # Zero means that nothing was released yet, or that there is no noise.
            noise_std = self.agent.noise_level.std or None
            signal_size = self.agent.signal
        self.segments.append(Segment(0, value, None, noise_std, signal_size))
        self._users_left = users
        self._return_sum = 0.0
        self._squared_return_sum = 0.0

    def _value(self, policy: Policy) -> float:
        """The exact value of what users play.

        A device draws one of the round's policies, so it plays their average.
        """
        if not self.sends_messages:
            return float(self.problem.value(policy))
        current = self.agent.current_round()
        values = [self.problem.value(round_policy) for round_policy in current.policies]
        return float(np.average(values, weights=current.shares))

    def _serve_chunk(self, policy: Policy) -> None:
        """Serve the next users of the batch, and count them in its segment."""
        size = self._chunk_size()
        if self.sends_messages:
            returns = self._observe_devices(size)
        else:
            returns = self._observe(policy, size)
        segment = self.segments[-1]
        users = segment.users + size
        value = segment.value
        mean_return = None
        return_error = None
        if self._regret_by_start:
            self.regret += self._chunk_regret
            # The value of users whose starts cost the optimal policy as much as the average start.
            earlier_regret = 0.0
            if segment.value is not None:
                earlier_regret = segment.users * (self.optimal_value - segment.value)
            value = self.optimal_value - (earlier_regret + self._chunk_regret) / users
        elif segment.value is None:
            self._return_sum += float(returns.sum())
            self._squared_return_sum += float(returns @ returns)
            mean_return = self._return_sum / users
            variance = max(self._squared_return_sum / users - mean_return**2, 0.0)
            return_error = math.sqrt(variance / (users - 1)) if users > 1 else None
        else:
            self.regret += size * (self.optimal_value - segment.value)
        self.segments[-1] = replace(
            segment, users=users, value=value, mean_return=mean_return, return_error=return_error
        )
        self.served += size
        self._users_left -= size

    def _chunk_size(self) -> int:
        if self.uses_counts or self.ignores_users:
            return self._users_left
        largest = DEVICES if self.sends_messages else CHUNK
        # A problem whose users need much memory states how many of them fit.
        return min(self._users_left, getattr(self.problem, "chunk", largest), largest)

    def _observe(self, policy: Policy, users: int) -> Array:
        """Show the agent what so many users did.

        Return what each of them earned, if values are unknown, and otherwise an empty array.
        """
        seen: Trajectories | TransitionCounts
        if self.ignores_users:
            seen = counts_of_nobody(users, self.problem.horizon)
            if self._regret_by_start:
                starts = self.problem.starts_of(self.served, users)
                self._chunk_regret = float(self.problem.regrets(policy, starts).sum())
        elif self._regret_by_start:
            seen = self._sample_from_starts(policy, users, self.served)
        elif self.uses_counts and not (users <= FEW and self._may_sample_few):
            seen = self.problem.count(policy, users, self.rng)
        else:
            seen = self.problem.sample(policy, users, self.rng)
        if self.is_crowd:
            self.agent.observe_crowd(seen)
        else:
            self.agent.observe(seen)
        # Counts are used only where the policy's value is known.
        if self.values_are_known or isinstance(seen, TransitionCounts):
            return np.zeros(0)
        return np.asarray(seen.rewards.sum(axis=1))

    def _sample_from_starts(self, policy: Policy, users: int, first: int) -> Trajectories:
        """Simulate users, and add up their regrets, which depend on where they started.

        `first` is the number of the first of them among all users of the run.
        """
        seen: Trajectories = self.problem.sample(policy, users, self.rng, first=first)
        regret = float(self.problem.regrets(policy, seen.states[:, 0]).sum())
        is_start_of_chunk = first == self.served
        self._chunk_regret = regret if is_start_of_chunk else self._chunk_regret + regret
        return seen

    def _observe_devices(self, users: int) -> Array:
        """Simulate each user on a device of its own, and hand its message to the agent.

        Return what each user earned. All devices would plan the same round from the release, so it
        is planned once.
        """
        current_round = self.agent.current_round()
        generation = self.agent.released().generation
        sends_shares = self.agent.guarantee.trust is Trust.DISTRIBUTED
        new_client = self.agent.shares.client if sends_shares else self.agent.client
        clients = [new_client() for _ in range(users)]
        chosen_policies = [client.adopt(current_round, generation) for client in clients]

        returns = [np.zeros(0)]
        first = self.served
        for policy in current_round.policies:
            followers = [
                client
                for client, chosen in zip(clients, chosen_policies, strict=True)
                if chosen is policy
            ]
            if not followers:
                continue
            seen: Trajectories
            if self._regret_by_start:
                seen = self._sample_from_starts(policy, len(followers), first)
            else:
                seen = self.problem.sample(policy, len(followers), self.rng)
            first += len(followers)
            for place, client in enumerate(followers):
                trajectory = seen[place : place + 1]
                if sends_shares:
                    client.contribute(trajectory, self.agent.shares.simulate_aggregation)
                else:
                    self.agent.absorb(client.report(trajectory))
            returns.append(seen.rewards.sum(axis=1))
        return np.concatenate(returns)

    def _save_in_time(self) -> None:
        if self.state is None:
            return
        # Secure noise cannot be drawn again. Required for privacy: each batch must be on the disk
        # before anybody sees the next policy.
        saves_every_batch = self.agent.guarantee.source == "secure"
        if saves_every_batch or time.monotonic() - self._saved_time > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write the state file, if there is one and something is new. The file is PRIVATE."""
        if self.state is None or self._saved_at == self.served:
            return
        if not self.abilities.saves:
            raise StateError(
                f"{agent_name(self.agent)} does not declare Abilities(saves=True), so its run "
                "cannot be interrupted: run it without a state file"
            )
        facts = {
            "label": self.label,
            "served": self.served,
            "regret": self.regret,
            "left": self._users_left,
            "earned": self._return_sum,
            "squares": self._squared_return_sum,
            "seconds": time.monotonic() - self._started,
            "world": dict(self.rng.bit_generator.state),
            "segments": [segment.to_json() for segment in self.segments],
        }
        self._saves += 1
        arrays = {"agent": np.frombuffer(self.agent.save(), dtype=np.uint8)}
        if self.policy is not None:
            buffer = io.BytesIO()
            self.policy.save(buffer)
            arrays["policy"] = np.frombuffer(buffer.getvalue(), dtype=np.uint8)
        self.state.write(pack("run", self._saves, facts, arrays))
        self._saved_time = time.monotonic()
        self._saved_at = self.served

    def resume(self) -> float:
        """Continue a saved run, if there is one. Return the seconds that were spent on it."""
        if self.state is None or not self.state.path.exists():
            return 0.0
        saved = unpack(self.state.read(), "run", released=self.state.generation())
        facts = saved.facts
        if facts["label"] != self.label:
            raise StateError(
                f"the state file is of another run: {facts['label']}; this is {self.label}"
            )
        # The state file of the run refuses older states, so the agent's own check is not needed.
        restoring = {"released": 0, "resume": True} if isinstance(self.agent, Learner) else {}
        self.agent.restore(saved.arrays["agent"].tobytes(), **restoring)
        if "policy" in saved.arrays:
            self.policy = load_policy(io.BytesIO(saved.arrays["policy"].tobytes()))
        self.rng.bit_generator.state = facts["world"]
        self.served = facts["served"]
        self.regret = facts["regret"]
        self.segments = [Segment(**segment) for segment in facts["segments"]]
        self._users_left = facts["left"]
        self._return_sum = facts["earned"]
        self._squared_return_sum = facts.get("squares", 0.0)
        self._saved_at = self.served
        self._saves = saved.generation
        return float(facts["seconds"])

    @contextmanager
    def _polite_interrupt(self) -> Iterator[None]:
        """Ctrl-C asks to stop after this chunk. Pressed again, or after GRACE seconds, it
        interrupts the chunk; then only the last saved state is kept.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handler_before = signal.getsignal(signal.SIGINT)
        has_timer = (
            hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        )

        def interrupt(_number: int, _frame: Any) -> None:
            # Half-way through a chunk, what is in memory must not be saved.
            self.state = None
            self.was_cut_off = True
            raise KeyboardInterrupt

        def ask_to_stop(number: int, frame: Any) -> None:
            if self._stop:
                interrupt(number, frame)
            self._stop = True
            if has_timer:
                signal.setitimer(signal.ITIMER_REAL, GRACE)

        signal.signal(signal.SIGINT, ask_to_stop)
        if has_timer:
            signal.signal(signal.SIGALRM, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, handler_before)
            if has_timer:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _has_devices(agent: Any) -> bool:
    """Whether users send messages. An agent that promises this and cannot do it is refused."""
    has_devices: bool = agent.guarantee.trust.devices
    if has_devices and not abilities_of(agent).devices:
        request = agent.guarantee.request.kind
        raise InvalidParameter(
            f"{agent_name(agent)} states {request}, but does not declare Abilities(devices=True): "
            f"{request} needs client() and absorb()"
        )
    return has_devices


def _uses_counts(agent: Any, problem: Any, total: int, counts: bool | None) -> bool:
    """Whether users come as exact counts: `confide.run` explains `counts`."""
    has_devices = agent.guarantee.trust.devices
    is_fast = agent.guarantee.source == "fast"
    is_possible = abilities_of(agent).counts and hasattr(problem, "count")
    is_possible = is_possible and (is_fast or not has_devices)
    if counts and not is_possible:
        raise InvalidParameter(
            "counts=True needs an agent and a problem that can count transitions (and fast noise "
            f"where devices send messages): {agent_name(agent)} on {problem.name} cannot, "
            "use counts=None"
        )
    if counts is not None:
        return counts
    return is_possible and not (has_devices and total <= ONE_BY_ONE)
