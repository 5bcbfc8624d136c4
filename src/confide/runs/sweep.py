"""A sweep: agents x problems x privacy requests x seeds."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from confide.agents.catalogue import agent_class, schedule_of, takes_privacy
from confide.arguments import choice, flag, listed, real, shown, text, whole
from confide.errors import InvalidParameter
from confide.learning.arguments import CALIBRATIONS, check_choices
from confide.privacy.request import DistributedDP, JointDP, LocalDP, NoPrivacy, Request
from confide.problems.catalogue import PROBLEMS, check_environment_options, is_environment, make
from confide.runs.spec import RunSpec, written

DELTA = 1e-5
SEEDS = 10_000  # runs of one cell
PROMISES: dict[str, Any] = {"joint": JointDP, "local": LocalDP, "distributed": DistributedDP}


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """An agent by name, or as package.module:Class, and what is chosen for it; options are plain values, as a file has them."""

    agent: str
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ProblemChoice:
    """A problem by name, the file of a saved one, or an environment (gym:ID).

    The fields after `horizon` are for environments. `features` is package.module:function.
    """

    problem: str
    seed: int = 0
    horizon: int | None = None
    rewards: str | None = None
    reward_range: tuple[float, float] | None = None
    features: str | None = None
    feature_norm: float | None = None

    @property
    def is_own_code(self) -> bool:
        """Whether the problem depends on files that are not part of confide or Gymnasium."""
        return self.features is not None or (
            is_environment(self.problem) and self.problem.count(":") > 1
        )

    @property
    def title(self) -> str:
        parts = [f"seed={self.seed}"] if self.seed else []
        parts += [] if self.horizon is None else [f"horizon={self.horizon}"]
        parts += [] if self.rewards is None else [f"rewards={self.rewards}"]
        parts += (
            []
            if self.reward_range is None
            else ["reward_range={:g},{:g}".format(*self.reward_range)]
        )
        parts += [] if self.features is None else [f"features={self.features}"]
        parts += [] if self.feature_norm is None else [f"feature_norm={self.feature_norm:g}"]
        return " ".join([self.problem, *parts])


def world(choice: ProblemChoice) -> Any:
    """Built once per process, so that its optimal policy is computed once, too; a file that has changed is read again."""
    return _built(choice, stamp(choice))


def stamp(choice: ProblemChoice) -> tuple[str, int, int] | None:
    """Which version of a file it is; None for problems that are not from files."""
    path = Path(choice.problem)
    if choice.problem in PROBLEMS or not path.is_file():
        return None
    found = path.stat()
    return str(path.resolve()), found.st_mtime_ns, found.st_size


@lru_cache(maxsize=8)
def _built(choice: ProblemChoice, _stamp: tuple[str, int, int] | None) -> Any:
    return make(
        choice.problem,
        seed=choice.seed,
        horizon=choice.horizon,
        rewards=choice.rewards,
        reward_range=choice.reward_range,
        features=choice.features,
        feature_norm=choice.feature_norm,
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep: all that decides it."""

    spec: RunSpec
    problem: ProblemChoice
    seed: int

    @property
    def command(self) -> str:
        """What makes the same run again, alone."""
        spec, privacy = self.spec, self.spec.privacy
        words = ["confide", "run", spec.agent, self.problem.problem]
        if not isinstance(privacy, NoPrivacy):
            words += ["--epsilon", repr(privacy.epsilon), "--delta", repr(privacy.delta)]
            words += ["--trust", privacy.trust.value] if privacy.trust.devices else []
        words += ["--episodes", str(spec.episodes), "--seed", str(self.seed)]
        words += ["--problem-seed", str(self.problem.seed)] if self.problem.seed else []
        words += [] if self.problem.horizon is None else ["--horizon", str(self.problem.horizon)]
        words += [] if self.problem.rewards is None else ["--rewards", self.problem.rewards]
        words += (
            []
            if self.problem.reward_range is None
            else ["--reward-range", *map(repr, self.problem.reward_range)]
        )
        if self.problem.features is not None:
            words += ["--features", self.problem.features]
        if self.problem.feature_norm is not None:
            words += ["--feature-norm", repr(self.problem.feature_norm)]
        words += [] if spec.counts is None else ["--counts" if spec.counts else "--one-by-one"]
        for name, value in spec.options:
            words += ["--set", f"{name}={written(value)}"]
        return shlex.join(words)

    @property
    def facts(self) -> dict[str, Any]:
        """As plain values, for files."""
        privacy = self.spec.privacy
        private = not isinstance(privacy, NoPrivacy)
        return {
            "problem": self.problem.title,
            "agent": self.spec.title,
            "variant": self.spec.variant,
            "calibration": self.spec.calibration,
            "trust": "joint" if private and not privacy.trust.devices else privacy.trust.value,
            "epsilon": float(privacy.epsilon) if private else None,
            "delta": float(privacy.delta) + 0.0 if private else None,  # -0.0 is 0.0
            "seed": self.seed,
            "episodes": self.spec.episodes,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Every agent on every problem under every privacy request with every seed.

    Agents are names, package.module:Class, or tables with the key `agent` and options of the agent; problems are names, files of saved
    problems, or tables with the key `problem` and `seed`, `horizon`, or of an environment (gym:ID) `rewards` and `reward_range`.
    `no_privacy` adds the same agents without noise. Reference agents (uniform, oracle) run once. `seeds` is a number of seeds, starting
    at 0, or a list of seeds.
    """

    agents: Sequence[str | Mapping[str, Any]]
    problems: Sequence[str | Mapping[str, Any]]
    epsilons: Sequence[float] = (1.0,)
    delta: float = DELTA
    trust: str = "joint"
    no_privacy: bool = True
    episodes: int = 100_000
    seeds: int | Sequence[int] = 8
    name: str = "comparison"

    _agents: tuple[AgentChoice, ...] = field(init=False, repr=False, default=())
    _problems: tuple[ProblemChoice, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        for key in ("agents", "problems", "epsilons"):
            if isinstance(getattr(self, key), str | Mapping) or not isinstance(
                getattr(self, key), Sequence
            ):
                raise InvalidParameter.of(key, "must be a list", got=shown(getattr(self, key)))
        choice("trust", self.trust, PROMISES)
        flag("no_privacy", self.no_privacy)
        text("name", self.name)
        if not self.agents or not self.problems:
            raise InvalidParameter("a sweep needs at least one agent and one problem")
        if not self.epsilons and not self.no_privacy:
            raise InvalidParameter(
                "a sweep needs an epsilon, or no_privacy = true", parameter="epsilons"
            )
        object.__setattr__(self, "_agents", tuple(map(agent_choice, self.agents)))
        object.__setattr__(self, "_problems", tuple(map(problem_choice, self.problems)))
        titles = {
            "agents": [
                RunSpec(agent=each.agent, problem="", episodes=1, options=each.options).title
                for each in self._agents
            ],
            "problems": [each.title for each in self._problems],
            "epsilons": [
                f"{epsilon:g}" if isinstance(epsilon, float | int) else f"{epsilon}"
                for epsilon in self.epsilons
            ],
        }
        for name, said in titles.items():  # two that look alike would be one curve
            twice = [title for i, title in enumerate(said) if title in said[:i]]
            if twice:
                raise InvalidParameter.of(name, f"must be different, got {twice[0]} twice")
        self.promises, self.all_seeds, whole("episodes", self.episodes, at_least=1)

    @property
    def promises(self) -> tuple[Request, ...]:
        made = tuple(PROMISES[self.trust](epsilon, self.delta) for epsilon in self.epsilons)
        return (*made, NoPrivacy()) if self.no_privacy else made

    @property
    def all_seeds(self) -> tuple[int, ...]:
        if not isinstance(self.seeds, int | str):
            found = tuple(
                whole("seeds", seed, at_least=0) for seed in listed("seeds", self.seeds, object)
            )
            if len(set(found)) < len(found) or not found:
                raise InvalidParameter.of(
                    "seeds", "must be different, and at least one", got=f"{list(found)}"
                )
            return found
        return tuple(range(whole("seeds", self.seeds, at_least=1, at_most=SEEDS)))

    def cells(self) -> Iterator[Cell]:
        """All cells, grouped by problem."""
        for problem in self._problems:
            for agent in self._agents:
                promises = self.promises if takes_privacy(agent.agent) else (NoPrivacy(),)
                for privacy in promises:
                    spec = RunSpec(
                        agent=agent.agent,
                        problem=problem.problem,
                        episodes=self.episodes,
                        privacy=privacy,
                        options=agent.options,
                    )
                    yield from (Cell(spec, problem, seed) for seed in self.all_seeds)


def agent_choice(given: str | Mapping[str, Any]) -> AgentChoice:
    if isinstance(given, str):
        agent_class(given)  # an unknown name is said here
        return AgentChoice(given)
    if not isinstance(given, Mapping) or not isinstance(given.get("agent"), str):
        raise InvalidParameter(
            f"an agent is a name, or a table with the key agent, got {shown(given)}"
        )
    options = {key: value for key, value in given.items() if key != "agent"}
    accepted = agent_options(given["agent"])
    for key, value in options.items():
        if key not in accepted:
            raise InvalidParameter(
                f"{given['agent']} has no option {key}{nearest(key, accepted)}", parameter=key
            )
        if not isinstance(value, str | int | float | bool):
            raise InvalidParameter.of(key, "must be a text or a number", got=shown(value))
        _check_option(key, value)
    return AgentChoice(given["agent"], tuple(options.items()))


def _check_option(key: str, value: Any) -> None:
    """What can be seen to be impossible without the agent: said before the first run."""
    if key == "calibration" and value not in CALIBRATIONS:
        raise InvalidParameter.of(
            "calibration",
            f"must be one of {', '.join(CALIBRATIONS)}, got {value!r}{nearest(str(value), CALIBRATIONS)}",
        )
    if key in ("bonus_scale", "failure"):
        if isinstance(value, bool | str):
            raise InvalidParameter.of(key, "must be a number", got=shown(value))
        check_choices(
            "tight", value if key == "bonus_scale" else None, value if key == "failure" else 0.1
        )
    if key == "schedule":
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise InvalidParameter.of(
                "schedule", "must be a name or a number of users", got=f"{value!r}"
            )
        schedule_of(value, 1000)


def agent_options(agent: str) -> list[str]:
    """What can be chosen for an agent in a file: its parameters but those that a sweep gives."""
    import inspect

    given = ("public", "problem", "self", "episodes", "privacy", "noise")
    return [name for name in inspect.signature(agent_class(agent)).parameters if name not in given]


def problem_choice(given: str | Mapping[str, Any]) -> ProblemChoice:
    if isinstance(given, str):
        return ProblemChoice(given)
    if not isinstance(given, Mapping) or not isinstance(given.get("problem"), str):
        raise InvalidParameter(
            f"a problem is a name, or a table with the key problem, got {shown(given)}"
        )
    options = [option.name for option in fields(ProblemChoice)]
    for key in given:
        if key not in options:
            raise InvalidParameter(
                f"a problem has no option {key}{nearest(key, options)}", parameter=key
            )
    check_environment_options(
        given["problem"],
        given.get("rewards"),
        given.get("reward_range"),
        given.get("features"),
        given.get("feature_norm"),
    )
    horizon, rewards, ends = given.get("horizon"), given.get("rewards"), given.get("reward_range")
    seed = whole("seed", given.get("seed", 0), at_least=0)
    if rewards is not None and not isinstance(rewards, str):
        raise InvalidParameter.of("rewards", "must be learned or public", got=shown(rewards))
    limits = (
        None
        if ends is None
        else tuple(real("reward_range", end) for end in listed("reward_range", ends, object))
    )
    if limits is not None and len(limits) != 2:
        raise InvalidParameter.of("reward_range", "must be two numbers", got=shown(ends))
    steps = None if horizon is None else whole("horizon", horizon, at_least=1)
    features = given.get("features")
    if features is not None and not (isinstance(features, str) and ":" in features):
        raise InvalidParameter.of(
            "features", "must be package.module:function", got=shown(features)
        )
    feature_norm = given.get("feature_norm")
    if feature_norm is not None:
        feature_norm = real("feature_norm", feature_norm, above=0)
    return ProblemChoice(
        given["problem"],
        seed,
        steps,
        rewards,
        None if limits is None else (limits[0], limits[1]),
        features,
        feature_norm,
    )


def nearest(word: str, words: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return (
        f"; did you mean {near[0]}?"
        if near
        else f"; choose one of {', '.join(words)}"
        if words
        else ""
    )
