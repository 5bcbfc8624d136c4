"""The specification of a run, and where its results are saved."""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confide._durable import make_folder, output, sync
from confide.agents.catalogue import make_agent, takes_privacy
from confide.agents.estimate import Resources, estimate_resources, refuse_what_does_not_fit
from confide.arguments import whole
from confide.errors import InvalidParameter, PromiseBroken
from confide.identity import Identity
from confide.learning.agent import abilities_of
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import StateFile
from confide.privacy.guarantee import SLACK
from confide.privacy.request import NoPrivacy, Request
from confide.runs.loop import Progress
from confide.runs.run import Run
from confide.runs.runner import prepare, run_label, serve

_NOT_OPTIONS = ("name", "problem", "episodes", "privacy")  # what `make_agent` is given by name


@dataclass(frozen=True, slots=True)
class Named:
    """An option whose value says little when it is printed: what it is called in legends and folders, and what the agent gets."""

    name: str
    value: Any

    def identity(self) -> Identity:
        return Identity("option", 1, name=self.name, value=self.value)

    def __str__(self) -> str:
        return self.name


def written(value: Any) -> str:
    """An option's value in a title or a command, so that `read_value` reads the same value: a text that could be taken for something else
    is in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and (
        value == "" or re.search(r'[\s="]', value) or not isinstance(read_value(value), str)
    ):
        return json.dumps(value)
    return str(value)


def read_value(text: str) -> bool | int | float | str:
    """As a TOML file would have it: true, 3, 0.5, a text, or a text in quotes."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        try:
            found = json.loads(text)
        except ValueError:
            raise InvalidParameter(f"a text in quotes must end with a quote, got {text}") from None
        return found if isinstance(found, str) else text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """Everything that changes the result: the agent, its promise, the problem, the number of users."""

    agent: str
    problem: str
    episodes: int
    privacy: Request = field(default_factory=NoPrivacy)
    source: str = "fast"
    options: tuple[tuple[str, Any], ...] = ()  # of the agent: calibration, bonus_scale, ...
    counts: bool | None = None  # see `confide.run`

    def __post_init__(self) -> None:
        whole("episodes", self.episodes, at_least=1)

    @property
    def title(self) -> str:
        """The agent with its options, for legends: agents that differ in any of them have different titles."""
        return self.agent + "".join(
            f" {value}" if name == "calibration" else f" {name}={value}"
            for name, value in self._written
        )

    @property
    def variant(self) -> str:
        """The title without the calibration: what a theorem is about, if there are no other options."""
        return self.agent + "".join(
            f" {name}={value}" for name, value in self._written if name != "calibration"
        )

    @property
    def calibration(self) -> str:
        return dict(self._written).get("calibration", "tight")

    @property
    def _written(self) -> list[tuple[str, str]]:
        return [(name, written(value)) for name, value in self.options if value is not None]

    @property
    def label(self) -> str:
        """Title and promise, for folders."""
        kind = self.privacy.kind.removesuffix("DP").lower()
        promise = (
            ""
            if isinstance(self.privacy, NoPrivacy)
            else f"-{kind}-eps{self.privacy.epsilon:g}-delta{self.privacy.delta:g}"
        )
        return re.sub(r"[^\w.+-]+", "_", f"{self.title}{promise}")

    def printed(self) -> "RunSpec":
        """The same, with the constants that are printed in the agent's paper."""
        others = (option for option in self.options if option[0] != "calibration")
        return replace(self, options=(("calibration", "paper"), *others))

    def beside(self, name: str) -> "RunSpec":
        """What stands beside it: `no-privacy` or `paper`, the same agent without privacy or as printed; or another agent, with its own
        defaults, under the same promise where it makes one."""
        if name == "no-privacy":
            return replace(self, privacy=NoPrivacy())
        if name == "paper":
            return self.printed()
        return replace(
            self,
            agent=name,
            privacy=self.privacy if takes_privacy(name) else NoPrivacy(),
            options=(),
        )

    def make(self, problem: Any) -> Any:
        """The agent, named after everything that was chosen for it: a run's label has its name."""
        agent = make_agent(
            self.agent, problem, episodes=self.episodes, privacy=self.privacy, **self._options()
        )
        agent.name, agent.variant = self.title, self.variant
        agent.chosen_calibration = self.calibration
        return agent

    def _options(self) -> dict[str, Any]:
        for name, _ in self.options:
            if name in _NOT_OPTIONS:
                raise InvalidParameter(f"{self.agent} has no option {name}")
        return {
            name: value.value if isinstance(value, Named) else value for name, value in self.options
        }

    def resources(self, problem: Any) -> Resources:
        """What a run will need, before its agent is made."""
        return estimate_resources(
            self.agent,
            problem,
            episodes=self.episodes,
            privacy=self.privacy,
            secure=self.source == "secure",
            **self._options(),
        )

    def ready(self, problem: Any, seed: int) -> Any:
        """The agent with its randomness and its noise: everything but the users.

        Refused if it needs more memory than is available, or if its noise does not keep the promise.
        """
        refuse_what_does_not_fit(self.resources(problem), self.title, problem)
        agent = self.make(problem)
        prepare(agent, seed, noise_source(self.source) if self.source != "fast" else None)
        if not isinstance(
            self.privacy, NoPrivacy
        ) and agent.guarantee.epsilon > self.privacy.epsilon * (1 + SLACK):
            raise PromiseBroken(
                f"{self.privacy} was requested, but {self.title} gives {agent.guarantee}"
            )
        return agent


def run_seeds(
    spec: RunSpec,
    problem: Any,
    seeds: range,
    *,
    out: Path | None,
    progress: Callable[[int], Progress] | None = None,
    command: str = "",
    first_agent: Any = None,
) -> Iterator[Run]:
    """One run per seed, each saved when it is complete; what is there already is loaded, what was interrupted is taken up.

    `first_agent`: the agent of the first seed, if `spec.ready` has built it already.
    """
    try:
        yield from _run_seeds(
            spec,
            problem,
            seeds,
            out=out,
            progress=progress,
            command=command,
            first_agent=first_agent,
        )
    finally:
        if out is not None:
            _remove_if_empty(private_path(out))


def _run_seeds(
    spec: RunSpec,
    problem: Any,
    seeds: range,
    *,
    out: Path | None,
    progress: Callable[[int], Progress] | None,
    command: str,
    first_agent: Any,
) -> Iterator[Run]:
    for seed in seeds:
        agent = first_agent or spec.ready(problem, seed)
        first_agent = None
        folder = None if out is None else out / spec.label / f"seed-{seed}"
        state = (
            None
            if out is None or not abilities_of(agent).saves
            else StateFile(private_folder(out) / f"{spec.label}-seed-{seed}.state")
        )
        if folder is not None and (folder / "run.json").exists():
            done = Run.load(folder)
            expected = run_label(agent, problem, spec.episodes, seed, counts=spec.counts)
            if done.made_from != expected:
                raise InvalidParameter(
                    f"{folder} contains another run ({done.made_from}), not this one ({expected}): use another --out"
                )
            if done.complete:
                # cleans up after a process that was killed when it had saved the result
                with output(folder):
                    pass
                if state is not None:
                    state.remove()
                yield done
                continue
        shown = progress(seed) if progress else None
        result = serve(
            agent,
            problem,
            spec.episodes,
            seed,
            state=state,
            progress=shown,
            command=command,
            counts=spec.counts,
        )
        if folder is not None:
            result.save(folder)
        if state is not None and result.complete:
            # only now that the result is on the disk: without state and result the noise would be drawn again
            state.remove()
        yield result
        if not result.complete:
            return


def private_path(out: Path) -> Path:
    """Beside the results, never among them: states are PRIVATE, results are meant to be published."""
    return Path(f"{os.path.realpath(out)}.private")


def private_folder(out: Path) -> Path:
    """The same as a folder that exists, and that only its owner can read."""
    folder = private_path(out)
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync(folder.parent)
    return folder


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and all(path.suffix == ".lock" for path in folder.iterdir()):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
