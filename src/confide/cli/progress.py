"""Progress bars, which are shown on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# What a run calls with the number of users served and the regret so far.
Advance = Callable[[int, float | None], None]
# Makes the bar of one seed.
BarOfSeed = Callable[[int], Advance]
# Takes a label and the number of users.
NewBar = Callable[[str, int], BarOfSeed | None]


def compact(number: float) -> str:
    """1234567 as 1.23M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


@contextmanager
def run_bars(quiet: bool) -> Iterator[NewBar]:
    """A bar per run: users served, rate, regret so far, time left."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _label, _total: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[users]}"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[regret]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as display:

        def new_bar(label: str, total: int) -> BarOfSeed:
            def bar_of_seed(seed: int) -> Advance:
                task = display.add_task(
                    f"{label} seed {seed}", total=total, users="", regret="", rate=""
                )

                def advance(served: int, regret: float | None) -> None:
                    speed = display.tasks[task].speed
                    display.update(
                        task,
                        completed=served,
                        users=f"{compact(served)}/{compact(total)}",
                        regret="" if regret is None else f"regret {compact(regret)}",
                        rate=f"{compact(speed)}/s" if speed else "",
                    )

                return advance

            return bar_of_seed

        yield new_bar


@contextmanager
def counting_bar(quiet: bool, label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """One bar that counts. It yields a function that takes how many more there are."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _more: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.completed:,}/{task.total:,} " + unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task(label, total=total)
        yield lambda more: display.update(task, advance=more)


@contextmanager
def sweep_bar(quiet: bool, cells: int) -> Iterator[Callable[[Any], None] | None]:
    """One bar for a sweep: done, failed, time left."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.fields[count]}"), BarColumn(bar_width=20), TimeRemainingColumn())
    with Progress(*columns, console=console) as display:
        task = display.add_task("sweep", total=cells, count=f"0/{cells} runs")

        def watch(standing: Any) -> None:
            failed = f", {standing.failed} failed" if standing.failed else ""
            stored = f" ({standing.stored} from the store)" if standing.stored else ""
            finished = standing.done + standing.failed
            count = f"{finished}/{standing.cells} runs{stored}{failed}"
            display.update(task, completed=finished, count=count)

        yield watch
