"""The specification of a run, and where its results are saved.

What leaves this file: with `out`, the folder `out/LABEL/seed-N` of each run (`Run.save`), and while
a run goes on, the PRIVATE state `OUT.private/LABEL-seed-N.state`. Labels name folders: if they
change, interrupted commands do not resume.
"""

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

# Parameters of `make_agent` that are not options of an agent.
_NOT_OPTIONS = ("name", "problem", "episodes", "privacy")


@dataclass(frozen=True, slots=True)
class Named:
    """An option whose value says little when it is printed.

    Legends and folders show its name, and the agent gets its value.
    """

    name: str
    value: Any

    def identity(self) -> Identity:
        return Identity("option", 1, name=self.name, value=self.value)

    def __str__(self) -> str:
        return self.name


def write_value(value: Any) -> str:
    """An option's value in a title or a command, so that `read_value` reads the same value.

    A text that could be taken for something else is in quotes.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    needs_quotes = value == "" or re.search(r'[\s="]', value) is not None
    if needs_quotes or not isinstance(read_value(value), str):
        return json.dumps(value)
    return value


def read_value(text: str) -> bool | int | float | str:
    """As a TOML file would have it: true, 3, 0.5, a text, or a text in quotes."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        try:
            unquoted = json.loads(text)
        except ValueError:
            raise InvalidParameter(f"a text in quotes must end with a quote, got {text}") from None
        return unquoted if isinstance(unquoted, str) else text
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """Everything that decides the result of a run, except for its seed.

    `options` are the agent's (calibration, bonus_scale and others), by name. `source` is the source
    of noise, fast or secure. `confide.run` explains `counts`.
    """

    agent: str
    problem: str
    episodes: int
    privacy: Request = field(default_factory=NoPrivacy)
    source: str = "fast"
    options: tuple[tuple[str, Any], ...] = ()
    counts: bool | None = None

    def __post_init__(self) -> None:
        whole("episodes", self.episodes, at_least=1)

    @property
    def title(self) -> str:
        """The agent with its options, for legends.

        Agents that differ in any option have different titles.
        """
        parts = [self.agent]
        for name, value in self._written_options:
            parts.append(value if name == "calibration" else f"{name}={value}")
        return " ".join(parts)

    @property
    def variant(self) -> str:
        """The title without the calibration.

        If there are no other options, it is the agent that a theorem is about.
        """
        others = [(name, value) for name, value in self._written_options if name != "calibration"]
        return " ".join([self.agent, *(f"{name}={value}" for name, value in others)])

    @property
    def calibration(self) -> str:
        return dict(self._written_options).get("calibration", "tight")

    @property
    def _written_options(self) -> list[tuple[str, str]]:
        return [(name, write_value(value)) for name, value in self.options if value is not None]

    @property
    def label(self) -> str:
        """Title and request, as the name of a folder."""
        request = ""
        if not isinstance(self.privacy, NoPrivacy):
            kind = self.privacy.kind.removesuffix("DP").lower()
            request = f"-{kind}-eps{self.privacy.epsilon:g}-delta{self.privacy.delta:g}"
        return re.sub(r"[^\w.+-]+", "_", f"{self.title}{request}")

    def with_paper_constants(self) -> "RunSpec":
        """The same, with the constants that are printed in the agent's paper."""
        others = (option for option in self.options if option[0] != "calibration")
        return replace(self, options=(("calibration", "paper"), *others))

    def for_comparison(self, name: str) -> "RunSpec":
        """What this is compared with under a name of `--compare-with`.

        `no-privacy` and `paper` are the same agent without privacy, or with its paper's constants.
        Other names are agents, with their own defaults, and with the same request if they take one.
        """
        if name == "no-privacy":
            return replace(self, privacy=NoPrivacy())
        if name == "paper":
            return self.with_paper_constants()
        privacy = self.privacy if takes_privacy(name) else NoPrivacy()
        return replace(self, agent=name, privacy=privacy, options=())

    def make(self, problem: Any) -> Any:
        """The agent, named after everything that was chosen for it.

        The label of a run contains this name.
        """
        agent = make_agent(
            self.agent, problem, episodes=self.episodes, privacy=self.privacy, **self._options()
        )
        agent.name = self.title
        agent.variant = self.variant
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
        """The agent with its randomness and its noise, so that only the users are missing.

        An agent is refused if it needs more memory than is available, or if its noise does not give
        the epsilon that was requested.
        """
        refuse_what_does_not_fit(self.resources(problem), self.title, problem)
        agent = self.make(problem)
        prepare(agent, seed, noise_source(self.source) if self.source != "fast" else None)
        if isinstance(self.privacy, NoPrivacy):
            return agent
        # SLACK is for the rounding of epsilon only.
        if agent.guarantee.epsilon > self.privacy.epsilon * (1 + SLACK):
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
    """One run per seed. With `out`, each is saved when it is complete.

    A saved run is loaded instead, and an interrupted one is resumed. After an interrupted run there
    are no more. `first_agent` is the agent of the first seed, if `spec.ready` has built it already.
    """
    try:
        for seed in seeds:
            agent = first_agent or spec.ready(problem, seed)
            first_agent = None
            run = None if out is None else _load_complete(spec, agent, problem, seed, out)
            if run is None:
                shown = progress(seed) if progress else None
                run = _run_and_save(spec, agent, problem, seed, out, shown, command)
            yield run
            if not run.complete:
                return
    finally:
        if out is not None:
            _remove_if_empty(private_path(out))


def _run_and_save(
    spec: RunSpec,
    agent: Any,
    problem: Any,
    seed: int,
    out: Path | None,
    progress: Progress | None,
    command: str,
) -> Run:
    """Serve the users, from the saved state if there is one, and save the result."""
    state = None if out is None else _state_file(spec, agent, seed, out)
    run = serve(
        agent,
        problem,
        spec.episodes,
        seed,
        state=state,
        progress=progress,
        command=command,
        counts=spec.counts,
    )
    if out is not None:
        run.save(_result_folder(spec, seed, out))
    if state is not None and run.complete:
        # Required for privacy: the state is removed only when the result is on the disk. Without
        # state and result the noise of the same users would be drawn again.
        state.remove()
    return run


def _load_complete(spec: RunSpec, agent: Any, problem: Any, seed: int, out: Path) -> Run | None:
    """The saved run, if it is complete. A folder with another run is refused."""
    folder = _result_folder(spec, seed, out)
    if not (folder / "run.json").exists():
        return None
    run = Run.load(folder)
    expected = run_label(agent, problem, spec.episodes, seed, counts=spec.counts)
    if run.made_from != expected:
        raise InvalidParameter(
            f"{folder} contains another run ({run.made_from}), not this one ({expected}): "
            "use another --out"
        )
    if not run.complete:
        return None
    # A process that was killed after it had saved the result has left temporary files and the
    # state. Both are removed here.
    with output(folder):
        pass
    state = _state_file(spec, agent, seed, out)
    if state is not None:
        state.remove()
    return run


def _result_folder(spec: RunSpec, seed: int, out: Path) -> Path:
    return out / spec.label / f"seed-{seed}"


def _state_file(spec: RunSpec, agent: Any, seed: int, out: Path) -> StateFile | None:
    """Where the state of an interrupted run is kept; None for an agent that cannot be saved."""
    if not abilities_of(agent).saves:
        return None
    return StateFile(private_folder(out) / f"{spec.label}-seed-{seed}.state")


def private_path(out: Path) -> Path:
    """The folder of PRIVATE states. It is beside the results, which may be published."""
    return Path(f"{os.path.realpath(out)}.private")


def private_folder(out: Path) -> Path:
    """The folder of `private_path`, which is made here. Only its owner can read it."""
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
