"""The result of a run, in memory and in a folder.

What leaves this file is a folder: `run.json` (format `confide-run/3`, the fields in `_FACTS` with
the guarantee and the segments), `curve.csv`, `policy.npz`, `certificate.json` and, for agents that
ask users, `questions.json`. `run.json` is written last, and lists the others. A field may be added
if `Run.load` accepts folders without it; every other change of the format needs a new number.
"""

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
# The 97.5 % quantile of the normal distribution, for 95 % intervals.
_NORMAL_QUANTILE = 1.959964
CURVES = ("regret", "value", "mean_return", "noise_std", "signal")


@dataclass(frozen=True, slots=True)
class Segment:
    """Users who came one after the other and were all served by the same policy.

    - `users`: how many there are;
    - `value`: the exact value of the policy, where the problem knows it;
    - `mean_return`: what these users earned on average, only where the value is unknown. No
      guarantee covers it;
    - `noise_std`: the noise of the release that the policy was planned from, if there was one;
    - `signal`: what stood against that noise, as the agent measures it from the release;
    - `return_error`: the standard error of `mean_return` over these users.
    """

    users: int
    value: float | None
    mean_return: float | None
    noise_std: float | None = None
    signal: float | None = None
    return_error: float | None = None

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
    """The result of a run.

    Regret is the exact cumulative pseudo-regret: the sum over users of (optimal value - value of
    their policy). `policy` is the last one. `made_from` is the label of everything that decided the
    result (`run_label`). `variant` is the agent's title without its calibration, where that was
    chosen. `questions` are what users were asked, where an agent asks; they are public.
    """

    agent: str
    problem: str
    seed: int
    planned_episodes: int
    segments: tuple[Segment, ...] = field(repr=False)
    policy: "Policy | None" = field(repr=False)
    optimal_value: float | None
    uniform_value: float | None
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    seconds: float
    versions: dict[str, str] = field(repr=False)
    command: str = ""
    made_from: str = field(default="", repr=False)
    variant: str = ""
    calibration: str = "tight"
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
        """The average return of the users since the previous checkpoint.

        NaN where the problem's values are known. No guarantee covers it.
        """
        return self.curve("mean_return", self.checkpoints)

    @property
    def last_return(self) -> tuple[float, float, float] | None:
        """The average return of the users of the last policy, and the ends of its 95 % interval.

        None where values are known, or where the policy served one user. No guarantee covers it.
        """
        last = self.segments[-1] if self.segments else None
        if last is None or last.mean_return is None or last.return_error is None:
            return None
        margin = _NORMAL_QUANTILE * last.return_error
        return last.mean_return, last.mean_return - margin, last.mean_return + margin

    @property
    def noise_std(self) -> Array:
        return self.curve("noise_std", self.checkpoints)

    @property
    def signal(self) -> Array:
        return self.curve("signal", self.checkpoints)

    def curve(self, name: str, users: npt.NDArray[np.int64]) -> Array:
        """One of `CURVES` at these numbers of users, which must grow.

        It is exact, because all users of a segment have the same policy.
        """
        arguments.choice("name", name, CURVES)
        users = arguments.integers("users", users)
        if not self.segments:
            return np.zeros(0)
        attribute = "value" if name == "regret" else name
        segment_values = [getattr(segment, attribute) for segment in self.segments]
        per_user = np.array(
            [math.nan if value is None else value for value in segment_values], dtype=float
        )
        ends = np.cumsum([segment.users for segment in self.segments], dtype=np.int64)
        if name == "regret":
            optimal_value = math.nan if self.optimal_value is None else self.optimal_value
            return _cumulative_at(users, ends, optimal_value - per_user)
        if name == "mean_return":
            totals = _cumulative_at(users, ends, per_user)
            return np.diff(totals, prepend=0.0) / np.diff(users, prepend=0)
        values: Array = per_user[np.searchsorted(ends, users, side="left")]
        return values

    def episodes_to(self, fraction: float = 0.9) -> int | None:
        """The number of users after which policies stay at `fraction` of the way to optimal play.

        The way begins at uniform play. `metrics.episodes_to` says what staying means.
        """
        return metrics.episodes_to(self, fraction)

    def save(self, folder: str | Path) -> None:
        """Write the result to a folder: releases and what is computed from them, without state.

        Where the problem's values are unknown the folder also contains mean returns: exact averages
        over users, which no guarantee covers. Nor does one cover the regret of users who are
        counted by where they started (`LQSystem.counts_starts`), because it depends on their
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
                questions = [question.to_json() for question in self.questions]
                _write_json(target / "questions.json", questions)
            files = sorted(path.name for path in target.iterdir())
            _write_json(target / "run.json", {**facts, "files": files})

    @classmethod
    def load(cls, folder: str | Path) -> "Run":
        """Read a saved run. Everything is checked, because somebody may have edited the files."""
        # Policies need compiled code, and tables of results do not.
        from confide.policy import load_policy

        source = Path(arguments.path("folder", folder))
        try:
            facts = kind("run.json", json.loads(read_text(source / "run.json")), dict)
            _check_format(source, facts["format"])
            segments = tuple(map(_read_segment, kind("segments", facts["segments"], list)))
            checked_facts = {key: check(key, facts[key]) for key, check in _FACTS.items()}
            files = _listed_files(source, facts)
            missing = sorted(name for name in files if not (source / Path(name).name).is_file())
            questions: tuple[Question, ...] = ()
            if "questions.json" in files and "questions.json" not in missing:
                questions = _read_questions(source / "questions.json")
        except ConfideError:
            raise
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InvalidParameter(f"{source} does not contain a saved run: {error}") from None
        if missing:
            raise InvalidParameter(
                f"{source} does not contain the whole run: {', '.join(missing)} is missing"
            )
        if sum(segment.users for segment in segments) > checked_facts["planned_episodes"]:
            raise InvalidParameter(
                f"{source} does not contain a saved run: it served more users than were planned"
            )
        policy = load_policy(source / "policy.npz") if "policy.npz" in files else None
        certificate = None
        if "certificate.json" in files:
            certificate = _read_certificate(source / "certificate.json")
        return cls(
            segments=segments,
            policy=policy,
            certificate=certificate,
            questions=questions,
            **checked_facts,
        )

    def csv(self) -> str:
        """The curves at the checkpoints. A value that is not known is an empty cell."""
        lines = [",".join(("users", *CURVES))]
        rows = zip(self.checkpoints, *(getattr(self, name) for name in CURVES), strict=True)
        for row in rows:
            cells = ("" if math.isnan(number) else repr(number.item()) for number in row)
            lines.append(",".join(cells))
        return "\n".join(lines) + "\n"

    def plot(self) -> Any:
        """A matplotlib figure of regret and value over users.

        Where the problem's values are unknown, it shows average returns.
        """
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


def _cumulative_at(
    users: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], per_user: Array
) -> Array:
    """Cumulative sums over users, at these numbers of users.

    Every user of a segment, which ends at one of `ends`, contributes the same. So the sums are
    linear within a segment.
    """
    sums = np.cumsum(np.diff(ends, prepend=0) * per_user)
    totals: Array = np.interp(users, np.concatenate([[0], ends]), np.concatenate([[0.0], sums]))
    return totals


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _check_format(source: Path, saved_format: Any) -> None:
    if saved_format != _FORMAT:
        raise InvalidParameter(
            f"{source} contains a run of format {saved_format}, "
            f"this version of confide reads {_FORMAT}"
        )


def _read_certificate(path: Path) -> Certificate:
    from confide.audit.verify import verify_numbers

    certificate = Certificate.load(path)
    # A result that is shown with a guarantee must keep it.
    verify_numbers(certificate)
    return certificate


def _read_segment(facts: Any) -> Segment:
    segment = Segment(**kind("segment", facts, dict))
    whole("users", segment.users, at_least=0)
    for name, value in segment.to_json().items():
        if name != "users":
            _number(name, value)
    return segment


def _listed_files(source: Path, facts: dict[str, Any]) -> set[str]:
    """The files of a run. The folders of older versions do not list them."""
    if "files" in facts:
        return {text("files", name) for name in facts["files"]}
    return {path.name for path in source.iterdir()}


def _read_questions(source: Path) -> tuple[Question, ...]:
    questions = kind("questions.json", json.loads(read_text(source)), list)
    return tuple(map(Question.from_json, questions))


def _versions(name: str, value: Any) -> dict[str, str]:
    numbers = kind(name, value, dict)
    return {text(name, library): text(name, number) for library, number in numbers.items()}


# The fields of run.json besides its format, its files and the segments, and the check of each.
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
    """At most `points` numbers of users from 1 to `episodes`, evenly spaced on a logarithmic scale.

    200 points are a matter of taste.
    """
    spaced = np.round(np.geomspace(1, max(episodes, 1), points)).astype(np.int64)
    grid = np.unique(spaced)[: max(episodes, 0)]
    # All callers get the same array.
    grid.setflags(write=False)
    return grid
