"""Which files name a stored result: those that can decide it, and no page."""

import ast
from pathlib import Path

import pytest

import confide
from confide.privatizers import every
from confide.runs import store
from confide.runs.spec import Named, RunSpec
from confide.runs.store import DO_NOT_COUNT, can_be_kept, counts, key_of
from confide.runs.sweep import Cell, ProblemChoice

ROOT = Path(confide.__file__).parent
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
# A wrong certificate is refused, and a figure is drawn after the run. Neither changes a number.
ALLOWED = {"audit/verify.py", "report/__init__.py", "report/charts.py", "report/picture.py"}


def imports_of(file):
    """Files of confide that a file imports, inside functions too; annotations are not imports."""
    tree = ast.parse((ROOT / file).read_text())
    hidden = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            hidden |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in hidden or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        base = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for name in [base, *(f"{base}.{each.name}".strip(".") for each in node.names)]:
            place = name.removeprefix("confide").strip(".").replace(".", "/")
            if name.startswith("confide") and place:
                yield from (
                    each
                    for each in (f"{place}.py", f"{place}/__init__.py")
                    if (ROOT / each).is_file()
                )


def test_what_decides_a_result_imports_nothing_that_does_not_count():
    wrong = {
        (file, other)
        for file in FILES
        if counts(file)
        for other in imports_of(file)
        if not counts(other) and other not in ALLOWED
    }
    assert wrong == set()


@pytest.mark.parametrize(
    "file",
    ["agents/ucrl_vtr.py", "runs/loop.py", "mechanisms/sources.py", "a_new_family/agent.py"],
)
def test_what_computes_counts_and_so_does_what_is_new(file):
    assert counts(file)


@pytest.mark.parametrize(
    "file", ["cli/run.py", "report/page.py", "audit/verify.py", "agents/explain.py"]
)
def test_pages_tables_and_audits_do_not_count(file):
    assert not counts(file)


def test_a_changed_page_recomputes_nothing_and_a_changed_agent_does(tmp_path, monkeypatch):
    """The digest of a small tree, before and after a change of one file."""
    for file in ("runs/store.py", "report/page.py", "agents/one.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("before")
    monkeypatch.setattr(store, "__file__", str(tmp_path / "runs/store.py"))

    def digest():
        store._code_digest.cache_clear()
        return store._code_digest()

    try:
        first = digest()
        (tmp_path / "report/page.py").write_text("after")
        assert digest() == first
        (tmp_path / "agents/one.py").write_text("after")
        assert digest() != first
    finally:
        store._code_digest.cache_clear()


def test_a_key_knows_how_users_are_simulated_and_what_an_option_holds():
    """Options may be objects with a short name: it is what they hold that decides."""

    def cell(counts=None, schedule=None):
        options = () if schedule is None else (("schedule", Named("mine", schedule)),)
        spec = RunSpec(
            agent="ucrl-vtr", problem="lock", episodes=100, options=options, counts=counts
        )
        return Cell(spec, ProblemChoice("lock"), 0)

    cells = [
        cell(),
        cell(counts=True),
        cell(counts=False),
        cell(schedule=every(10, 100)),
        cell(schedule=every(20, 100)),
    ]
    assert len({key_of(one) for one in cells}) == 5
    assert key_of(cell(schedule=every(10, 100))) == key_of(cells[3])
    assert [("--counts" in one.command, "--one-by-one" in one.command) for one in cells[:3]] == [
        (False, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("agent", "problem", "is_kept"),
    [
        ("ucrl-vtr", ProblemChoice("lock"), True),
        ("tabular-psrl", ProblemChoice("gym:FrozenLake-v1"), True),
        ("mine:Agent", ProblemChoice("lock"), False),
        ("tabular-psrl", ProblemChoice("gym:mine:Environment"), False),
        ("lsvi-ucb", ProblemChoice("gym:CartPole-v1", features="mine:features"), False),
    ],
)
def test_results_are_stored_only_if_no_file_of_the_user_decides_them(agent, problem, is_kept):
    spec = RunSpec(agent=agent, problem=problem.problem, episodes=100)
    assert can_be_kept(Cell(spec, problem, 0)) == is_kept


def test_the_list_names_no_file_twice():
    assert len(set(DO_NOT_COUNT)) == len(DO_NOT_COUNT)
