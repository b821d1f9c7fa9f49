"""The import graph is part of the privacy argument: post-processing cannot reach the table."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dpcli"
MODULES = sorted(PACKAGE.rglob("*.py"))

PRIVATE = {
    "dpcli.data.encoding",
    "dpcli.data.tables",
    "dpcli.data.counting",
    "dpcli.data.ids",
    "dpcli.data.bounding",
    "dpcli.plan.glance",
    "dpcli.plan.propose",
    "dpcli.privacy.noise",
    "dpcli.privacy.gate",
    "dpcli.privacy.formats",
    "dpcli.privacy.chain",
    "dpcli.privacy.entry",
    "dpcli.privacy.books",
    "dpcli.privacy.ledger",
    "dpcli.publish",
    "dpcli.recovery",
}
MAY_REACH_PRIVATE = PRIVATE | {"dpcli.api", "dpcli.bookkeeping"}

NUMPY_RANDOM = {"dpcli.query.workload", "dpcli.strategy.workloads"}

# Each layer may import itself and what stands before it.
LAYERS = [
    "parallel",
    "errors",
    "progress",
    "data",
    "partition",
    "strategy",
    "privacy",
    "mechanisms",
    "release",
    "query",
    "estimate",
    "plan",
]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path, *, typing_too: bool = False) -> set[str]:
    """Return the names of dpcli modules and of other top-level packages that a module imports at run time."""
    found: set[str] = set()
    known = {name_of(module) for module in MODULES}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing_too:
            for child in node.orelse:
                visit(child)
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                found.add(inner if inner in known else module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_public_code_cannot_import_private_code(path: Path) -> None:
    if name_of(path) not in MAY_REACH_PRIVATE:
        assert not imports(path) & PRIVATE


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_private_modules_say_so(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert docstring.startswith("PRIVATE") == (name_of(path) in PRIVATE)


@pytest.mark.parametrize("path", [m for m in MODULES if "cli" in m.relative_to(PACKAGE).parts], ids=name_of)
def test_commands_call_the_api_only(path: Path) -> None:
    allowed = {
        "dpcli",
        "dpcli.api",
        "dpcli.bookkeeping",
        "dpcli.errors",
        "dpcli.progress",
        "dpcli.privacy.exact",
        "dpcli.release.guarantee",
    }
    used = {name for name in imports(path) if name.startswith("dpcli") and not name.startswith("dpcli.cli")}
    assert used <= allowed


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    parts = name_of(path).split(".")
    if len(parts) < 2 or parts[1] not in LAYERS:
        return
    below = LAYERS[: LAYERS.index(parts[1]) + 1]
    used = {name.split(".")[1] for name in imports(path) if name.startswith("dpcli.")}
    assert used <= set(below)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_randomness_and_execution_are_confined(path: Path) -> None:
    tree = ast.parse(path.read_text())
    used = imports(path)
    assert not used & {"random", "secrets", "uuid", "pickle"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"exec", "eval", "__import__"}
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            assert text != "os.urandom" or name_of(path) == "dpcli.privacy.noise"
            assert text not in {"yaml.load", "yaml.unsafe_load"}
            if text.startswith(("np.random", "numpy.random")):
                assert name_of(path) in NUMPY_RANDOM, "numpy's generators are for public choices only"


def test_the_rules_would_notice(tmp_path: Path) -> None:
    """The graph reader sees imports inside functions and ``from package import module``."""
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from dpcli.privacy import noise\n    import random\n")
    assert imports(path) == {"dpcli.privacy.noise", "random"}


def test_the_privacy_package_can_be_read_in_one_sitting() -> None:
    for path in (PACKAGE / "privacy").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 250, path
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 400, path
