"""The post-processing theorem, mechanised: who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import confide

ROOT = Path(confide.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
# each layer may import itself, the ones named here, and confide.errors
LAYERS = {
    "drawing.py": set(),
    "privacy": set(),
    "mechanisms": {"privacy"},
    "statistics": {"planners", "mechanisms", "privacy", "trajectory"},
    "privatizers": {"mechanisms", "privacy"},
    "planners": {"privacy", "mechanisms", "policy"},  # neither trajectory nor statistics: released values only
    "problems": {"planners", "policy", "trajectory", "mechanisms"},
    "agents": {"planners", "problems", "privatizers", "statistics", "mechanisms", "privacy", "policy", "trajectory"},
    "audit": {
        "agents",
        "evaluation",
        "logs",
        "planners",
        "problems",
        "trajectory",
        "privatizers",
        "statistics",
        "mechanisms",
        "privacy",
    },
    "experiments": {"agents", "audit", "drawing", "mechanisms", "policy", "privacy", "problems", "trajectory"},  # and no report
    "logs": {"trajectory", "privacy"},
    "evaluation": {"logs", "statistics", "privatizers", "mechanisms", "privacy", "planners", "policy", "trajectory", "problems"},
    "report": {"drawing", "experiments", "privacy", "policy"},
    "reproduce": {
        *(
            "agents",
            "drawing",
            "evaluation",
            "experiments",
            "mechanisms",
            "planners",
            "privacy",
            "problems",
            "report",
            "statistics",
            "trajectory",
        ),
    },
}


def imports(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "confide":
            yield from ([node.module] if node.module != "confide" else [f"confide.{name.name}" for name in node.names])
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "confide")


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_downwards_only(layer):
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] != layer:
            continue
        for name in imports(path):
            parts = name.split(".")
            if len(parts) > 1:
                assert parts[1] in LAYERS[layer] | {layer, "errors", "execution", "_digest", "_jit", "_lazy"}, (
                    f"{path.relative_to(ROOT)} imports {name}"
                )


def test_experiments_pages_and_commands_have_no_cycles():
    """Imports inside functions count; those for type annotations do not."""
    roof = {path for path in MODULES if path.relative_to(ROOT).parts[0] in ("experiments", "report", "reproduce", "cli")}
    names = {f"confide.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}": path for path in roof}

    def needs(path):
        tree = ast.parse(path.read_text())
        guarded = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
        hidden = {id(inner) for node in guarded for inner in ast.walk(node)}
        found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and id(node) not in hidden and node.module]
        asked = {name for node in found for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names))}
        return {names[name] for name in asked if name in names} - {path}

    left = {path: needs(path) for path in roof}
    while free := {path for path, asked in left.items() if not asked & set(left)}:
        left = {path: asked for path, asked in left.items() if path not in free}
    assert not left, sorted(path.name for path in left)


def test_agents_and_planners_draw_no_noise():
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] in ("agents", "planners"):
            called = {
                n.func.attr
                for n in ast.walk(ast.parse(path.read_text()))
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
            }
            assert not called & {"standard_normal", "gaussian", "laplace", "normal"}, path


def test_no_file_is_named_after_nothing():
    assert not {path.stem for path in MODULES} & {"utils", "helpers", "manager", "base_agent", "common", "misc"}


def test_files_and_functions_stay_readable():
    for path in MODULES:
        text = path.read_text()
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 70, f"{path}: {node.name}"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_help_is_instant():
    """Imports, not seconds: machines are noisy."""
    loaded = run(
        "import sys\nfrom confide.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print(sorted(m for m in ('numba', 'scipy', 'pyarrow', 'plotly', 'dp_accounting', 'opendp', 'jsonschema') if m in sys.modules))"
    )
    assert "Reinforcement learning that keeps its users' secrets" in loaded
    assert loaded.strip().endswith("[]")


def test_import_confide_is_light():
    assert run("import sys, confide\nprint([m for m in ('numba', 'scipy', 'dp_accounting') if m in sys.modules])").strip() == "[]"


def test_public_names_exist():
    for name in (*confide.__all__, "experiments", "planners", "policy", "report"):
        assert getattr(confide, name) is not None
