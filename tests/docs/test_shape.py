"""The shape of the code, read from its syntax trees: what no linter has a rule for.

Sizes, docstrings, names and floors; ``test_purity`` looks at what decides.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "kubewright"
SIMULATOR = ROOT / "simulation"
FILES = sorted((*PACKAGE.rglob("*.py"), *SIMULATOR.rglob("*.py")))
FILE_LINES = 600
LEAST_LINES = 40
SMALL = {
    "base/names.py": "the lowest floor: rollouts and servers use the same alphabet",
    "testing/left_programs.py": "tests and the bench share it",
    "cli/completion.py": "around private functions of typer, and nothing else is",
    "compose/program.py": "compose and cli both print commands",
    "wire/release.py": "the one place that says which Kubernetes we speak",
}
"""Files that are short for a reason."""
FUNCTION_LINES = 40
VAGUE_NAMES = ("util", "helper", "common", "misc")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Facts(NamedTuple):
    """What the syntax tree of a file shows; the tree itself is not kept, as nine hundred would cost more in garbage
    collections than to make them."""

    docstring: str
    lines_of: dict[str, int]
    """By the line and the name of a function."""


@cache
def facts(path: Path) -> Facts:
    tree = ast.parse(path.read_text(), str(path))
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    return Facts(
        ast.get_docstring(tree) or "", {f"{each.lineno} {each.name}": body_lines(each) for each in functions}
    )


def short(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT))


def body_lines(function: Function) -> int:
    """Lines from ``def`` to the end, without the docstring: documentation costs nothing."""
    first, lines = function.body[0], (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    return lines - ((first.end_lineno or 0) - first.lineno + 1)


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import anywhere in the file; name is empty for ``import module``."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_files_fit_a_sitting() -> None:
    long = {short(p): n for p in FILES if (n := len(p.read_text().splitlines())) > FILE_LINES}
    assert not long, f"over {FILE_LINES} lines: {long}"


def test_files_are_rooms() -> None:
    """What is smaller belongs to a neighbour, or has its reason in ``SMALL``."""
    names = {short(p) for p in FILES}
    small = {
        short(p)
        for p in FILES
        if p.stem not in {"__init__", "__main__"} and len(p.read_text().splitlines()) < LEAST_LINES
    }
    assert not small - SMALL.keys(), f"under {LEAST_LINES} lines: {sorted(small - SMALL.keys())}"
    assert not (SMALL.keys() & names) - small, f"not small any more: {sorted((SMALL.keys() & names) - small)}"


def test_siblings_with_a_prefix_are_a_folder() -> None:
    """``run.py`` and ``run_words.py`` are ``run/``."""
    modules = {(path.parent, path.stem) for path in FILES}
    packages = {(path.parent.parent, path.parent.name) for path in FILES if path.stem == "__init__"}
    split = [
        short(folder / stem)
        for folder, stem in sorted(modules)
        if (folder, stem.split("_")[0]) in modules | packages and "_" in stem.strip("_")
    ]
    assert not split, f"a folder each: {split}"


def test_functions_fit_a_screen() -> None:
    long = {
        f"{short(path)}:{function}": lines
        for path in FILES
        for function, lines in facts(path).lines_of.items()
        if lines > FUNCTION_LINES
    }
    assert not long, f"over {FUNCTION_LINES} lines: {long}"


def test_every_module_says_what_it_is_for() -> None:
    silent = [short(path) for path in FILES if not facts(path).docstring]
    assert not silent, f"no docstring: {silent}"


def test_every_package_has_an_init_so_that_the_import_contracts_see_it() -> None:
    folders = {path.parent for path in FILES}
    invisible = sorted(short(folder) for folder in folders if not (folder / "__init__.py").exists())
    assert not invisible, f"no __init__.py: {invisible}"


def test_names_come_from_the_domain() -> None:
    vague = [short(path) for path in FILES if path.stem.rstrip("s") in VAGUE_NAMES]
    assert not vague, f"say what it is about: {vague}"


def test_every_package_has_a_floor() -> None:
    """A new package must be placed in the import contracts before anything may use it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = " ".join(next(c for c in contracts if c["id"] == "floors")["layers"])
    guarded = next(c for c in contracts if c["id"] == "testing-is-for-tests")["source_modules"]
    packages = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    for name in packages - {"__init__", "__main__", "testing"}:
        assert f"kubewright.{name}" in floors, f"{name} has no floor in pyproject.toml"
        assert f"kubewright.{name}" in guarded, f"{name} may import kubewright.testing"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda p: p.stem)
def test_no_test_sleeps_in_real_time(path: Path) -> None:
    """Sleeping on the loop is free there (looptime); ``time.sleep`` is real."""
    text = path.read_text()
    assert "sleep" not in text or ("time", "sleep") not in set(imported(path))
    assert "time.sleep(" not in text.replace('"time.sleep("', "")
