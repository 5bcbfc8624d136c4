"""How much memory this process may still take.

That is what the system has available, within the limits of the control groups of this process.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from confide.errors import InvalidParameter

# The share of the available memory that one object or run may take. The rest is for what other
# processes allocate in the meantime. Taste.
USABLE_SHARE = 0.8
_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_OF_THE_SYSTEM = Path("/proc/meminfo")
_GROUPS_OF_THIS_PROCESS = Path("/proc/self/cgroup")
_PAGES_OF_THIS_PROCESS = Path("/proc/self/statm")
# The files of one group in both versions of control groups: its limit, its usage, and the entry of
# its statistics that says how much of the usage is cached files, which the system drops when memory
# is needed.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory() -> int | None:
    """The bytes that this process may still allocate, or None if the system does not say."""
    limits = [_left_in_the_system(), _left_for_the_process(), *_left_in_groups()]
    stated_limits = [limit for limit in limits if limit is not None]
    return max(min(stated_limits), 0) if stated_limits else None


def usable_memory() -> float | None:
    """The bytes that one object or run may take, or None if the system does not say."""
    available = available_memory()
    return None if available is None else USABLE_SHARE * available


def refuse_more_than_available(needed: int, what: str, advice: str) -> None:
    """Raise an error if `needed` bytes are more than the usable share of the available memory."""
    usable = usable_memory()
    if usable is not None and needed > usable:
        raise InvalidParameter(
            f"{what} needs about {in_words(needed)} of memory, and {USABLE_SHARE:.0%} of the "
            f"available memory are {in_words(usable)}: {advice}"
        )


def in_words(size: float) -> str:
    """A number of bytes as people write it: 12 MB, 3.4 GB."""
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.2g} {unit}" if size < 9.95 else f"{size:.0f} {unit}"
    return f"{size / 1000:,.3g} TB" if size < 1e6 else f"{size / 1000:.1e} TB"


def _left_in_the_system() -> int | None:
    for line in _lines(_MEMORY_OF_THE_SYSTEM):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _left_for_the_process() -> int | None:
    """The bytes that a limit on the address space (ulimit -v) leaves."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _lines(_PAGES_OF_THIS_PROCESS)
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0].split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _left_in_groups() -> Iterator[int]:
    """The bytes that the limit of each control group around this process leaves."""
    for folder in _folders():
        for limit_name, usage_name, cached in _FILES:
            limit = _number(folder / limit_name)
            usage = _number(folder / usage_name)
            if limit is not None and usage is not None:
                statistics = dict(line.split(maxsplit=1) for line in _lines(folder / "memory.stat"))
                yield limit - usage + int(statistics.get(cached, 0))


def _folders() -> set[Path]:
    """The folders of the control groups of this process and of those around them.

    Both versions of control groups are looked at.

    A container may see its own group as the root, whatever the name of the group is.
    """
    folders = {_GROUPS, _GROUPS / "memory"}
    for line in _lines(_GROUPS_OF_THIS_PROCESS):
        _, controllers, name = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = _GROUPS / "memory" if controllers else _GROUPS
        group = root / name.lstrip("/")
        folders |= {folder for folder in (group, *group.parents) if folder.is_relative_to(root)}
    return folders


def _number(path: Path) -> int | None:
    """The number in a file, or None if there is no such file, or no limit in it."""
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdecimal() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []
