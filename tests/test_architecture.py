"""The post-processing theorem, mechanised: who may import whom.

Three floors: the foundation, the families, the roof. Inside a family a file's imports say which
side it is on. Files that import trajectories, statistics or contributions are PRIVATE. Files that
import planners, policies or releases are PUBLIC. No file is both, except those that define an
agent. `*features*` is public knowledge that both sides use.
"""

import ast
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import confide

ROOT = Path(confide.__file__).parent
MODULES = {
    ".".join(("confide", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in ROOT.rglob("*.py")
}
# Below everything. `confide` is the package itself.
BASE = {
    "arguments",
    "catalogue",
    "errors",
    "execution",
    "identity",
    "_durable",
    "_extras",
    "_jit",
    "_lazy",
    "_locks",
    "_memory",
    "confide",
}
# Each package may import itself and the packages before it in this order.
FOUNDATION = (
    "privacy",
    "mechanisms",
    "privatizers",
    "trajectory",
    "policy",
    "planners",
    "problems",
    "statistics",
    "learning",
)
FAMILIES = ("mixtures", "linear_mdps", "bandits", "tables", "control")
LOGGED = ("logs", "release", "evaluation", "offline")
ROOF = ("agents", "audit", "report", "runs", "comparison", "service", "doctor", "cli", "__main__")
ORDER = (*FOUNDATION, *FAMILIES, *LOGGED, *ROOF)
# rooms that know no reinforcement learning, and what of the foundation a family of learners must
# not see
NO_RL = {"privacy": set(), "mechanisms": {"privacy"}, "privatizers": {"privacy", "mechanisms"}}
PRIVATE_TYPES = {
    "confide.trajectory",
    "confide.privacy.bounded.Bounded",
    "confide.mechanisms.sources.NoiseSource",
    "confide.mechanisms.sources.FastSource",
    "confide.mechanisms.sources.SecureSource",
    "confide.mechanisms.sources.noise_source",
}


@cache
def parsed(module):
    return ast.parse(MODULES[module].read_text())


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "confide"


@cache
def is_agent(module):
    """Whether a file of a family defines an agent, which joins the private and the public side."""
    if room(module) not in FAMILIES:
        return False
    return any(
        isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith("Learner") for base in node.bases)
        for node in ast.walk(parsed(module))
    )


def is_features(module):
    """Public knowledge, which both sides use."""
    return "features" in module.rsplit(".", 1)[-1] or module == "confide.planners.regularity"


@cache
def is_private(module):
    """Whether a file of a family imports trajectories or contributions, and defines no agent."""
    if room(module) in ("statistics", "trajectory"):
        return True
    return (
        room(module) in FAMILIES
        and not is_agent(module)
        and any(
            f"{target}.{name}" in PRIVATE_TYPES or (target in MODULES and is_private(target))
            for target, name in imported(module)
        )
    )


@cache
def is_public(module):
    """From releases to policies: planners, and whatever imports a planner, a policy or a release,
    in a family, and defines no agent.
    """
    if room(module) in ("planners", "policy") or is_features(module):
        return True
    return (
        room(module) in FAMILIES
        and not is_agent(module)
        and any(
            f"{target}.{name}" == "confide.privacy.bounded.Released"
            or (target in MODULES and is_public(target) and not is_features(target))
            for target, name in imported(module)
        )
    )


@cache
def imported(module):
    """(module, name) pairs that a module imports, wherever in the file; type-checking imports do
    not run, and are left out.
    """
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    pairs = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "confide"
        ):
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                pairs.append((whole, None) if whole in MODULES else (node.module, name.name))
        elif isinstance(node, ast.Import):
            pairs += [
                (name.name, None) for name in node.names if name.name.split(".")[0] == "confide"
            ]
    return tuple(pairs)


def reaches(module):
    """All that a module can see, directly or through others."""
    seen, waiting = set(), [module]
    while waiting:
        for target, _ in imported(waiting.pop()):
            if target in MODULES and target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


def allowed_rooms(mine):
    """The rooms that files of a room may import."""
    if mine in NO_RL:
        return {*BASE, mine, *NO_RL[mine]}
    allowed = {*BASE, *ORDER[: ORDER.index(mine) + 1]}
    # Somebody who works on one family needs no other.
    return allowed - (set(FAMILIES) - {mine} if mine in FAMILIES else set())


def test_imports_go_down():
    wrong = [
        f"{module} imports {target}"
        for module in MODULES
        if room(module) not in BASE
        for target, _ in imported(module)
        if room(target) not in allowed_rooms(room(module))
    ]
    assert wrong == []


def test_every_room_has_its_floor():
    assert {room(module) for module in MODULES} - BASE == set(ORDER)


def test_there_are_no_cycles():
    """Lazy imports included."""
    done = set()

    def visit(module, path):
        assert module not in path, " -> ".join([*path, module])
        if module in done:
            return
        for target, _ in imported(module):
            if target in MODULES and target not in (module, "confide"):
                visit(target, (*path, module))
        done.add(module)

    for module in sorted(MODULES):
        visit(module, ())


def test_planning_sees_no_user_and_no_noise():
    """What is planned is a function of releases: nothing here can name a trajectory, a contribution
    or a source of noise.
    """
    wrong = [
        f"{module} sees {seen}"
        for module in filter(is_public, MODULES)
        for seen in (module, *reaches(module))
        if room(seen) == "trajectory"
        or is_private(seen)
        or any({target, f"{target}.{name}"} & PRIVATE_TYPES for target, name in imported(seen))
    ]
    assert wrong == []


def test_what_everybody_sees_of_a_service_is_a_function_of_manifest_and_releases():
    """The page's public part can name neither the store nor the service, nor anything that holds
    people's data.
    """
    for seen in ("confide.service.web.public_view", *reaches("confide.service.web.public_view")):
        assert room(seen) in {*BASE, "service", "mechanisms"}, seen
        if room(seen) == "service":
            assert seen in {
                "confide.service",
                "confide.service.web",
                "confide.service.web.public_view",
                "confide.service.documents",
            }, seen
        for target, name in imported(seen):
            assert target not in PRIVATE_TYPES and f"{target}.{name}" not in PRIVATE_TYPES, (
                f"{seen} imports {target}.{name}"
            )


def test_pages_of_a_service_see_public_modules_of_it_alone():
    """They plan as devices do, so they reach learners; what holds people's data in a service is the
    rest of `service`.
    """
    pages = ("public_page", "public_view", "estimates")
    allowed = {
        "confide.service.documents",
        "confide.service.core.spec",
        *(f"confide.service.web.{name}" for name in pages),
    }
    seen = reaches("confide.service.web.public_page")
    assert {module for module in seen if room(module) == "service"} <= allowed
    # Templates, styles and charts. They show what they are given, and read nothing themselves.
    presentation = {
        "confide.report",
        "confide.report.charts",
        "confide.report.page",
        "confide.report.static",
    }
    assert {module for module in seen if room(module) == "report"} <= presentation
    assert not {module for module in seen if room(module) in ("cli", "audit", "runs", "comparison")}


# The folders of a service. Each may import those before it. An attack uses the service and its
# devices from outside.
SERVICE = ("documents", "device", "store", "core", "web", "target", "attacks")


def test_the_folders_of_a_service_are_layers():
    for module in (name for name in MODULES if name.startswith("confide.service.")):
        allowed = SERVICE[: SERVICE.index(module.split(".")[2]) + 1]
        for target, _ in imported(module):
            if target.startswith("confide.service."):
                assert target.split(".")[2] in allowed, f"{module} imports {target}"


def test_contributions_use_features_and_no_planner():
    wrong = [
        f"{module} sees {seen}"
        for module in filter(is_private, MODULES)
        for seen in (module, *reaches(module))
        if room(seen) in ("planners", *FAMILIES)
        and is_public(seen)
        and not (is_features(seen) or seen == "confide.planners")
    ]
    assert wrong == []


def test_both_sides_are_found():
    """The rules above find files by what they import, so a rule that finds nothing would pass."""
    families = [module for module in MODULES if room(module) in FAMILIES]
    assert len([module for module in families if is_public(module)]) >= 25
    assert len([module for module in families if is_private(module)]) >= 10
    for family in FAMILIES:
        assert any(is_agent(module) for module in families if room(module) == family), family


def imports_numbers(line):
    """Whether a line imports NumPy, SciPy or compiled loops."""
    if isinstance(line, ast.Import):
        return any(name.name.split(".")[0] in ("numpy", "scipy") for name in line.names)
    if not isinstance(line, ast.ImportFrom) or not line.module:
        return False
    names = [line.module.rsplit(".", 1)[-1], *(name.name for name in line.names)]
    kernels = any(name.endswith("_kernels") for name in names)
    return kernels or line.module.split(".")[0] in ("numpy", "scipy")


def test_agents_compute_nothing():
    """An agent joins contributions and planning. It imports neither NumPy nor compiled loops."""
    agents = [module for module in MODULES if is_agent(module)]
    assert len(agents) > 10
    wrong = [module for module in agents if any(map(imports_numbers, ast.walk(parsed(module))))]
    assert wrong == []


def test_learners_draw_no_privacy_noise():
    """Agents hold a source of noise for their privatizer; only `mechanisms` and `privatizers` draw
    from one.
    """
    wrong = [
        f"{module} calls {ast.unparse(node.func)}"
        for module in MODULES
        if room(module) in (*FAMILIES, "learning", "agents")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("gaussian", "laplace")
    ]
    assert wrong == []


def test_no_file_is_named_after_nothing():
    assert not {path.stem for path in MODULES.values()} & {
        "utils",
        "helpers",
        "manager",
        "base_agent",
        "common",
        "misc",
    }


# Files and functions with more lines of code than the limits below. This list only shrinks.
LONGER = {
    "confide.offline._counting_kernels.count": 76,
    "confide.planners._optimistic_kernels._descend": 76,
}
MOST_LINES_OF_A_FILE = 450
MOST_LINES_OF_A_FUNCTION = 70


def lines_of_code(module):
    """The numbers of the lines that have code. Comments and docstrings are free."""
    not_code = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines = set()
    with MODULES[module].open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in (*not_code, tokenize.ENCODING, tokenize.ENDMARKER):
                lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(module)):
        has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if has_docstring and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def test_files_and_functions_stay_readable():
    too_long = []
    for module in MODULES:
        lines = lines_of_code(module)
        if len(lines) > LONGER.get(module, MOST_LINES_OF_A_FILE):
            too_long.append((module, len(lines)))
        for node in ast.walk(parsed(module)):
            if isinstance(node, ast.FunctionDef):
                function = f"{module}.{node.name}"
                length = len(lines & set(range(node.lineno, node.end_lineno + 1)))
                if length > LONGER.get(function, MOST_LINES_OF_A_FUNCTION):
                    too_long.append((function, length))
    assert not too_long, too_long


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_help_is_instant():
    """Imports, not seconds: machines are noisy."""
    loaded = run(
        "import sys\n"
        "from confide.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code\n"
        "slow = {'numba', 'scipy', 'pyarrow', 'plotly', 'dp_accounting', 'opendp', 'jsonschema'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    assert "Differentially private reinforcement learning" in loaded
    assert loaded.strip().endswith("[]")


def test_import_confide_is_light():
    assert (
        run(
            "import sys, confide\n"
            "print([m for m in ('numba', 'scipy', 'dp_accounting') if m in sys.modules])"
        ).strip()
        == "[]"
    )


PACKAGES = (
    "agents",
    "audit",
    "evaluation",
    "logs",
    "mechanisms",
    "offline",
    "privacy",
    "privatizers",
    "problems",
    "release",
    "statistics",
)


def test_completion_shows_the_public_names():
    """In a new process: here the lazy names of a package may already be imported."""
    code = (
        "import confide, importlib\n"
        f"assert {set(PACKAGES)} <= set(dir(confide))\n"
        f"packages = [importlib.import_module('confide.' + name) for name in {PACKAGES}]\n"
        "for module in (confide, *packages):\n"
        "    assert set(module.__all__) <= set(dir(module)), module\n"
        "    assert all(hasattr(module, each) for each in dir(module)), module\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_documents_import_public_names_only():
    """Pages and examples import public names only: those in the `__all__` of a package."""
    public = {f"confide.{name}": getattr(confide, name).__all__ for name in PACKAGES}
    public["confide"] = [*confide.__all__, *PACKAGES]
    root = Path(__file__).parents[1]
    documents = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*.py")]
    private_imports = [
        (document.name, module, name)
        for document in documents
        for module, names in IMPORT.findall(document.read_text())
        for name in re.findall(r"(\w+)(?: as \w+)?", names)
        if module in public
    ]
    assert len(private_imports) > 50
    assert [each for each in private_imports if each[2] not in public[each[1]]] == []


# Imports in one line, as pages and examples write them.
IMPORT = re.compile(r"^\s*from (confide[\w.]*) import ([\w, ]+)$", re.MULTILINE)
