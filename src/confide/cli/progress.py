"""Progress bars: on a terminal only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

ForSeed = Callable[[int], Callable[[int, float | None], None]]
Bar = Callable[[str, int], ForSeed | None]


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
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} users"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[regret]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as display:

        def bar(label: str, total: int) -> ForSeed:
            def for_seed(seed: int) -> Callable[[int, float | None], None]:
                task = display.add_task(f"{label} seed {seed}", total=total, regret="", rate="")

                def advance(served: int, regret: float | None) -> None:
                    speed = display.tasks[task].speed
                    text = "" if regret is None else f"regret {regret:,.0f}"
                    display.update(task, completed=served, regret=text, rate=f"{speed:,.0f}/s" if speed else "")

                return advance

            return for_seed

        yield bar
