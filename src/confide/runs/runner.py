"""A run: one agent, one problem, one seed."""

import hashlib
import platform
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from confide._extras import version
from confide.agents.estimate import estimate_agent, refuse_what_does_not_fit
from confide.arguments import flag, kind, shown, text, whole
from confide.audit.verify import verify_numbers
from confide.errors import InvalidParameter, PrivacyError
from confide.identity import identify
from confide.learning.agent import Agent, abilities_of, agent_name
from confide.learning.learner import Learner
from confide.mechanisms.sources import FastSource, NoiseSource, check_source
from confide.mechanisms.state import StateFile
from confide.privacy.assumption import SIMULATED, Assumption
from confide.privacy.certificate import Certificate, certify
from confide.privacy.guarantee import Guarantee
from confide.runs.loop import Loop, Progress
from confide.runs.run import Run

if TYPE_CHECKING:
    from confide.audit.replay import Replay


def run(
    agent: Agent,
    problem: Any,
    *,
    episodes: int | None = None,
    seed: int = 0,
    features: Callable[[Any], Any] | None = None,
    horizon: int | None = None,
    source: NoiseSource | None = None,
    state: StateFile | None = None,
    progress: Progress | None = None,
    command: str = "",
    counts: bool | None = None,
    audited: "Replay | None" = None,
) -> Run:
    """Run an agent on a problem: it serves `episodes` users, one after the other or in batches.

    One `SeedSequence` seeds the world, the agent and the (fast) noise. With a `state` file the run can be killed at any moment and
    resumed by the same call, with bit-identical results; the file is PRIVATE, call `state.remove()` when the result is saved. Ctrl-C
    stops between two batches of users, and returns the result so far. A Gymnasium environment is played step by step through
    `features` and `horizon`.

    `counts=True` simulates whole batches by their exact transition counts, which is fast; the certificate says so. `counts=False`
    simulates user by user: trajectories, or under `LocalDP` and `DistributedDP` one client and one message each. The default, None,
    uses counts if possible, but real clients and messages under these two with at most 10 000 episodes. Where transitions cannot be
    counted (linear systems), the messages of more devices are drawn as their sum. All three give the same distribution, with two
    exceptions: devices draw which of a round's policies they follow, where counts use equal shares; and the noise of codebook messages
    is summed as Gaussian noise of the same variance. No device drops out.

    The certificate of an agent whose class is not part of confide says that its code is on trust; `audited` is a replay of it
    (`confide.audit.replay`), which the certificate then quotes.
    """
    if state is not None:
        kind("state", state, StateFile)
    if counts is not None:
        flag("counts", counts)
    if progress is not None and not callable(progress):
        raise InvalidParameter.of("progress", "must be a function", got=shown(progress))
    text("command", command)
    if audited is not None and audited.refuted:
        raise PrivacyError(f"the guarantee of {agent_name(agent)} was refuted: {audited.said()[0]}")
    problem = _world(problem, features, horizon)
    total = _episodes(agent, episodes)
    refuse_what_does_not_fit(estimate_agent(agent, problem), agent_name(agent), problem)
    prepare(agent, seed, source)
    return serve(
        agent,
        problem,
        total,
        seed,
        state=state,
        progress=progress,
        command=command,
        counts=counts,
        audited=audited,
    )


def serve(
    agent: Any,
    problem: Any,
    episodes: int,
    seed: int,
    *,
    state: StateFile | None = None,
    progress: Progress | None = None,
    command: str = "",
    counts: bool | None = None,
    audited: "Replay | None" = None,
) -> Run:
    """The run of an agent that is prepared and fits into memory."""
    label = run_label(agent, problem, episodes, seed, counts=counts)
    rng = np.random.default_rng(seed_streams(seed)[0])
    loop = Loop(agent, problem, episodes, rng, state, label, counts=counts)
    started, before = time.monotonic(), loop.resume()
    loop.go(progress)
    return Run(
        agent=agent_name(agent),
        problem=problem.name,
        seed=seed,
        planned_episodes=episodes,
        segments=tuple(loop.segments),
        policy=loop.policy,
        optimal_value=problem.optimal_value,
        uniform_value=problem.uniform_value,
        guarantee=agent.guarantee,
        certificate=_certificate(agent, counted=loop.counted, crowd=loop.crowd, audited=audited),
        seconds=before + time.monotonic() - started,
        versions=versions(),
        command=command,
        made_from=label,
        variant=getattr(agent, "variant", ""),
        calibration=getattr(agent, "chosen_calibration", "tight"),
        questions=tuple(agent.questions())
        if abilities_of(agent).questions and not loop.abrupt
        else (),
    )


def _world(problem: Any, features: Callable[[Any], Any] | None, horizon: int | None) -> Any:
    """A problem as it is; a Gymnasium environment, or the name of one, becomes a world that is played step by step through its features."""
    if features is not None:
        from confide.problems.gym import GymProblem

        return GymProblem(problem, features, horizon)
    if isinstance(problem, type) or not all(
        hasattr(problem, member) for member in ("sample", "name", "horizon")
    ):
        raise InvalidParameter(
            f"{type(problem).__name__} is not a problem; a Gymnasium environment needs features and a horizon"
        )
    return problem


def _episodes(agent: Any, episodes: int | None) -> int:
    if getattr(agent, "users", 0):
        raise InvalidParameter("this agent has already absorbed data: make a new one for a new run")
    for method in ("next_batch", "observe"):
        if not callable(getattr(agent, method, None)):
            raise InvalidParameter(f"{agent_name(agent)} is not an agent: it has no {method}()")
    most = getattr(agent, "episodes", episodes)
    if most is None:
        raise InvalidParameter(
            f"{agent_name(agent)} does not say how many episodes it serves: give episodes="
        )
    total = most if episodes is None else episodes
    if not 1 <= whole("episodes", total) <= most:
        raise InvalidParameter.of(
            "episodes", f"must be between 1 and the agent's {most}", got=f"{episodes}"
        )
    return int(total)


def _certificate(
    agent: Any, *, counted: bool, crowd: bool, audited: "Replay | None"
) -> Certificate | None:
    if not abilities_of(agent).mechanisms:
        return None
    simulated = []
    if counted:
        simulated += [
            "the users' contributions were added up from exact transition counts, not clipped one by one."
        ]
    if crowd or (counted and agent.guarantee.trust.devices):
        simulated += ["no device sent a message: the sum of their noise was drawn at once."]
    trusted = _foreign(agent)
    checked = (
        ["The stated loss follows from the sensitivities and the noise of the mechanisms."]
        if trusted
        else []
    )
    constants = agent.calibration.constants if isinstance(agent, Learner) else ""
    made = certify(
        agent.guarantee,
        agent.mechanisms(),
        subject=f"a run of {agent_name(agent)}{f': {constants}' if constants else ''}",
        assumptions=[Assumption(SIMULATED, f"Simulated: {each}") for each in simulated],
        checked=[*checked, *(audited.said() if audited else [])],
        on_trust=[
            f"{name} is not part of confide: that its policies, batch sizes, questions, memory and messages depend on users only "
            f"through these mechanisms. `confide audit {name}` tests it by replay."
            for name in trusted
        ],
    )
    verify_numbers(made)
    return made


def _foreign(agent: Any) -> list[str]:
    """The classes of an agent and of its algorithm that are not the library's."""
    kinds = [type(agent)] + ([type(agent.algorithm)] if isinstance(agent, Learner) else [])
    return [
        f"{kind.__module__}:{kind.__qualname__}"
        for kind in kinds
        if kind.__module__.partition(".")[0] != "confide"
    ]


def seed_streams(seed: int) -> list[np.random.SeedSequence]:
    """The seeds of the world, of the agent and of fast noise."""
    return np.random.SeedSequence(seed).spawn(3)


def prepare(agent: Any, seed: int, source: NoiseSource | None = None) -> None:
    """Give the agent its randomness and its noise, unless it has them."""
    whole("seed", seed, at_least=0)
    if source is not None:
        check_source(source, "source")
    _, agent_seed, noise_seed = seed_streams(seed)
    if abilities_of(agent).noise:
        if getattr(agent, "rng", None) is None:
            agent.rng = np.random.default_rng(agent_seed)
        if agent.noise is None:
            agent.noise = source or FastSource(np.random.default_rng(noise_seed))
    if not isinstance(getattr(agent, "guarantee", None), Guarantee):
        raise InvalidParameter(
            f"{agent_name(agent)}.guarantee must be a Guarantee (no_guarantee(episodes) if there is none)"
        )


def run_label(
    agent: Any, problem: Any, episodes: int, seed: int, *, counts: bool | None = None
) -> str:
    """Everything that decides the result of a run: two runs with the same label are the same run."""
    simulated = "" if counts is None else f", counts={counts}"
    settings = getattr(agent, "settings", None)
    name = agent_name(agent) if settings is None else f"{agent_name(agent)} {settings}"
    request = agent.guarantee.request
    # Plain values: the label is compared with that of a saved run, and must not change with the words for a request.
    privacy = f"{request.kind} {request.epsilon!r} {request.delta!r} {identify(request)}, {agent.guarantee.source} noise"
    return f"{name} on {problem.name} {fingerprint(problem)}, {episodes} episodes, seed {seed}, {privacy}{simulated}"


def fingerprint(problem: Any) -> str:
    """Twelve hexadecimal digits of the world itself: instances with the same name differ."""
    digest = hashlib.sha256(f"{problem.name} {problem.horizon}".encode())
    truth = getattr(problem, "truth", None)
    if truth is not None:
        P = truth.transitions
        parts = [P.indptr, P.successors, P.probabilities, truth.rewards, truth.start]
    else:
        parts = [
            getattr(problem, key)
            for key in (*"ABQR", "parameter", "contexts")
            if hasattr(problem, key)
        ]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    return dict(_versions())


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    """Once per process: to read them takes milliseconds."""
    packages = (
        (name, version(name)) for name in ("confide", "numpy", "scipy", "numba", "dp-accounting")
    )
    return ("python", platform.python_version()), *(
        (name, number) for name, number in packages if number is not None
    )
