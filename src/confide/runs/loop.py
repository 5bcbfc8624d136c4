"""The loop of a run: a batch of users for each policy, until all users are served."""

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
CHUNK = 65_536  # users sampled at a time: memory does not grow with the batch
DEVICES = 1024  # simulated at a time, so that Ctrl-C does not wait for long
ONE_BY_ONE = 10_000  # up to so many users of a local promise are simulated device by device
FEW = 32  # users who are not worth counting
SAVE_EVERY = 5.0  # seconds between two saved states
# Seconds that a chunk has to end after Ctrl-C.
GRACE = 2.0

Progress = Callable[[int, float | None], None]  # (users served, regret so far)


class Loop:
    """What must survive a crash: the agent, the world's generator, and the segments so far. Between two chunks of users it is whole.

    Users come as trajectories, as exact counts (`counted`), or under a local promise as devices that send messages (`messages`); a `crowd`
    of devices sends the sum of them.
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
        self.agent, self.problem, self.total, self.rng, self.state, self.label = (
            agent,
            problem,
            total,
            rng,
            state,
            label,
        )
        self.served, self.regret = 0, 0.0
        self.segments: list[Segment] = []
        self.policy: Policy | None = None
        self.optimal_value = problem.optimal_value
        self.known = self.optimal_value is not None
        self.abilities = abilities_of(agent)
        self.ignored = self.known and self.abilities.ignores_data
        self.counted = not self.ignored and _counted(agent, problem, total, counts)
        local = not self.ignored and not self.counted and _local(agent)
        self.crowd = (
            local and counts is None and total > ONE_BY_ONE and agent.guarantee.source == "fast"
        )
        self.messages = local and not self.crowd
        # few users are faster one by one; a crowd of devices needs counts
        self._alone = not agent.guarantee.trust.devices
        self._left, self._earned, self._squares = 0, 0.0, 0.0  # of the segment that is not finished
        # Whether users of the batch's policy have regrets of their own, and what those of the last chunk lost together.
        self._by_start, self._lost = False, 0.0
        self._saves, self._saved_at, self._stop = 0, -1, False
        # Whether it was interrupted half-way through a chunk.
        self.abrupt = False
        self._started = self._saved = time.monotonic()

    def go(self, progress: Progress | None) -> None:
        """Serve users until all are served, or Ctrl-C is pressed; then keep what is done."""
        try:
            with self._polite_interrupt():
                while self.served < self.total and not self._stop:
                    self._batch(progress)
        except KeyboardInterrupt:
            self._stop = True
        if self._stop or self.served == self.total:
            self.save()

    def _batch(self, progress: Progress | None) -> None:
        batch = self.agent.next_batch()
        users = min(batch.users, self.total - self.served)
        if users < 1 or (self._left and users != self._left):
            raise InvalidParameter(
                f"{agent_name(self.agent)}.next_batch must serve at least one user, got users={batch.users}"
            )
        counts_starts = getattr(self.problem, "counts_starts", None)
        self._by_start = bool(self.known and counts_starts and counts_starts(batch.policy))
        if not self._left:
            self._open(batch.policy, users)
        self.policy = batch.policy
        while self._left and not self._stop:
            self._chunk(batch.policy)
            if progress is not None:
                progress(self.served, self.regret if self.known else None)
            self._save_in_time()

    def _open(self, policy: Policy, users: int) -> None:
        value = self._value(policy) if self.known and not self._by_start else None
        noise_std = signal = None
        if self.abilities.levels:
            # zero: nothing released yet, or no noise
            noise_std, signal = self.agent.noise_level.std or None, self.agent.signal
        self.segments.append(Segment(0, value, None, noise_std, signal))
        self._left, self._earned, self._squares = users, 0.0, 0.0

    def _value(self, policy: Policy) -> float:
        """Of what a user plays: a device plays one of the round's policies at random, which is worth their average."""
        if not self.messages:
            return float(self.problem.value(policy))
        current = self.agent.current_round()
        return float(
            np.average(
                [self.problem.value(one) for one in current.policies], weights=current.shares
            )
        )

    def _chunk(self, policy: Policy) -> None:
        most = DEVICES if self.messages else CHUNK
        size = (
            self._left
            if self.counted or self.ignored
            else min(self._left, getattr(self.problem, "chunk", most), most)
        )
        earned = self._devices(size) if self.messages else self._observe(policy, size)
        now = self.segments[-1]
        users, mean_return, error = now.users + size, None, None
        if self._by_start:
            self.regret += self._lost
            # The value of users whose starts cost the optimal policy as much as the average start does.
            before = 0.0 if now.value is None else now.users * (self.optimal_value - now.value)
            now = replace(now, value=self.optimal_value - (before + self._lost) / users)
        elif now.value is None:
            self._earned, self._squares = (
                self._earned + float(earned.sum()),
                self._squares + float(earned @ earned),
            )
            mean_return = self._earned / users
            variance = max(self._squares / users - mean_return**2, 0.0)
            error = math.sqrt(variance / (users - 1)) if users > 1 else None
        else:
            self.regret += size * (self.optimal_value - now.value)
        self.segments[-1] = Segment(users, now.value, mean_return, now.noise_std, now.signal, error)
        self.served, self._left = self.served + size, self._left - size

    def _observe(self, policy: Policy, users: int) -> Array:
        """Show the agent what so many users did; what each of them got, if nobody knows what to expect."""
        seen: Trajectories | TransitionCounts
        if self.ignored:
            seen = counts_of_nobody(users, self.problem.horizon)
            if self._by_start:
                starts = self.problem.starts_of(self.served, users)
                self._lost = float(self.problem.regrets(policy, starts).sum())
        elif self._by_start:
            seen = self._from_starts(policy, users, self.served)
        else:
            few = users <= FEW and self._alone
            seen = (self.problem.count if self.counted and not few else self.problem.sample)(
                policy, users, self.rng
            )
        (self.agent.observe_crowd if self.crowd else self.agent.observe)(seen)
        if self.known or isinstance(seen, TransitionCounts):  # exactly, from the policy
            return np.zeros(0)
        return np.asarray(seen.rewards.sum(axis=1))

    def _from_starts(self, policy: Policy, users: int, first: int) -> Trajectories:
        """Simulate users, and add up what they lost from where they started. `first` is the number of the first of them."""
        seen: Trajectories = self.problem.sample(policy, users, self.rng, first=first)
        lost = float(self.problem.regrets(policy, seen.states[:, 0]).sum())
        self._lost = lost if first == self.served else self._lost + lost
        return seen

    def _devices(self, users: int) -> Array:
        """The same, each user on a device of its own. All of them would plan the same round from the release, so it is planned once."""
        planned, generation = self.agent.current_round(), self.agent.released().generation
        shared = self.agent.guarantee.trust is Trust.DISTRIBUTED
        clients = [
            self.agent.shares.client() if shared else self.agent.client() for _ in range(users)
        ]
        served = [(client.adopt(planned, generation), client) for client in clients]
        earned, first = [np.zeros(0)], self.served
        for policy in planned.policies:
            mine = [client for chosen, client in served if chosen is policy]
            if mine:
                seen: Trajectories = (
                    self._from_starts(policy, len(mine), first)
                    if self._by_start
                    else self.problem.sample(policy, len(mine), self.rng)
                )
                first += len(mine)
                for i, client in enumerate(mine):
                    if shared:
                        client.contribute(seen[i : i + 1], self.agent.shares.simulate_aggregation)
                    else:
                        self.agent.absorb(client.report(seen[i : i + 1]))
                earned.append(seen.rewards.sum(axis=1))
        return np.concatenate(earned)

    def _save_in_time(self) -> None:
        # secure noise is not reproducible: each batch must be on the disk before the next policy is shown to anybody
        if self.state is None:
            return
        every_batch = self.agent.guarantee.source == "secure"
        if every_batch or time.monotonic() - self._saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        if self.state is None or self._saved_at == self.served:
            return
        if not self.abilities.saves:
            raise StateError(
                f"{agent_name(self.agent)} does not declare Abilities(saves=True): it cannot be interrupted"
            )
        facts = {
            "label": self.label,
            "served": self.served,
            "regret": self.regret,
            "left": self._left,
            "earned": self._earned,
            "squares": self._squares,
            "seconds": time.monotonic() - self._started,
            "world": dict(self.rng.bit_generator.state),
            "segments": [segment.to_json() for segment in self.segments],
        }
        self._saves += 1
        arrays = {"agent": np.frombuffer(self.agent.save(), dtype=np.uint8)}
        if self.policy is not None:
            shown = io.BytesIO()
            self.policy.save(shown)
            arrays["policy"] = np.frombuffer(shown.getvalue(), dtype=np.uint8)
        self.state.write(pack("run", self._saves, facts, arrays))
        self._saved, self._saved_at = time.monotonic(), self.served

    def resume(self) -> float:
        """Take up a saved run, if there is one; seconds spent on it before."""
        if self.state is None or not self.state.path.exists():
            return 0.0
        saved = unpack(self.state.read(), "run", released=self.state.generation())
        facts = saved.facts
        if facts["label"] != self.label:
            raise StateError(
                f"the state file is of another run: {facts['label']}; this is {self.label}"
            )
        newest = (
            {"released": 0, "resume": True} if isinstance(self.agent, Learner) else {}
        )  # the run's own state file keeps watch
        self.agent.restore(saved.arrays["agent"].tobytes(), **newest)
        if "policy" in saved.arrays:
            self.policy = load_policy(io.BytesIO(saved.arrays["policy"].tobytes()))
        self.rng.bit_generator.state = facts["world"]
        self.served, self.regret, self._left = (facts[key] for key in ("served", "regret", "left"))
        self._earned, self._squares = facts["earned"], facts.get("squares", 0.0)
        self._saved_at = self.served
        self.segments, self._saves = (
            [Segment(**segment) for segment in facts["segments"]],
            saved.generation,
        )
        return float(facts["seconds"])

    @contextmanager
    def _polite_interrupt(self) -> Iterator[None]:
        """Ctrl-C asks to stop after this chunk, and after GRACE seconds, or pressed again, it interrupts at once.

        Then only the last saved state is kept.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        has_timer = (
            hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        )

        def interrupt(_number: int, _frame: Any) -> None:
            # Half-way through a chunk: what is in memory must not be saved.
            self.state = None
            self.abrupt = True
            raise KeyboardInterrupt

        def ask(number: int, frame: Any) -> None:
            if self._stop:
                interrupt(number, frame)
            self._stop = True
            if has_timer:
                signal.setitimer(signal.ITIMER_REAL, GRACE)

        signal.signal(signal.SIGINT, ask)
        if has_timer:
            signal.signal(signal.SIGALRM, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            if has_timer:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _local(agent: Any) -> bool:
    local: bool = agent.guarantee.trust.devices
    if local and not abilities_of(agent).devices:
        asked = agent.guarantee.request.kind
        raise InvalidParameter(
            f"{agent_name(agent)} states {asked}, but does not declare Abilities(devices=True): {asked} needs client() and absorb()"
        )
    return local


def _counted(agent: Any, problem: Any, total: int, counts: bool | None) -> bool:
    """Whether users come as exact counts: see `confide.run`."""
    local = agent.guarantee.trust.devices
    possible = abilities_of(agent).counts and hasattr(problem, "count")
    possible = possible and not (local and agent.guarantee.source != "fast")
    if counts and not possible:
        raise InvalidParameter(
            f"counts=True needs an agent and a problem that can count transitions (and fast noise where devices send messages): "
            f"{agent_name(agent)} on {problem.name} cannot, use counts=None"
        )
    return possible and not (local and total <= ONE_BY_ONE) if counts is None else counts
