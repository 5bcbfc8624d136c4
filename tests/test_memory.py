"""How much memory a process may still take, by the files of the system."""

import pytest

from confide import _memory


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with 8 GB available, no limit of the process, and no control groups."""
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    monkeypatch.setattr(_memory, "_MEMORY_OF_THE_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(_memory, "_GROUPS_OF_THIS_PROCESS", tmp_path / "groups")
    monkeypatch.setattr(_memory, "_GROUPS", tmp_path / "cgroup")
    return tmp_path


def write_group(folder, limit, usage, cached, names):
    folder.mkdir(parents=True)
    for name, text in zip(names, (limit, usage), strict=True):
        (folder / name).write_text(f"{text}\n")
    key = "inactive_file" if names[0] == "memory.max" else "total_inactive_file"
    (folder / "memory.stat").write_text(f"anon 5\n{key} {cached}\n")


@pytest.mark.usefixtures("system")
def test_without_groups_it_is_what_the_system_says():
    assert _memory.available_memory() == 8_000_000 * 1024


def test_the_smallest_limit_of_the_groups_counts_and_cached_files_do_not(system):
    (system / "groups").write_text("0::/outer/inner\n")
    names = "memory.max", "memory.current"
    write_group(system / "cgroup" / "outer", 3 * 10**9, 2 * 10**9, 5 * 10**8, names)
    write_group(system / "cgroup" / "outer" / "inner", "max", 10**9, 0, names)
    assert _memory.available_memory() == 15 * 10**8


def test_groups_of_version_1_and_a_container_that_is_the_root(system):
    (system / "groups").write_text("4:cpu,memory:/docker/0123\n1:cpuset:/\n")
    write_group(
        system / "cgroup" / "memory",
        10**9,
        4 * 10**8,
        10**8,
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    )
    assert _memory.available_memory() == 7 * 10**8


def test_a_group_beyond_its_limit_has_nothing_left(system):
    (system / "groups").write_text("0::/\n")
    write_group(system / "cgroup", 10**9, 2 * 10**9, 0, ("memory.max", "memory.current"))
    assert _memory.available_memory() == 0


def test_a_system_that_does_not_say_has_no_limit(system):
    (system / "meminfo").unlink()
    assert _memory.available_memory() is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(3.4e9, "3.4 GB"), (12e6, "12 MB"), (9.97e6, "10 MB"), (999.6e6, "1 GB"), (31e12, "31 TB")],
)
def test_sizes_in_words(size, text):
    assert _memory.in_words(size) == text
