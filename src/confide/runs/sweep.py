"""A sweep: agents x problems x privacy requests x seeds.

What leaves this file: the facts of each cell (`Cell.facts`), which are stored with its result and
stand in tables, and the command that makes the same run alone (`Cell.command`).
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from confide.agents.catalogue import agent_class, schedule_of, takes_privacy
from confide.arguments import choice, flag, listed, real, shown, text, whole
from confide.errors import InvalidParameter
from confide.learning.arguments import CALIBRATIONS, check_choices
from confide.privacy.request import DistributedDP, JointDP, LocalDP, NoPrivacy, Request
from confide.problems.catalogue import PROBLEMS, check_environment_options, is_environment, make
from confide.runs.spec import RunSpec, write_value

DELTA = 1e-5
# The largest number of seeds: more is taken for a mistake. A matter of taste.
SEEDS = 10_000
# The classes of requests, by the words of a file.
REQUESTS: dict[str, Any] = {"joint": JointDP, "local": LocalDP, "distributed": DistributedDP}


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """An agent by name, or as package.module:Class, with the options that were chosen for it.

    Options are plain values, as a file has them.
    """

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
        """The problem with all that was chosen for it: it tells two problems of a sweep apart."""
        parts = [self.problem]
        if self.seed:
            parts.append(f"seed={self.seed}")
        if self.horizon is not None:
            parts.append(f"horizon={self.horizon}")
        if self.rewards is not None:
            parts.append(f"rewards={self.rewards}")
        if self.reward_range is not None:
            parts.append("reward_range={:g},{:g}".format(*self.reward_range))
        if self.features is not None:
            parts.append(f"features={self.features}")
        if self.feature_norm is not None:
            parts.append(f"feature_norm={self.feature_norm:g}")
        return " ".join(parts)

    @property
    def command_options(self) -> list[str]:
        """The options of `confide run` that make the same problem."""
        words = ["--problem-seed", str(self.seed)] if self.seed else []
        if self.horizon is not None:
            words += ["--horizon", str(self.horizon)]
        if self.rewards is not None:
            words += ["--rewards", self.rewards]
        if self.reward_range is not None:
            words += ["--reward-range", *map(repr, self.reward_range)]
        if self.features is not None:
            words += ["--features", self.features]
        if self.feature_norm is not None:
            words += ["--feature-norm", repr(self.feature_norm)]
        return words


def make_problem(choice: ProblemChoice) -> Any:
    """The problem, built once per process, so that its optimal policy is computed once.

    The file of a saved problem is read again if it has changed.
    """
    return _cached_problem(choice, file_version(choice))


def file_version(choice: ProblemChoice) -> tuple[str, int, int] | None:
    """Path, time and size of the file of a saved problem; None for problems that are in no file."""
    path = Path(choice.problem)
    if choice.problem in PROBLEMS or not path.is_file():
        return None
    status = path.stat()
    return str(path.resolve()), status.st_mtime_ns, status.st_size


# The last few problems are kept; a sweep is grouped by problem. Eight is a matter of taste.
@lru_cache(maxsize=8)
def _cached_problem(choice: ProblemChoice, _version: tuple[str, int, int] | None) -> Any:
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
        spec = self.spec
        words = ["confide", "run", spec.agent, self.problem.problem]
        if not isinstance(spec.privacy, NoPrivacy):
            words += ["--epsilon", repr(spec.privacy.epsilon), "--delta", repr(spec.privacy.delta)]
            if spec.privacy.trust.devices:
                words += ["--trust", spec.privacy.trust.value]
        words += ["--episodes", str(spec.episodes), "--seed", str(self.seed)]
        words += self.problem.command_options
        if spec.counts is not None:
            words.append("--counts" if spec.counts else "--one-by-one")
        for name, value in spec.options:
            words += ["--set", f"{name}={write_value(value)}"]
        return shlex.join(words)

    @property
    def facts(self) -> dict[str, Any]:
        """As plain values, for files. The words for trust are those of a sweep's file."""
        privacy = self.spec.privacy
        is_private = not isinstance(privacy, NoPrivacy)
        is_joint = is_private and not privacy.trust.devices
        return {
            "problem": self.problem.title,
            "agent": self.spec.title,
            "variant": self.spec.variant,
            "calibration": self.spec.calibration,
            "trust": "joint" if is_joint else privacy.trust.value,
            "epsilon": float(privacy.epsilon) if is_private else None,
            # Adding 0.0 turns -0.0 into 0.0.
            "delta": float(privacy.delta) + 0.0 if is_private else None,
            "seed": self.seed,
            "episodes": self.spec.episodes,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Every agent on every problem under every privacy request with every seed.

    Agents are names, package.module:Class, or tables with the key `agent` and options of the agent.
    Problems are names, files of saved problems, or tables with the key `problem` and `seed` or
    `horizon`. An environment (gym:ID) also takes `rewards`, `reward_range`, `features` and
    `feature_norm`. `no_privacy` adds the same agents without noise. Reference agents (uniform,
    oracle) run once. `seeds` is a number of seeds, starting at 0, or a list of seeds.
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
            values = getattr(self, key)
            if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
                raise InvalidParameter.of(key, "must be a list", got=shown(values))
        choice("trust", self.trust, REQUESTS)
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
        self._refuse_equal_titles()
        # Both properties check what they are made from.
        _ = self.requests
        _ = self.all_seeds
        whole("episodes", self.episodes, at_least=1)

    def _refuse_equal_titles(self) -> None:
        """Two entries with the same title would be one curve of a figure."""
        agent_titles = [
            RunSpec(agent=agent.agent, problem="", episodes=1, options=agent.options).title
            for agent in self._agents
        ]
        epsilon_titles = [
            f"{epsilon:g}" if isinstance(epsilon, float | int) else f"{epsilon}"
            for epsilon in self.epsilons
        ]
        all_titles = {
            "agents": agent_titles,
            "problems": [problem.title for problem in self._problems],
            "epsilons": epsilon_titles,
        }
        for name, titles in all_titles.items():
            repeated = [title for place, title in enumerate(titles) if title in titles[:place]]
            if repeated:
                raise InvalidParameter.of(name, f"must be different, got {repeated[0]} twice")

    @property
    def requests(self) -> tuple[Request, ...]:
        """The privacy requests, in the order of `epsilons`; without privacy comes last."""
        private = tuple(REQUESTS[self.trust](epsilon, self.delta) for epsilon in self.epsilons)
        return (*private, NoPrivacy()) if self.no_privacy else private

    @property
    def all_seeds(self) -> tuple[int, ...]:
        if isinstance(self.seeds, int | str):
            return tuple(range(whole("seeds", self.seeds, at_least=1, at_most=SEEDS)))
        seeds = tuple(
            whole("seeds", seed, at_least=0) for seed in listed("seeds", self.seeds, object)
        )
        if len(set(seeds)) < len(seeds) or not seeds:
            raise InvalidParameter.of(
                "seeds", "must be different, and at least one", got=f"{list(seeds)}"
            )
        return seeds

    def cells(self) -> Iterator[Cell]:
        """All cells, grouped by problem."""
        for problem in self._problems:
            for agent in self._agents:
                requests = self.requests if takes_privacy(agent.agent) else (NoPrivacy(),)
                for privacy in requests:
                    spec = RunSpec(
                        agent=agent.agent,
                        problem=problem.problem,
                        episodes=self.episodes,
                        privacy=privacy,
                        options=agent.options,
                    )
                    yield from (Cell(spec, problem, seed) for seed in self.all_seeds)


def agent_choice(entry: str | Mapping[str, Any]) -> AgentChoice:
    """Read an entry of `agents`. What can be checked without a problem is checked here."""
    if isinstance(entry, str):
        # An unknown name is refused here.
        agent_class(entry)
        return AgentChoice(entry)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("agent"), str):
        raise InvalidParameter(
            f"an agent is a name, or a table with the key agent, got {shown(entry)}"
        )
    options = {key: value for key, value in entry.items() if key != "agent"}
    accepted = agent_options(entry["agent"])
    for key, value in options.items():
        if key not in accepted:
            raise InvalidParameter(
                f"{entry['agent']} has no option {key}{nearest(key, accepted)}", parameter=key
            )
        if not isinstance(value, str | int | float | bool):
            raise InvalidParameter.of(key, "must be a text or a number", got=shown(value))
        _check_option(key, value)
    return AgentChoice(entry["agent"], tuple(options.items()))


def _check_option(key: str, value: Any) -> None:
    """Refuse values that no agent accepts, before the first run."""
    if key == "calibration" and value not in CALIBRATIONS:
        raise InvalidParameter.of(
            "calibration",
            f"must be one of {', '.join(CALIBRATIONS)}, "
            f"got {value!r}{nearest(str(value), CALIBRATIONS)}",
        )
    if key in ("bonus_scale", "failure"):
        if isinstance(value, bool | str):
            raise InvalidParameter.of(key, "must be a number", got=shown(value))
        # The other of the two has a value that is accepted.
        bonus_scale = value if key == "bonus_scale" else None
        failure = value if key == "failure" else 0.1
        check_choices("tight", bonus_scale, failure)
    if key == "schedule":
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise InvalidParameter.of(
                "schedule", "must be a name or a number of users", got=f"{value!r}"
            )
        # Whether the name is known does not depend on the number of users.
        schedule_of(value, 1000)


def agent_options(agent: str) -> list[str]:
    """The options of an agent in a file: its parameters, except for those that a sweep gives."""
    import inspect

    from_sweep = ("public", "problem", "self", "episodes", "privacy", "noise")
    parameters = inspect.signature(agent_class(agent)).parameters
    return [name for name in parameters if name not in from_sweep]


def problem_choice(entry: str | Mapping[str, Any]) -> ProblemChoice:
    """Read an entry of `problems`. The problem itself is not built, because that may take long."""
    if isinstance(entry, str):
        return ProblemChoice(entry)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("problem"), str):
        raise InvalidParameter(
            f"a problem is a name, or a table with the key problem, got {shown(entry)}"
        )
    options = [option.name for option in fields(ProblemChoice)]
    for key in entry:
        if key not in options:
            raise InvalidParameter(
                f"a problem has no option {key}{nearest(key, options)}", parameter=key
            )
    chosen = {**dict.fromkeys(options), **entry}
    check_environment_options(
        chosen["problem"],
        chosen["rewards"],
        chosen["reward_range"],
        chosen["features"],
        chosen["feature_norm"],
    )
    for key, read in _PROBLEM_OPTIONS.items():
        if chosen[key] is not None:
            chosen[key] = read(key, chosen[key])
    chosen["seed"] = whole("seed", entry.get("seed", 0), at_least=0)
    return ProblemChoice(**chosen)


def _read_rewards(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidParameter.of(key, "must be learned or public", got=shown(value))
    return value


def _read_range(key: str, value: Any) -> tuple[float, float]:
    ends = [real(key, end) for end in listed(key, value, object)]
    if len(ends) != 2:
        raise InvalidParameter.of(key, "must be two numbers", got=shown(value))
    return ends[0], ends[1]


def _read_features(key: str, value: Any) -> str:
    if not isinstance(value, str) or ":" not in value:
        raise InvalidParameter.of(key, "must be package.module:function", got=shown(value))
    return value


# How each option of a problem that may be left out is read and checked.
_PROBLEM_OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    "horizon": partial(whole, at_least=1),
    "rewards": _read_rewards,
    "reward_range": _read_range,
    "features": _read_features,
    "feature_norm": partial(real, above=0),
}


def nearest(word: str, words: Sequence[str]) -> str:
    """The end of an error message: the word that was probably meant, or all that can be chosen."""
    import difflib

    # Words that share less than half of their letters are no help. A matter of taste.
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; choose one of {', '.join(words)}" if words else ""
