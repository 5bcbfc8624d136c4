"""A run in one file: the agent, the public part of its problem, the promise, the users and the batch rule."""

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confide.arguments import choice, read_text, real, text, whole
from confide.errors import InvalidParameter, PrivacyError
from confide.learning.learner import Learner
from confide.mechanisms.sources import NoiseSource
from confide.privacy.accounting import gaussian_mu
from confide.privacy.loss import loss_for
from confide.privacy.request import JointDP, LocalDP
from confide.privatizers import AtMost

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
RULES = ("count", "deadline")
SERVES_NO_FEATURES = "this version serves no mixtures of signed features (FeatureMixtureMDP): use confide run, or a LinearMixtureMDP"
# Times after the year 9999 cannot be shown as dates.
_LONGEST_BATCH = 100 * 365.25 * 86_400.0
_LAST_START = datetime(9000, 1, 1, tzinfo=UTC).timestamp()
# Parameters of the functions that make an agent, so no agent can have options of these names.
_RESERVED_OPTIONS = (
    "agent",
    "cls",
    "episodes",
    "horizon",
    "name",
    "noise",
    "privacy",
    "problem",
    "secure",
    "sizes",
)


@dataclass(frozen=True, slots=True)
class Batching:
    """When a batch closes: after as many reports as the schedule says, or at public times, whoever came by then.

    `count` protects what a person did, not that the person took part. In joint runs `deadline` protects both against other users:
    people are enrolled into a batch beforehand, whoever stays away contributes zero, and neither counts nor a full batch are ever
    shown. In local runs neither rule protects that a person took part, because a release is the sum of the messages that came.
    """

    rule: str = "count"
    schedule: str | int | None = None  # as `schedule_of` reads it
    every: float = 86_400.0  # seconds between two closes
    # of the first batch, in seconds since 1970; None: when the run is made
    start: float | None = None

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        real("every", self.every, above=0, at_most=_LONGEST_BATCH)
        if self.start is not None:
            real("start", self.start, at_least=0, at_most=_LAST_START)

    def deadline(self, generation: int) -> float:
        """When the batch after so many releases closes; never by itself under `count`."""
        if self.rule == "count" or self.start is None:
            return math.inf
        return self.start + (generation + 1) * self.every


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRunSpec:
    """What the operator decides. All of it is public, and goes into the manifest."""

    name: str
    agent: str
    problem: str
    epsilon: float
    users: int
    title: str = ""
    problem_seed: int = 0
    horizon: int | None = None
    trust: str = "joint"
    delta: float = 0.0
    relation: str = "replace"
    noise: str = "secure"  # fast: a simulation, and everything says so
    local_noise: str = (
        # of devices; gaussian: more noise than an index, by a mechanism that any language can draw exactly
        "least"
    )
    seed: int = 0  # of what is drawn at random in public, such as posterior samples
    reports_per_person: int = 1
    # a person's budget over all runs of the service; None: no limit
    person_epsilon: float | None = None
    person_delta: float = 1e-6
    batch: Batching = field(default_factory=Batching)
    options: tuple[tuple[str, Any], ...] = ()  # of the agent

    def __post_init__(self) -> None:
        if not NAME.fullmatch(text("name", self.name)):
            raise InvalidParameter(
                f"name must be lower-case letters, digits and dashes, at most 63, got name={self.name!r}"
            )
        text("title", self.title)
        text("agent", self.agent, empty=False)
        text("problem", self.problem, empty=False)
        whole("problem_seed", self.problem_seed, at_least=0)
        if self.horizon is not None:
            whole("horizon", self.horizon, at_least=1)
        reserved = [name for name, _ in self.options if name in _RESERVED_OPTIONS]
        if reserved:
            raise InvalidParameter(
                f"[options] must be options of the agent, got {reserved[0]}: the run itself decides it"
            )
        choice("trust", self.trust, ("joint", "local"))
        (
            choice("noise", self.noise, ("secure", "fast")),
            choice("local_noise", self.local_noise, ("least", "gaussian")),
        )
        if self.local_noise == "gaussian" and (self.trust != "local" or self.delta == 0):
            raise InvalidParameter(
                "local_noise gaussian is for runs with trust local and delta above 0"
            )
        _ = self.privacy  # checks epsilon, delta and the relation
        whole("users", self.users, at_least=1), whole("seed", self.seed, at_least=0)
        whole("reports_per_person", self.reports_per_person, at_least=1)
        if self.batch.rule == "deadline" and self.reports_per_person != 1:
            raise InvalidParameter(
                "reports_per_person must be 1 under the rule deadline: people are enrolled into one batch"
            )
        if self.person_epsilon is not None:
            gaussian_mu(real("person_epsilon", self.person_epsilon, above=0), self.person_delta)

    @property
    def cap(self) -> float:
        """What a person may lose over all runs, in mu^2."""
        return (
            math.inf
            if self.person_epsilon is None
            else gaussian_mu(self.person_epsilon, self.person_delta) ** 2
        )

    @property
    def privacy(self) -> JointDP | LocalDP:
        if self.trust == "local":
            return LocalDP(self.epsilon, self.delta, self.relation)
        return JointDP(self.epsilon, self.delta, self.relation)

    @property
    def agent_options(self) -> dict[str, Any]:
        schedule = {} if self.batch.schedule is None else {"schedule": self.batch.schedule}
        return dict(self.options) | schedule

    def world(self) -> Any:
        from confide.problems.catalogue import PROBLEMS, make
        from confide.problems.feature_mixture import FeatureMixtureMDP

        try:
            made = make(self.problem, seed=self.problem_seed, horizon=self.horizon)
            if isinstance(made, FeatureMixtureMDP):
                raise InvalidParameter(SERVES_NO_FEATURES)
            return made
        except InvalidParameter as error:
            hint = (
                ""
                if self.problem in PROBLEMS
                else ". A file is read at each start, from the folder in which the service is started"
            )
            raise InvalidParameter(f"run {self.name}: {error}{hint}") from None

    def learner(self, source: NoiseSource) -> Learner:
        """Made anew from public choices alone: a restart makes the same one."""
        from confide.agents.catalogue import make_agent

        options = self.agent_options
        made = make_agent(
            self.agent,
            self.world(),
            episodes=self.users,
            privacy=self.privacy,
            noise=source,
            **options,
        )
        if not isinstance(made, Learner) or not made.abilities.sums:
            raise PrivacyError(
                f"{self.agent} cannot be served: it keeps its users' data to look at them again"
            )
        if made.plans_for_starts:
            raise InvalidParameter(
                f"{self.agent} with the paper's calibration cannot be served: it plans for the state in which each person "
                'starts, and devices do not do this. Use calibration = "tight"'
            )
        if self.local_noise == "gaussian":
            if isinstance(made.schedule, AtMost):
                raise InvalidParameter(
                    f"the devices of {self.agent} answer by an index: local_noise must be least"
                )
            made.calibration = replace(made.calibration, loss=loss_for(self.privacy))
        return made


def read_spec(path: str | Path) -> ServiceRunSpec:
    """The run in a TOML file."""
    try:
        return parse_spec(read_text(path, 2**20))
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}") from None
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from None


def parse_spec(written: str) -> ServiceRunSpec:
    try:
        given = tomllib.loads(written)
        _check_integers(given)
    except RecursionError:
        raise InvalidParameter(
            "the TOML of a run is nested too deeply: it has settings, [batch] and [options]"
        ) from None
    except ValueError as error:
        raise InvalidParameter(f"not TOML: {error}") from None
    batch, options = given.pop("batch", {}), given.pop("options", {})
    if not isinstance(batch, dict) or not isinstance(options, dict):
        raise InvalidParameter("[batch] and [options] must be tables")
    _known(given, (*_SETTINGS, "batch", "options"))
    _known(batch, _BATCH_SETTINGS)
    if isinstance(batch.get("start"), datetime):
        batch["start"] = batch["start"].timestamp()
    missing = [
        name for name in ("name", "agent", "problem", "epsilon", "users") if name not in given
    ]
    if missing:
        raise InvalidParameter(f"{missing[0]} is missing")
    return ServiceRunSpec(**given, batch=Batching(**batch), options=tuple(sorted(options.items())))


def _check_integers(value: Any) -> None:
    """`ValueError` if a whole number does not fit into 64 bits, which TOML demands. Python reads longer ones."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    for each in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _check_integers(each)


# The settings of a run and of its batches, by their names in TOML.
_SETTINGS = (
    "name",
    "agent",
    "problem",
    "epsilon",
    "users",
    "title",
    "problem_seed",
    "horizon",
    "trust",
    "delta",
    "relation",
    "noise",
    "local_noise",
    "seed",
    "reports_per_person",
    "person_epsilon",
    "person_delta",
)
_BATCH_SETTINGS = ("rule", "schedule", "every", "start")


def _known(given: dict[str, Any], names: Sequence[str]) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidParameter(f"unknown setting {unknown[0]!r}; known are {', '.join(names)}")


def write_spec(spec: ServiceRunSpec) -> str:
    """The same run as TOML: what the database keeps of it."""
    lines, tables = [], {"batch": {}, "options": dict(spec.options)}
    for name in _SETTINGS:
        value = getattr(spec, name)
        if value is not None:
            lines.append(f"{name} = {_toml(value)}")
    tables["batch"] = {name: getattr(spec.batch, name) for name in _BATCH_SETTINGS}
    for name, table in tables.items():
        lines += [
            "",
            f"[{name}]",
            *(f"{key} = {_toml(value)}" for key, value in table.items() if value is not None),
        ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise InvalidParameter(
        f"a setting must be a number, a text, true or false, got {type(value).__name__}"
    )
