"""The loop: a batch of users for each policy, until the agent has seen everybody."""

import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np

from confide.agents.agent import Agent, Batch, agent_name
from confide.audit.verify import verify
from confide.errors import InvalidParameter, StateError
from confide.experiments.run import Run, Segment
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.mechanisms.state import StateFile, pack, unpack
from confide.policy import Policy
from confide.privacy.certificate import Certificate, certify
from confide.trajectory import Trajectories, TransitionCounts

_CHUNK = 65_536  # users sampled at a time: memory does not grow with the batch
_SAVE_EVERY = 5.0  # seconds between two saved states

Progress = Callable[[int, float | None], None]  # (users served, regret so far)


def run(
    agent: Agent,
    problem: Any,
    *,
    episodes: int | None = None,
    features: Callable[[Any], Any] | None = None,
    horizon: int | None = None,
    seed: int = 0,
    source: NoiseSource | None = None,
    state: StateFile | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> Run:
    """Let the agent serve `episodes` users of the problem.

    One `SeedSequence` seeds the world, the agent and the (fast) noise. With a `state` file the run can be killed at any moment and taken up
    again by the same call, bit by bit the same; the file is PRIVATE and is removed when the run is complete. Ctrl-C returns what is done.
    """
    problem = _world(problem, features, horizon)
    total = _episodes(agent, episodes)
    world, agent_seed, noise_seed = np.random.SeedSequence(seed).spawn(3)
    rng = np.random.default_rng(world)
    _give(agent, "rng", np.random.default_rng(agent_seed))
    _give(agent, "noise", source or FastSource(np.random.default_rng(noise_seed)))
    loop = _Loop(agent, problem, total, rng, state, f"{agent_name(agent)} on {problem.name}, {total} episodes, seed {seed}")
    started, before = time.monotonic(), loop.resume()
    try:
        loop.go(progress)
    except KeyboardInterrupt:
        loop.save()
    seconds = before + time.monotonic() - started
    if state is not None and loop.served == total:
        state.remove()
    return Run(
        agent=agent_name(agent),
        problem=problem.name,
        seed=seed,
        planned_episodes=total,
        segments=tuple(loop.segments),
        policy=loop.policy,
        optimal_value=problem.optimal_value,
        uniform_value=problem.uniform_value,
        guarantee=str(agent.guarantee),
        certificate=_certificate(agent, counted=loop.counted),
        seconds=seconds,
        versions=versions(),
        command=command,
    )


class _Loop:
    """What must survive a crash: the agent, the world's generator, and the segments so far."""

    def __init__(
        self, agent: Any, problem: Any, total: int, rng: np.random.Generator, state: StateFile | None, label: str
    ) -> None:
        self.agent, self.problem, self.total, self.rng, self.state, self.label = agent, problem, total, rng, state, label
        self.served, self.regret = 0, 0.0
        self.segments: list[Segment] = []
        self.policy: Policy | None = None
        self.counted = bool(getattr(agent, "accepts_counts", False)) and hasattr(problem, "count")
        self._saves = 0
        self._started = time.monotonic()

    def go(self, progress: Progress | None) -> None:
        # secure noise is not reproducible: each batch must be on the disk before the next policy is shown to anybody
        every_batch = getattr(getattr(self.agent, "noise", None), "name", "fast") == "secure"
        last_save = time.monotonic()
        while self.served < self.total:
            batch: Batch = self.agent.next_batch()
            if batch.users < 1:
                raise InvalidParameter(f"{self.label}: next_batch must serve at least one user, got users={batch.users}")
            self._serve(batch.policy, min(batch.users, self.total - self.served))
            if progress is not None:
                progress(self.served, self.regret if self.problem.optimal_value is not None else None)
            if self.state is not None and (every_batch or time.monotonic() - last_save > _SAVE_EVERY):
                self.save()
                last_save = time.monotonic()

    def _serve(self, policy: Policy, users: int) -> None:
        value = self.problem.value(policy) if self.problem.optimal_value is not None else None
        level, signal = getattr(self.agent, "noise_level", None), getattr(self.agent, "signal", None)
        earned, left = 0.0, users
        while left:
            size = left if self.counted else min(left, getattr(self.problem, "chunk", _CHUNK))
            seen: Trajectories | TransitionCounts
            seen = self.problem.count(policy, size, self.rng) if self.counted else self.problem.sample(policy, size, self.rng)
            earned += float(seen.rewards.sum()) if isinstance(seen, Trajectories) else float(seen.reward @ seen.count)
            self.agent.observe(seen)
            left -= size
        self.policy, self.served = policy, self.served + users
        noise_std = (
            level.std if level is not None and level.std > 0 else None
        )  # zero: nothing was released yet, or nothing is noised
        self.segments.append(Segment(users, value, earned / users if value is None else None, noise_std, signal))
        if value is not None:
            self.regret += users * (self.problem.optimal_value - value)

    def save(self) -> None:
        if self.state is None:
            return
        if not hasattr(self.agent, "save"):
            raise StateError(f"{agent_name(self.agent)} has no save(): it cannot be interrupted")
        facts = {
            "label": self.label,
            "served": self.served,
            "regret": self.regret,
            "seconds": time.monotonic() - self._started,
            "world": dict(self.rng.bit_generator.state),
            "segments": [astuple(segment) for segment in self.segments],
        }
        self._saves += 1
        self.state.write(pack("run", self._saves, facts, {"agent": np.frombuffer(self.agent.save(), dtype=np.uint8)}))

    def resume(self) -> float:
        """Take up a saved run, if there is one; seconds spent on it before."""
        if self.state is None or not self.state.path.exists():
            return 0.0
        saved = unpack(self.state.read(), "run", released=self.state.generation())
        if saved.facts["label"] != self.label:
            raise StateError(f"the state file is of another run: {saved.facts['label']}; this is {self.label}")
        self.agent.restore(saved.arrays["agent"].tobytes())
        self.rng.bit_generator.state = saved.facts["world"]
        self.served, self.regret, self._saves = saved.facts["served"], saved.facts["regret"], saved.generation
        self.segments = [Segment(*segment) for segment in saved.facts["segments"]]
        return float(saved.facts["seconds"])


def _world(problem: Any, features: Callable[[Any], Any] | None, horizon: int | None) -> Any:
    """A problem as it is; a Gymnasium environment, or the name of one, becomes a world that is played step by step through its features."""
    if features is not None:
        from confide.problems.gym import GymProblem

        return GymProblem(problem, features, horizon)
    if not hasattr(problem, "sample"):
        raise InvalidParameter(f"{type(problem).__name__} is not a problem; a Gymnasium environment needs features and a horizon")
    return problem


def _episodes(agent: Any, episodes: int | None) -> int:
    if getattr(agent, "users", 0):
        raise InvalidParameter("this agent has already absorbed data: make a new one for a new run")
    total = agent.episodes if episodes is None else episodes
    if not 1 <= total <= agent.episodes:
        raise InvalidParameter(f"episodes must be between 1 and the agent's {agent.episodes}, got episodes={episodes}")
    return int(total)


def _give(agent: Any, attribute: str, value: Any) -> None:
    if getattr(agent, attribute, value) is None:
        setattr(agent, attribute, value)


def _certificate(agent: Any, *, counted: bool) -> Certificate | None:
    if not hasattr(agent, "mechanisms"):
        return None
    simulated = (
        ["Simulated: the users' contributions were added up from exact transition counts, not clipped one by one."]
        if counted
        else []
    )
    made = certify(agent.guarantee, agent.mechanisms(), subject=f"a run of {agent_name(agent)}", assumptions=simulated)
    verify(made)
    return made


def versions() -> dict[str, str]:
    packages = ("confide", "numpy", "scipy", "numba", "dp-accounting")
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
