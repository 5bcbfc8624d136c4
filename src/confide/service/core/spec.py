"""The settings of a run, in one TOML file.

They name the agent, the public part of its problem, the guarantee, the users and the batch rule.
All of them are public. The database keeps them as the TOML that `write_spec` writes, and reads them
again at each start. So the names in `_SETTINGS` and `_BATCH_SETTINGS` are a format: they never
change. Names of classes and fields may.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Sequence
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
SERVES_NO_FEATURES = (
    "this version serves no mixtures of signed features (FeatureMixtureMDP): "
    "use confide run, or a LinearMixtureMDP"
)
SECONDS_PER_DAY = 86_400.0
# Times after the year 9999 cannot be shown as dates, so starts and batches are limited. The limits
# are a matter of taste.
_LONGEST_BATCH_SECONDS = 100 * 365.25 * SECONDS_PER_DAY
_LAST_START = datetime(9000, 1, 1, tzinfo=UTC).timestamp()
# A file of settings has at most so many bytes. A matter of taste.
_MAX_FILE_BYTES = 2**20
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
    """When a batch closes: after a number of reports, or at public times, whoever came by then.

    `count` protects what a person did, not that the person took part. In joint runs `deadline`
    protects both against other users: people are enrolled into a batch beforehand, whoever stays
    away contributes zero, and neither counts nor a full batch are ever shown. In local runs neither
    rule protects that a person took part, because a release is the sum of the messages that came.
    """

    rule: str = "count"
    # The sizes of the batches, as `schedule_of` reads them.
    schedule: str | int | None = None
    # Seconds between two closes under `deadline`.
    every: float = SECONDS_PER_DAY
    # When the first batch opens, in seconds since 1970; None: when the run is made.
    start: float | None = None

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        real("every", self.every, above=0, at_most=_LONGEST_BATCH_SECONDS)
        if self.start is not None:
            real("start", self.start, at_least=0, at_most=_LAST_START)

    def deadline(self, generation: int) -> float:
        """Return when the batch after so many releases closes, in seconds since 1970.

        Under `count` no batch closes by itself.
        """
        if self.rule == "count" or self.start is None:
            return math.inf
        return self.start + (generation + 1) * self.every


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRunSpec:
    """What the operator decides about a run. All of it is public, and goes into the manifest."""

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
    # fast: the run is a simulation, and everything that it publishes says so.
    noise: str = "secure"
    # The noise of devices. gaussian: more noise than that of an index, but any language can draw it
    # exactly.
    local_noise: str = "least"
    # The seed of what is drawn at random in public, such as posterior samples. Never of noise.
    seed: int = 0
    reports_per_person: int = 1
    # A person's budget over all runs of the service; None: no limit.
    person_epsilon: float | None = None
    person_delta: float = 1e-6
    batch: Batching = field(default_factory=Batching)
    # The options of the agent, by name.
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        self._check_names()
        self._check_guarantee()
        self._check_people()

    def _check_names(self) -> None:
        if not NAME.fullmatch(text("name", self.name)):
            raise InvalidParameter(
                "name must be lower-case letters, digits and dashes, at most 63 of them, "
                f"got name={self.name!r}"
            )
        text("title", self.title)
        text("agent", self.agent, empty=False)
        text("problem", self.problem, empty=False)
        whole("problem_seed", self.problem_seed, at_least=0)
        if self.horizon is not None:
            whole("horizon", self.horizon, at_least=1)
        for name, _ in self.options:
            if name in _RESERVED_OPTIONS:
                raise InvalidParameter(
                    f"[options] must be options of the agent, got {name}: the run itself decides it"
                )

    def _check_guarantee(self) -> None:
        choice("trust", self.trust, ("joint", "local"))
        choice("noise", self.noise, ("secure", "fast"))
        choice("local_noise", self.local_noise, ("least", "gaussian"))
        if self.local_noise == "gaussian" and (self.trust != "local" or self.delta == 0):
            raise InvalidParameter(
                "local_noise gaussian is for runs with trust local and delta above 0, "
                f"got trust={self.trust!r} and delta={self.delta!r}"
            )
        # The request checks epsilon, delta and the relation.
        _ = self.privacy

    def _check_people(self) -> None:
        whole("users", self.users, at_least=1)
        whole("seed", self.seed, at_least=0)
        whole("reports_per_person", self.reports_per_person, at_least=1)
        if self.batch.rule == "deadline" and self.reports_per_person != 1:
            raise InvalidParameter(
                "reports_per_person must be 1 under the rule deadline, "
                f"got {self.reports_per_person}: people are enrolled into one batch"
            )
        if self.person_epsilon is not None:
            gaussian_mu(real("person_epsilon", self.person_epsilon, above=0), self.person_delta)

    @property
    def cap(self) -> float:
        """What a person may lose over all runs, in mu^2."""
        if self.person_epsilon is None:
            return math.inf
        return gaussian_mu(self.person_epsilon, self.person_delta) ** 2

    @property
    def privacy(self) -> JointDP | LocalDP:
        if self.trust == "local":
            return LocalDP(self.epsilon, self.delta, self.relation)
        return JointDP(self.epsilon, self.delta, self.relation)

    @property
    def agent_options(self) -> dict[str, Any]:
        schedule = {} if self.batch.schedule is None else {"schedule": self.batch.schedule}
        return dict(self.options) | schedule

    def make_problem(self) -> Any:
        """Make the problem of the run. Users are served by its public part alone."""
        from confide.problems.catalogue import PROBLEMS, make
        from confide.problems.feature_mixture import FeatureMixtureMDP

        try:
            problem = make(self.problem, seed=self.problem_seed, horizon=self.horizon)
            if isinstance(problem, FeatureMixtureMDP):
                raise InvalidParameter(SERVES_NO_FEATURES)
            return problem
        except InvalidParameter as error:
            hint = ""
            if self.problem not in PROBLEMS:
                hint = (
                    ". A file is read at each start, "
                    "from the folder in which the service is started"
                )
            raise InvalidParameter(f"run {self.name}: {error}{hint}") from None

    def make_learner(self, source: NoiseSource) -> Learner:
        """Make the learner from public choices alone: a restart makes the same one."""
        from confide.agents.catalogue import make_agent

        learner = make_agent(
            self.agent,
            self.make_problem(),
            episodes=self.users,
            privacy=self.privacy,
            noise=source,
            **self.agent_options,
        )
        if not isinstance(learner, Learner) or not learner.abilities.sums:
            raise PrivacyError(
                f"{self.agent} cannot be served: it keeps its users' data to look at them again"
            )
        if learner.plans_for_starts:
            raise InvalidParameter(
                f"{self.agent} with the paper's calibration cannot be served: it plans for the "
                "state in which each person starts, and devices do not do this. "
                'Use calibration = "tight"'
            )
        if self.local_noise == "gaussian":
            if isinstance(learner.schedule, AtMost):
                raise InvalidParameter(
                    f"the devices of {self.agent} answer by an index: local_noise must be least"
                )
            learner.calibration = replace(learner.calibration, loss=loss_for(self.privacy))
        return learner


def read_spec(path: str | Path) -> ServiceRunSpec:
    """Read the settings of a run from a TOML file."""
    try:
        return parse_spec(read_text(path, _MAX_FILE_BYTES))
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}") from None
    except InvalidParameter as error:
        raise InvalidParameter(f"{path}: {error}") from None


def parse_spec(written: str) -> ServiceRunSpec:
    """Read the settings of a run from the text of a TOML file."""
    try:
        settings = tomllib.loads(written)
        _check_integers(settings)
    except RecursionError:
        raise InvalidParameter(
            "the TOML of a run is nested too deeply: it has settings, [batch] and [options]"
        ) from None
    except ValueError as error:
        raise InvalidParameter(f"not TOML: {error}") from None
    batch = settings.pop("batch", {})
    options = settings.pop("options", {})
    if not isinstance(batch, dict) or not isinstance(options, dict):
        raise InvalidParameter("[batch] and [options] must be tables")
    _check_names(settings, (*_SETTINGS, "batch", "options"))
    _check_names(batch, _BATCH_SETTINGS)
    if isinstance(batch.get("start"), datetime):
        batch["start"] = batch["start"].timestamp()
    for name in _REQUIRED_SETTINGS:
        if name not in settings:
            raise InvalidParameter(
                f"{name} is missing: a run needs {', '.join(_REQUIRED_SETTINGS)}"
            )
    return ServiceRunSpec(
        **settings, batch=Batching(**batch), options=tuple(sorted(options.items()))
    )


def _check_integers(value: Any) -> None:
    """Raise `ValueError` if a whole number does not fit into 64 bits.

    TOML demands this. Python reads longer numbers.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list):
        parts = value
    for part in parts:
        _check_integers(part)


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
_REQUIRED_SETTINGS = ("name", "agent", "problem", "epsilon", "users")


def _check_names(settings: dict[str, Any], names: Sequence[str]) -> None:
    for name in settings:
        if name not in names:
            raise InvalidParameter(
                f"unknown setting {name!r}: it must be one of {', '.join(names)}"
            )


def write_spec(spec: ServiceRunSpec) -> str:
    """Return the settings as TOML: what the database keeps of them."""
    settings = {name: getattr(spec, name) for name in _SETTINGS}
    batch = {name: getattr(spec.batch, name) for name in _BATCH_SETTINGS}
    lines = [
        *_toml_lines(settings),
        "",
        "[batch]",
        *_toml_lines(batch),
        "",
        "[options]",
        *_toml_lines(dict(spec.options)),
    ]
    return "\n".join(lines) + "\n"


def _toml_lines(settings: dict[str, Any]) -> list[str]:
    return [f"{name} = {_toml(value)}" for name, value in settings.items() if value is not None]


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
