"""confide run: run an agent on a problem."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.groups import with_groups
from confide.cli.options import (
    OUTPUT_PANEL,
    AgentOptions,
    AgentPrivacyOptions,
    AsJson,
    CompareWith,
    Settings,
)
from confide.cli.problem_options import ProblemOptions
from confide.cli.progress import run_bars
from confide.cli.results import print_runs
from confide.cli.rollouts import RolloutOptions, baseline_of, play_final_policies

if TYPE_CHECKING:
    from confide.cli.rollouts import PlayedValues
    from confide.runs.run import Run
    from confide.runs.spec import RunSpec

# Exit code of a command that was interrupted with Ctrl-C, as shells report it.
INTERRUPTED = 130
# A label of a progress bar has room for this many characters of an agent's name.
LABEL_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """How often a run is repeated, and how it is simulated. No option changes the guarantee."""

    PANEL: ClassVar = "Simulation"

    seed: Annotated[int, typer.Option(help="First seed.", min=0)] = 0
    seeds: Annotated[int, typer.Option(help="Number of runs, with consecutive seeds.")] = 1
    source: Annotated[
        str,
        typer.Option(
            metavar="fast|secure",
            help="Source of the noise. fast: from the seed, for simulation. secure: for real data.",
        ),
    ] = "fast"
    counts: Annotated[
        bool | None,
        typer.Option(
            "--counts/--one-by-one",
            help="Simulate users by counts of their transitions, or one by one. Both have the same "
            "distribution and differ in speed.",
            show_default="counts, and real messages of up to 10,000 local users",
        ),
    ] = None

    def seed_range(self) -> range:
        from confide.arguments import whole
        from confide.runs.sweep import SEEDS

        whole("seeds", self.seeds, at_least=1, at_most=SEEDS)
        whole("seed", self.seed)
        return range(self.seed, self.seed + self.seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningOptions(AgentOptions):
    """The options of the agent, and other agents to compare it with."""

    settings: Settings = None
    compare_with: CompareWith = None


@with_groups
def run(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="An agent from `confide list`, or a class of yours as package.module:Class.",
        ),
    ],
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM",
            help="A problem from `confide list`, gym:ID, or the file of a saved problem.",
        ),
    ],
    privacy: AgentPrivacyOptions,
    learning: LearningOptions,
    problem_options: ProblemOptions,
    rollout_options: RolloutOptions,
    simulation: SimulationOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save results and a report to this folder. An interrupted command resumes from "
            "it.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an agent on a problem, and show its regret and its guarantee.

    Examples:
        confide run likelihood-vi lock --epsilon 1 --users 20000
        confide run tabular-psrl riverswim --epsilon 1 --seeds 8 \\
            --compare-with no-privacy --compare-with uniform --out riverswim
    """
    from confide.runs.spec import RunSpec

    seeds = simulation.seed_range()
    world = problem_options.make(problem)
    first_spec = RunSpec(
        agent=agent,
        problem=world.name,
        episodes=learning.episodes,
        privacy=privacy.request(),
        source=simulation.source,
        options=learning.for_spec(learning.settings),
        counts=simulation.counts,
    )
    other_specs = [first_spec.for_comparison(name) for name in learning.compare_with or []]
    plan = dict.fromkeys([first_spec, *other_specs], seeds)
    baseline = baseline_of(first_spec, world, problem, rollout_options)
    has_default_baseline = baseline is not None and baseline not in plan
    if baseline is not None:
        plan.setdefault(baseline, seeds[:1])
    only_agent = _check(list(plan), world, simulation.seed)
    play = partial(
        play_final_policies, world=world, problem=problem, rollouts=rollout_options.rollouts
    )
    _run_all(plan, world, out, as_json, only_agent, play)
    if has_default_baseline and not as_json:
        typer.echo(
            f"{agent} also ran without privacy, with seed {simulation.seed}; "
            "--no-baseline leaves this run out"
        )


def _run_all(
    plan: "dict[RunSpec, range]",
    world: Any,
    out: Path | None,
    as_json: bool,
    only_agent: Any,
    play: "Callable[[list[Run]], Sequence[PlayedValues | None]]",
) -> None:
    """Run every spec of the plan with its seeds, then save and print the results.

    `only_agent` is an agent that is built already, or None. `play` gives the rollouts of the final
    policies.
    """
    from confide._durable import output
    from confide._extras import has_extra

    command = shlex.join(["confide", *sys.argv[1:]])
    with nullcontext() if out is None else output(out):
        runs = _runs(plan, world, out, as_json, only_agent, command)
        # An interrupted command ends at once: the report is written when the runs are complete.
        complete = all(run.complete for run in runs)
        has_report = complete and has_extra("report")
        if out is not None and has_report:
            first_spec = next(iter(plan))
            _write_report(runs, f"{first_spec.agent} on {world.name}", out, command)
    print_runs(runs, as_json, play(runs) if complete else None)
    if out is not None and complete and not as_json:
        missing = "no report was written: pip install 'confide[report]'"
        typer.echo(f"report: {out / 'report.html'}" if has_report else missing)
    if not complete:
        typer.echo("interrupted: run the same command again to resume", err=True)
        raise typer.Exit(INTERRUPTED)


def _runs(
    plan: "dict[RunSpec, range]",
    world: Any,
    out: Path | None,
    quiet: bool,
    only_agent: Any,
    command: str,
) -> "list[Run]":
    """The runs of the plan. After an interruption the last one is not complete."""
    from confide.runs.spec import run_seeds

    runs: list[Run] = []
    with run_bars(quiet) as new_bar:
        for spec, seeds in plan.items():
            runs += run_seeds(
                spec,
                world,
                seeds,
                out=out,
                progress=new_bar(_label(spec), spec.episodes),
                command=command,
                first_agent=only_agent,
            )
            only_agent = None
            if not runs[-1].complete:
                break
    return runs


def _write_report(runs: "list[Run]", name: str, out: Path, command: str) -> None:
    from confide._durable import replace_files
    from confide.comparison.comparison import Comparison

    with replace_files(out, last="report.html") as stage:
        comparison = Comparison.of_runs(runs, name=name)
        comparison.save_figures(stage / "figures")
        comparison.report(stage / "report.html", command=command)


def _label(spec: "RunSpec") -> str:
    """A label that fits a progress bar."""
    name = spec.title[-LABEL_CHARACTERS:]
    epsilon = spec.privacy.epsilon
    return f"{name} eps {epsilon:g}" if epsilon < float("inf") else name


def _check(specs: "list[RunSpec]", world: Any, seed: int) -> Any:
    """Check all runs before the first one starts, so that a mistake is reported at once.

    Return the agent if there is only one kind of run, so that it is built once. Otherwise agents
    are built again when it is their turn, because several large agents at the same time may not
    fit into memory.
    """
    from confide.errors import ConfideError

    agent = None
    late_titles: set[str] = set()
    for spec in specs:
        try:
            agent = spec.ready(world, seed)
        except ConfideError as error:
            if len(specs) == 1:
                raise error from None
            raise type(error)(f"{spec.title}: {error}") from None
        schedule = getattr(agent, "schedule", None)
        # One release is allowed, and pointless.
        is_late = schedule is not None and schedule.leaves == 1
        # The same agent with and without privacy is warned about once.
        if is_late and spec.title not in late_titles:
            late_titles.add(spec.title)
            typer.echo(
                f"warning: {spec.title}: the first release comes after all {spec.episodes:,} "
                "users, so that no user benefits from it; change --schedule",
                err=True,
            )
    return agent if len(specs) == 1 else None
