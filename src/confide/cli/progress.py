"""Progress bars: on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ForSeed = Callable[[int], Callable[[int, float | None], None]]
Bar = Callable[[str, int], ForSeed | None]


def short(number: float) -> str:
    """1234567 as 1.23M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


@contextmanager
def bars(quiet: bool) -> Iterator[Bar]:
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

        def bar(label: str, total: int) -> ForSeed:
            def for_seed(seed: int) -> Callable[[int, float | None], None]:
                task = display.add_task(
                    f"{label} seed {seed}", total=total, users="", regret="", rate=""
                )

                def advance(served: int, regret: float | None) -> None:
                    speed = display.tasks[task].speed
                    text = "" if regret is None else f"regret {short(regret)}"
                    rate = f"{short(speed)}/s" if speed else ""
                    display.update(
                        task,
                        completed=served,
                        users=f"{short(served)}/{short(total)}",
                        regret=text,
                        rate=rate,
                    )

                return advance

            return for_seed

        yield bar


@contextmanager
def counting(quiet: bool, label: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """One bar that counts: call what it yields with how many more there are."""
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
def sweeping(quiet: bool, cells: int) -> Iterator[Callable[[Any], None] | None]:
    """One bar for a sweep: done, failed, time left."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.fields[said]}"), BarColumn(bar_width=20), TimeRemainingColumn())
    with Progress(*columns, console=console) as display:
        task = display.add_task("sweep", total=cells, said=f"0/{cells} runs")

        def watch(standing: Any) -> None:
            failed = f", {standing.failed} failed" if standing.failed else ""
            stored = f" ({standing.stored} from the store)" if standing.stored else ""
            said = f"{standing.done + standing.failed}/{standing.cells} runs{stored}{failed}"
            display.update(task, completed=standing.done + standing.failed, said=said)

        yield watch
