"""What calls itself pure is pure, and so is everything it imports, however far down.

A pure module sees values only: no event loop, no client, no clock, no chance, no log. It says so in its
docstring (a sentence that begins with "Pure"), or its place says so: what decides, the replica engine, kinds as types, the wire.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCES = Path(__file__).parents[2] / "src"
SAYS_PURE = re.compile(r"\bPure\b(?! but| of)")
PURE_FILES = ("decide", "status")
PURE_PACKAGES = ("kubewright.api.", "kubewright.rollout.", "kubewright.wire.")
EFFECTS = {
    *("asyncio", "concurrent", "multiprocessing", "select", "signal", "subprocess", "threading"),
    *(
        "aiohttp",
        "http",
        "io",
        "kubernetes",
        "logging",
        "os",
        "shutil",
        "socket",
        "sqlite3",
        "ssl",
        "tempfile",
    ),
    *("prometheus_client", "structlog", "urllib.request"),
    *("random", "secrets", "time"),
}
VALUES_OF_TIME = {
    f"kubewright.base.clock.{name}"
    for name in ("Anchor", "parse_rfc3339", "rfc3339", "rfc3339_micro", "stamp")
}
"""What a pure module may take from the module of the clocks: a type, and times as text and back."""


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((SOURCES / "kubewright").rglob("*.py"))}


def tree(module: str) -> ast.Module:
    """Not kept: nine hundred trees would cost more in garbage collections than to make them."""
    return ast.parse(MODULES[module].read_text())


def docstring(module: str) -> str:
    """What a file begins with, as text: while tests are collected, to parse every module would take seconds."""
    before, _, rest = MODULES[module].read_text().partition('"""')
    return "" if before.strip() else rest.partition('"""')[0]


def is_pure(module: str) -> bool:
    in_its_place = module.rpartition(".")[2] in PURE_FILES or f"{module}.".startswith(PURE_PACKAGES)
    return in_its_place or bool(SAYS_PURE.search(docstring(module)))


class Facts(NamedTuple):
    """What the syntax tree of a module shows."""

    docstring: str
    imported: frozenset[str]
    waits: bool


@cache
def facts(module: str) -> Facts:
    root = tree(module)
    waiting = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    waits = any(isinstance(node, waiting) and not _declares(node) for node in ast.walk(root))
    return Facts(ast.get_docstring(root) or "", _imported(root), waits)


def _imported(root: ast.Module) -> frozenset[str]:
    """The modules that a module imports, anywhere in it; for a name out of a module, the module.

    Not what type checkers alone import: it may name what waits in a type, and to call that it would have to
    await it.
    """
    named = set()
    for node in _executed(root):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{alias.name}" for alias in node.names} - VALUES_OF_TIME
            named |= {name if name in MODULES else str(node.module) for name in full}
    return frozenset(named)


def _executed(root: ast.Module) -> Iterator[ast.AST]:
    """All statements, without what stands under ``if TYPE_CHECKING``: no import is below an expression."""
    left: list[ast.AST] = [root]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        left += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]


@cache
def effects(module: str) -> tuple[str, ...]:
    """Why a module is not pure by itself."""
    imported, waits = facts(module).imported, facts(module).waits
    effects_of_imports = (f"imports {name}" for name in imported if {name, name.partition(".")[0]} & EFFECTS)
    return (*effects_of_imports, *(["awaits"] if waits else []))


def _declares(node: ast.AST) -> bool:
    """Whether it is a method of a Protocol without a body: a type, which awaits nothing."""
    body = node.body if isinstance(node, ast.AsyncFunctionDef) else [node]
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body)


def reasons(module: str) -> list[str]:
    """Every effect within reach of a module, and the way to it."""
    ways, found = {module: module}, []
    for each in (reached := [module]):
        found += [f"{ways[each]} {effect}" for effect in effects(each)]
        for name in sorted(facts(each).imported & MODULES.keys() - ways.keys()):
            ways[name] = f"{ways[each]} -> {name}"
            reached.append(name)
    return found


PURE = sorted(module for module in MODULES if is_pure(module))


def test_what_says_that_it_is_pure_is_found_without_parsing_it() -> None:
    says = {module for module in MODULES if SAYS_PURE.search(facts(module).docstring)}
    assert says == {module for module in MODULES if SAYS_PURE.search(docstring(module))}


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_reaches_no_effect(module: str) -> None:
    found = reasons(module)
    assert not found, "\n".join(found)


STATES_PHASES = {"kubewright.clusters.cluster.status", "kubewright.clusters.machine.status"}
"""What writes the phases of Clusters and Machines, and tells of their changes."""
SHOWS_PHASES = {"kubewright.clusters.metrics"}
PHASES_OF_PODS = {"kubewright.clusters.machine.deletion"}


def reads_a_phase(module: str) -> bool:
    """Whether it reads ``phase`` of anything, as an attribute or by name."""
    return "phase" in MODULES[module].read_text() and any(
        (isinstance(node, ast.Attribute) and node.attr == "phase" and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Constant) and node.value in ("phase", "status.phase"))
        for node in ast.walk(tree(module))
    )


def test_the_phase_of_a_cluster_or_machine_decides_nothing() -> None:
    """It is for people (S0-47); the phase of a Pod is not ours."""
    worlds = ("kubewright.clusters.", "kubewright.bootstrap.", "kubewright.infra.")
    readers = {module for module in MODULES if module.startswith(worlds) and reads_a_phase(module)}
    assert readers == STATES_PHASES | SHOWS_PHASES | PHASES_OF_PODS


def test_one_module_makes_the_contexts_of_tls() -> None:
    makers = [
        path.relative_to(SOURCES / "kubewright").as_posix()
        for path in (SOURCES / "kubewright").rglob("*.py")
        if re.search(r"\bSSLContext\(|create_default_context|_create_unverified_context", path.read_text())
    ]
    assert makers == ["pki/tls.py"]


def test_one_module_reads_yaml() -> None:
    """Elsewhere a text of a user that is nested deep would end the process: the library recurses in C."""
    readers = [
        path.relative_to(SOURCES / "kubewright").as_posix()
        for path in (SOURCES / "kubewright").rglob("*.py")
        if re.search(
            r"\byaml\.(?:(?:safe_|full_|unsafe_)?load|compose|parse|scan)(?:_all)?\b"
            r"|\byaml\.\w*Loader\b|\bfrom yaml\b",
            path.read_text(),
        )
    ]
    assert readers == ["wire/goyaml.py"]
