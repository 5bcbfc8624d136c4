"""The result of a run, in memory and in a folder."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide._durable import output, replace_files
from confide.arguments import kind, read_text, real, text, whole
from confide.errors import ConfideError, InvalidParameter
from confide.learning.question import Question
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.runs import metrics

if TYPE_CHECKING:
    from confide.policy import Policy

Array = npt.NDArray[np.float64]

_FORMAT = "confide-run/3"
_NORMAL = 1.959964  # 97.5 % of a normal distribution
CURVES = ("regret", "value", "mean_return", "noise_std", "signal")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of users who were all served by the same policy."""

    users: int  # how many
    value: float | None  # the exact value of the policy, where the problem knows it
    # what these users got on average: only where exact values are unknown; no promise covers it
    mean_return: float | None
    # of the release that the policy was planned from, where there was one
    noise_std: float | None = None
    # what stood against that noise, as the agent measures it from the release
    signal: float | None = None
    return_error: float | None = None  # the standard error of mean_return, over these users

    def to_json(self) -> dict[str, Any]:
        return {
            "users": self.users,
            "value": self.value,
            "mean_return": self.mean_return,
            "noise_std": self.noise_std,
            "signal": self.signal,
            "return_error": self.return_error,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The result of a run. Regret is the exact cumulative pseudo-regret: sum over users of (optimal value - value of their policy)."""

    agent: str
    problem: str
    seed: int
    planned_episodes: int
    segments: tuple[Segment, ...] = field(repr=False)
    policy: "Policy | None" = field(repr=False)  # the last one
    optimal_value: float | None
    uniform_value: float | None
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    seconds: float
    versions: dict[str, str] = field(repr=False)
    command: str = ""
    # everything that decided the result: agent, promise, world
    made_from: str = field(default="", repr=False)
    # the agent without its calibration, where that was chosen
    variant: str = ""
    calibration: str = "tight"
    # what users were asked, where an agent asks; public
    questions: tuple[Question, ...] = field(default=(), repr=False)

    @property
    def episodes(self) -> int:
        """How many users were served; fewer than planned if the run was interrupted."""
        return sum(segment.users for segment in self.segments)

    @property
    def complete(self) -> bool:
        return self.episodes == self.planned_episodes

    @property
    def checkpoints(self) -> npt.NDArray[np.int64]:
        """Numbers of users, evenly spaced on a logarithmic scale, at which curves are given."""
        return checkpoint_grid(self.episodes)

    @property
    def regret(self) -> Array:
        """Cumulative regret at the checkpoints; NaN where the problem's values are unknown."""
        return self.curve("regret", self.checkpoints)

    @property
    def value(self) -> Array:
        """The exact value of the policy that served the user at each checkpoint."""
        return self.curve("value", self.checkpoints)

    @property
    def mean_return(self) -> Array:
        """The average return of the users since the previous checkpoint, if the problem's values are unknown. No guarantee covers it."""
        return self.curve("mean_return", self.checkpoints)

    @property
    def last_return(self) -> tuple[float, float, float] | None:
        """The value of the last policy as its users' average return, and the ends of a 95 % interval over these users. None where values
        are known, or where it served one user. No guarantee covers it."""
        last = self.segments[-1] if self.segments else None
        if last is None or last.mean_return is None or last.return_error is None:
            return None
        margin = _NORMAL * last.return_error
        return last.mean_return, last.mean_return - margin, last.mean_return + margin

    @property
    def noise_std(self) -> Array:
        return self.curve("noise_std", self.checkpoints)

    @property
    def signal(self) -> Array:
        return self.curve("signal", self.checkpoints)

    def curve(self, name: str, users: npt.NDArray[np.int64]) -> Array:
        """One of `CURVES` at these numbers of users, which grow; exact, because a segment has one policy."""
        arguments.choice("name", name, CURVES)
        users = arguments.integers("users", users)
        if not self.segments:
            return np.zeros(0)
        attribute = "value" if name == "regret" else name
        found = [getattr(segment, attribute) for segment in self.segments]
        per_user = np.array([math.nan if value is None else value for value in found], dtype=float)
        ends = np.cumsum([segment.users for segment in self.segments], dtype=np.int64)
        if name in ("regret", "mean_return"):
            best = math.nan if self.optimal_value is None else self.optimal_value
            sums = np.cumsum(
                np.diff(ends, prepend=0) * (best - per_user if name == "regret" else per_user)
            )
            # linear within a segment
            total: Array = np.interp(
                users, np.concatenate([[0], ends]), np.concatenate([[0.0], sums])
            )
            return (
                total
                if name == "regret"
                else np.diff(total, prepend=0.0) / np.diff(users, prepend=0)
            )
        values: Array = per_user[np.searchsorted(ends, users, side="left")]
        return values

    def episodes_to(self, fraction: float = 0.9) -> int | None:
        """The number of users after which policies stay at `fraction` of the way from uniform to optimal: see `metrics.episodes_to`."""
        return metrics.episodes_to(self, fraction)

    def save(self, folder: str | Path) -> None:
        """Write the result to a folder of JSON and CSV files: releases and what is computed from them, without saved state.

        Where the problem's values are unknown it also contains mean returns: exact averages over users, which no guarantee covers. Nor
        does one cover the regret of users who are counted by where they started (`LQSystem.counts_starts`), because it depends on their
        starts. The folder contains the whole result, or no `run.json`.
        """
        where = Path(arguments.path("folder", folder))
        facts = {
            "format": _FORMAT,
            **{key: getattr(self, key) for key in _FACTS},
            "guarantee": self.guarantee.to_json(),
            "segments": [segment.to_json() for segment in self.segments],
        }
        with output(where), replace_files(where, last="run.json") as target:
            (target / "curve.csv").write_text(self.csv(), encoding="utf-8")
            if self.policy is not None:
                self.policy.save(target / "policy.npz")
            if self.certificate is not None:
                self.certificate.save(target / "certificate.json")
            if self.questions:
                asked = [question.to_json() for question in self.questions]
                (target / "questions.json").write_text(
                    json.dumps(asked, indent=1, allow_nan=False) + "\n", encoding="utf-8"
                )
            files = sorted(path.name for path in target.iterdir())
            said = json.dumps({**facts, "files": files}, indent=1, allow_nan=False) + "\n"
            (target / "run.json").write_text(said, encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> "Run":
        # Policies need compiled code, and tables of results do not.
        from confide.policy import load_policy

        source = Path(arguments.path("folder", folder))
        try:
            facts = kind("run.json", json.loads(read_text(source / "run.json")), dict)
            if facts["format"] != _FORMAT:
                raise InvalidParameter(
                    f"{source} contains a run of format {facts['format']}, this version of confide reads {_FORMAT}"
                )
            segments = tuple(
                _segment(segment) for segment in kind("segments", facts["segments"], list)
            )
            known = {key: check(key, facts[key]) for key, check in _FACTS.items()}
            files = (
                {text("files", name) for name in facts["files"]}
                if "files" in facts
                else {path.name for path in source.iterdir()}
            )
            asked = _questions(source / "questions.json") if "questions.json" in files else ()
            lacking = sorted(name for name in files if not (source / Path(name).name).is_file())
        except ConfideError:
            raise
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidParameter(f"{source} does not contain a saved run: {error}") from None
        if lacking:
            raise InvalidParameter(
                f"{source} does not contain the whole run: {', '.join(lacking)} is missing"
            )
        _check_users(source, segments, known["planned_episodes"])
        policy = load_policy(source / "policy.npz") if "policy.npz" in files else None
        certificate = (
            Certificate.load(source / "certificate.json") if "certificate.json" in files else None
        )
        if certificate is not None:
            from confide.audit.verify import verify

            verify(certificate)  # a result that is shown with a promise must keep it
        return cls(
            segments=segments, policy=policy, certificate=certificate, questions=asked, **known
        )

    def csv(self) -> str:
        lines = [",".join(("users", *CURVES))]
        rows = zip(self.checkpoints, *(getattr(self, name) for name in CURVES), strict=True)
        lines += [",".join("" if math.isnan(x) else repr(x.item()) for x in row) for row in rows]
        return "\n".join(lines) + "\n"

    def plot(self) -> Any:
        """A matplotlib figure of regret and value over users; of average returns where the problem's values are unknown."""
        from confide.report import charts, picture

        def series(curve: Array) -> list[charts.Series]:
            return [charts.Series(self.agent, charts.Look(0), self.checkpoints, curve)]

        if self.optimal_value is None:
            return picture.draw([charts.return_chart(series(self.mean_return))])
        ends = self.optimal_value, self.uniform_value
        return picture.draw(
            [
                charts.regret_chart(series(self.regret), *ends),
                charts.value_chart(series(self.value), *ends),
            ]
        )


def _number(name: str, value: Any) -> float | None:
    return None if value is None else real(name, value)


def _segment(facts: Any) -> Segment:
    made = Segment(**kind("segment", facts, dict))
    whole("users", made.users, at_least=0)
    for name, value in made.to_json().items():
        if name != "users":
            _number(name, value)
    return made


def _questions(source: Path) -> tuple[Question, ...]:
    if not source.is_file():
        return ()  # said below, with all that is missing
    return tuple(
        Question.from_json(facts)
        for facts in kind("questions.json", json.loads(read_text(source)), list)
    )


def _check_users(source: Path, segments: tuple[Segment, ...], planned: int) -> None:
    if sum(segment.users for segment in segments) > planned:
        raise InvalidParameter(
            f"{source} does not contain a saved run: it served more users than were planned"
        )


def _versions(name: str, value: Any) -> dict[str, str]:
    return {text(name, key): text(name, said) for key, said in kind(name, value, dict).items()}


# What run.json says besides the segments, and how each of it is checked: somebody may have edited the file.
_FACTS: dict[str, Callable[[str, Any], Any]] = {
    "agent": partial(text, empty=False),
    "problem": partial(text, empty=False),
    "seed": partial(whole, at_least=0),
    "planned_episodes": partial(whole, at_least=1),
    "optimal_value": _number,
    "uniform_value": _number,
    "guarantee": lambda _, value: Guarantee.from_json(value),
    "seconds": partial(real, at_least=0),
    "versions": _versions,
    "command": lambda name, value: kind(name, value, str),
    "made_from": text,
    "variant": text,
    "calibration": text,
}


@lru_cache(maxsize=64)
def checkpoint_grid(episodes: int, points: int = 200) -> npt.NDArray[np.int64]:
    grid = np.unique(np.round(np.geomspace(1, max(episodes, 1), points)).astype(np.int64))[
        : max(episodes, 0)
    ]
    grid.setflags(write=False)  # everybody gets the same one
    return grid
