"""confide run: run an agent on a problem."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.groups import with_groups
from confide.cli.options import (
    AgentOptions,
    AgentPrivacyOptions,
    AsJson,
    CompareWith,
    Settings,
)
from confide.cli.progress import bars
from confide.cli.results import print_runs
from confide.cli.rollouts import RolloutOptions, baseline_of, play_final_policies
from confide.cli.world_options import WorldOptions

if TYPE_CHECKING:
    from confide.cli.rollouts import Played
    from confide.runs.run import Run
    from confide.runs.spec import RunSpec


Counts = Annotated[
    bool | None,
    typer.Option(
        "--counts/--one-by-one",
        help="Simulate users by counts of their transitions, or one by one. Both have the same distribution and differ in speed.",
        show_default="counts, and real messages of up to 10 000 local users",
    ),
]


@with_groups
def run(
    agent: Annotated[
        str,
        typer.Argument(
            help="An agent from `confide list`, or your own class as package.module:Class."
        ),
    ],
    problem: Annotated[
        str,
        typer.Argument(
            help="A problem from `confide list`, gym:ID, or the file of a saved problem."
        ),
    ],
    privacy: AgentPrivacyOptions,
    learning: AgentOptions,
    worlds: WorldOptions,
    played: RolloutOptions,
    settings: Settings = None,
    seed: Annotated[int, typer.Option(help="First seed.", min=0)] = 0,
    seeds: Annotated[int, typer.Option(help="Number of runs, with consecutive seeds.")] = 1,
    compare_with: CompareWith = None,
    source: Annotated[
        str,
        typer.Option(help="Noise source: fast (seeded, for simulation) or secure (for real data)."),
    ] = "fast",
    counts: Counts = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save results and a report to this folder. An interrupted command resumes from it."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an agent on a problem, and report its regret and guarantee."""
    from confide.arguments import whole
    from confide.runs.spec import RunSpec
    from confide.runs.sweep import SEEDS

    whole("seeds", seeds, at_least=1, at_most=SEEDS)
    whole("seed", seed)
    world = worlds.make(problem)
    first = RunSpec(
        agent=agent,
        problem=world.name,
        episodes=learning.episodes,
        privacy=privacy.request(),
        source=source,
        options=learning.chosen(settings),
        counts=counts,
    )
    plan = {
        spec: range(seed, seed + seeds) for spec in [first, *map(first.beside, compare_with or [])]
    }
    baseline = baseline_of(first, world, problem, played)
    has_default_baseline = baseline is not None and baseline not in plan
    if baseline is not None:
        plan.setdefault(baseline, range(seed, seed + 1))
    first_agent = _check(list(plan), world, seed)
    rollouts = partial(play_final_policies, world=world, problem=problem, rollouts=played.rollouts)
    _run_all(plan, world, out, as_json, first_agent, rollouts)
    if has_default_baseline and not as_json:
        typer.echo(
            f"{agent} also ran without privacy, with seed {seed}; --no-baseline leaves this run out"
        )


def _run_all(
    plan: "dict[RunSpec, range]",
    world: Any,
    out: Path | None,
    as_json: bool,
    first_agent: Any,
    rollouts: "Callable[[list[Run]], Sequence[Played | None]]",
) -> None:
    """Run every specification of the plan with its seeds, save the results, and print them."""
    from confide._durable import output, replace_files
    from confide._extras import has_extra
    from confide.comparison.comparison import Comparison
    from confide.runs.spec import run_seeds

    command = shlex.join(["confide", *sys.argv[1:]])
    runs: list[Run] = []
    with nullcontext() if out is None else output(out):
        with bars(as_json) as bar:
            for spec, seeds in plan.items():
                shown = bar(_short(spec), spec.episodes)
                runs += run_seeds(
                    spec,
                    world,
                    seeds,
                    out=out,
                    progress=shown,
                    command=command,
                    first_agent=first_agent,
                )
                first_agent = None
                if not runs[-1].complete:
                    break
        # An interrupted command ends at once: the report is written when the runs are complete.
        complete = all(one.complete for one in runs)
        reported = out is not None and complete and has_extra("report")
        if out is not None and reported:
            with replace_files(out, last="report.html") as stage:
                agent = next(iter(plan)).agent
                made = Comparison.of_runs(runs, name=f"{agent} on {world.name}")
                made.save_figures(stage / "figures")
                made.report(stage / "report.html", command=command)
    print_runs(runs, as_json, rollouts(runs) if complete else None)
    if out is not None and complete and not as_json:
        typer.echo(
            f"report: {out / 'report.html'}"
            if reported
            else "no report was written: pip install 'confide[report]'"
        )
    if not complete:
        typer.echo("interrupted: run the same command again to resume", err=True)
        raise typer.Exit(130)


def _short(spec: "RunSpec") -> str:
    """A label that fits a progress bar."""
    epsilon = spec.privacy.epsilon
    return f"{spec.title[-16:]}{f' eps {epsilon:g}' if epsilon < float('inf') else ''}"


def _check(specs: "list[RunSpec]", world: Any, seed: int) -> Any:
    """Check all runs before the first one starts, so that a mistake is reported at once.

    Return the agent if there is only one kind of run, so that it is built once. Otherwise agents are built again when
    it is their turn, because several large agents at the same time may not fit into memory.
    """
    from confide.errors import ConfideError

    agent = None
    late_titles: set[str] = set()
    for spec in specs:
        try:
            agent = spec.ready(world, seed)
        except ConfideError as error:
            raise (type(error)(f"{spec.title}: {error}") if len(specs) > 1 else error) from None
        schedule = getattr(agent, "schedule", None)
        is_late = schedule is not None and schedule.leaves == 1
        # The same agent with and without privacy is warned about once.
        if is_late and spec.title not in late_titles:
            late_titles.add(spec.title)
            late = f"the first release comes after all {spec.episodes:,} users, so that no user benefits from it; change --schedule"
            typer.echo(f"warning: {spec.title}: {late}", err=True)
    return agent if len(specs) == 1 else None
