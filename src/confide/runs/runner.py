"""A run: one agent, one problem, one seed.

What leaves this file: a `Run` with its certificate (the sentences about what was simulated and what
is on trust are in it), and the label and the fingerprint that identify a run. A saved run or state
whose label differs is refused, so the texts in `run_label` and `fingerprint` must not change.
"""

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
    from confide.audit.replay_result import Replay


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

    One `SeedSequence` seeds the world, the agent and the (fast) noise. With a `state` file the run
    can be killed at any moment and resumed by the same call, with bit-identical results. The file
    is PRIVATE; call `state.remove()` when the result is saved. Ctrl-C stops between two batches of
    users, and returns the result so far. A Gymnasium environment is played step by step through
    `features` and `horizon`.

    `counts=True` simulates whole batches by their exact transition counts, which is fast; the
    certificate says so. `counts=False` simulates user by user: trajectories, or under `LocalDP` and
    `DistributedDP` one client and one message each. The default, None, uses counts if possible, but
    real clients and messages under these two with at most 10,000 episodes. Where transitions cannot
    be counted (linear systems), the messages of more devices are drawn as their sum. All three give
    the same distribution, with two exceptions. Devices draw which of a round's policies they
    follow, where counts use equal shares. And the noise of codebook messages is summed as Gaussian
    noise of the same variance. No device drops out.

    The certificate of an agent whose class is not part of confide says that its code is on trust.
    `audited` is a replay of it (`confide.audit.replay`), which the certificate then quotes.
    """
    if state is not None:
        kind("state", state, StateFile)
    if counts is not None:
        flag("counts", counts)
    if progress is not None and not callable(progress):
        raise InvalidParameter.of("progress", "must be a function", got=shown(progress))
    text("command", command)
    if audited is not None and audited.refuted:
        raise PrivacyError(
            f"the guarantee of {agent_name(agent)} was refuted: {audited.sentences()[0]}"
        )
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
    """Serve `episodes` users with an agent that is prepared and fits into memory."""
    label = run_label(agent, problem, episodes, seed, counts=counts)
    rng = np.random.default_rng(seed_streams(seed)[0])
    loop = Loop(agent, problem, episodes, rng, state, label, counts=counts)
    started = time.monotonic()
    seconds_before = loop.resume()
    loop.go(progress)
    # After an interrupt within a chunk the agent is half-way through a round.
    has_questions = abilities_of(agent).questions and not loop.was_cut_off
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
        certificate=_certificate(
            agent, uses_counts=loop.uses_counts, is_crowd=loop.is_crowd, audited=audited
        ),
        seconds=seconds_before + time.monotonic() - started,
        versions=versions(),
        command=command,
        made_from=label,
        variant=getattr(agent, "variant", ""),
        calibration=getattr(agent, "chosen_calibration", "tight"),
        questions=tuple(agent.questions()) if has_questions else (),
    )


def _world(problem: Any, features: Callable[[Any], Any] | None, horizon: int | None) -> Any:
    """The problem, if it is one, and otherwise the environment through its features."""
    if features is not None:
        from confide.problems.gym import GymProblem

        return GymProblem(problem, features, horizon)
    is_problem = all(hasattr(problem, member) for member in ("sample", "name", "horizon"))
    if isinstance(problem, type) or not is_problem:
        raise InvalidParameter(
            f"{type(problem).__name__} is not a problem; "
            "a Gymnasium environment needs features and a horizon"
        )
    return problem


def _episodes(agent: Any, episodes: int | None) -> int:
    """How many users the agent serves. It must be new, and have the methods of an agent."""
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
    agent: Any, *, uses_counts: bool, is_crowd: bool, audited: "Replay | None"
) -> Certificate | None:
    """The certificate of a run; None for an agent without mechanisms.

    It says what was simulated, what confide has checked, and whose code is on trust. It is verified
    before it is returned.
    """
    if not abilities_of(agent).mechanisms:
        return None
    simulated: list[str] = []
    if uses_counts:
        simulated.append(
            "the users' contributions were added up from exact transition counts, "
            "not clipped one by one."
        )
    if is_crowd or (uses_counts and agent.guarantee.trust.devices):
        simulated.append("no device sent a message: the sum of their noise was drawn at once.")
    foreign_classes = _foreign_classes(agent)
    checked: list[str] = []
    if foreign_classes:
        checked.append(
            "The stated loss follows from the sensitivities and the noise of the mechanisms."
        )
    if audited:
        checked += audited.sentences()
    constants = agent.calibration.constants if isinstance(agent, Learner) else ""
    certificate = certify(
        agent.guarantee,
        agent.mechanisms(),
        subject=f"a run of {agent_name(agent)}{f': {constants}' if constants else ''}",
        assumptions=[Assumption(SIMULATED, f"Simulated: {sentence}") for sentence in simulated],
        checked=checked,
        on_trust=[
            f"{name} is not part of confide: that its policies, batch sizes, questions, memory and "
            "messages depend on users only through these mechanisms. "
            f"`confide audit {name}` tests it by replay."
            for name in foreign_classes
        ],
    )
    verify_numbers(certificate)
    return certificate


def _foreign_classes(agent: Any) -> list[str]:
    """The classes of an agent and of its algorithm that are not the library's."""
    classes = [type(agent)]
    if isinstance(agent, Learner):
        classes.append(type(agent.algorithm))
    return [
        f"{each.__module__}:{each.__qualname__}"
        for each in classes
        if each.__module__.partition(".")[0] != "confide"
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
            f"{agent_name(agent)}.guarantee must be a Guarantee "
            "(no_guarantee(episodes) if there is none)"
        )


def run_label(
    agent: Any, problem: Any, episodes: int, seed: int, *, counts: bool | None = None
) -> str:
    """Everything that decides the result of a run: two runs with the same label are the same run.

    It is compared with the labels of saved runs and states. So it has plain values, and no words
    for a request, which may change.
    """
    settings = getattr(agent, "settings", None)
    name = agent_name(agent) if settings is None else f"{agent_name(agent)} {settings}"
    request = agent.guarantee.request
    numbers = f"{request.kind} {request.epsilon!r} {request.delta!r} {identify(request)}"
    world = f"{problem.name} {fingerprint(problem)}"
    counts_suffix = "" if counts is None else f", counts={counts}"
    return (
        f"{name} on {world}, {episodes} episodes, seed {seed}, "
        f"{numbers}, {agent.guarantee.source} noise{counts_suffix}"
    )


def fingerprint(problem: Any) -> str:
    """Twelve hexadecimal digits of the world itself: instances with the same name differ."""
    digest = hashlib.sha256(f"{problem.name} {problem.horizon}".encode())
    truth = getattr(problem, "truth", None)
    if truth is not None:
        P = truth.transitions
        parts = [P.indptr, P.successors, P.probabilities, truth.rewards, truth.start]
    else:
        # Of a linear system, or of a linear bandit.
        names = ("A", "B", "Q", "R", "parameter", "contexts")
        parts = [getattr(problem, name) for name in names if hasattr(problem, name)]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that compute, by name."""
    return dict(_read_versions())


@lru_cache(maxsize=1)
def _read_versions() -> tuple[tuple[str, str], ...]:
    """Read once per process, because that takes milliseconds."""
    numbers = [("python", platform.python_version())]
    for name in ("confide", "numpy", "scipy", "numba", "dp-accounting"):
        number = version(name)
        if number is not None:
            numbers.append((name, number))
    return tuple(numbers)
