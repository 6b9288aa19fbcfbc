"""Build hook of hatchling: the part of Kubewright that a driver's author imports, under a name of its own.

What ``kubewright.providers.grpc.author`` imports, and what that imports, is put into the wheel as
``kubewright_driver``: the files of ``../../src``, in which imports name the new package. So the wheel and the
main one may be installed beside each other, and in neither is a file of the other. An import inside of a
function is not followed: those are of the manager's side.
"""

import ast
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path(__file__).resolve().parents[2] / "src"
FIRST, OLD, NEW = "kubewright.providers.grpc.author", "kubewright", "kubewright_driver"
BESIDE = ("py.typed", "providers/grpc/driver.proto")
_IMPORTS = re.compile(rf"^(\s*(?:from|import) ){OLD}(?=[. ])", re.MULTILINE)
HEAD = '''"""Six functions and a main: a cloud for Kubewright, in a process of its own. See README.md."""

from {new}.providers.grpc.author import *
from {new}.providers.grpc.author import __all__ as __all__

__version__ = "{version}"
'''


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the files to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._made = tempfile.TemporaryDirectory(prefix="kubewright-driver-")
        for place, text in files(self.metadata.version).items():
            file = Path(self._made.name) / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            build_data["force_include"][str(file)] = f"{NEW}/{place}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._made.cleanup()


def files(version: str) -> dict[str, str]:
    """What the package consists of, by paths below it."""
    found = {}
    for module in sorted(closure()):
        path = source_of(module)
        text = HEAD.format(new=NEW, version=version) if module == OLD else path.read_text()
        found[str(path.relative_to(SOURCES / OLD))] = _IMPORTS.sub(rf"\1{NEW}", text)
    return found | {each: (SOURCES / OLD / each).read_text() for each in BESIDE}


def closure() -> set[str]:
    """The modules of ours that are imported where the first one is."""
    found, waiting = set(), [FIRST]
    while waiting:
        module = waiting.pop()
        if module in found or not source_of(module).exists():
            continue
        found.add(module)
        waiting += [each for each in imports(module) if each.split(".")[0] == OLD]
    return found


def imports(module: str) -> Iterator[str]:
    """What a module imports at once: modules, the packages above them, and names that may be modules."""
    parts = module.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts)))
    if module == OLD:
        return
    for statement in ast.parse(source_of(module).read_text()).body:
        if isinstance(statement, ast.Import):
            yield from (each.name for each in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module
            yield from (f"{statement.module}.{each.name}" for each in statement.names)


def source_of(module: str) -> Path:
    """Its file: that of a package, or that of a module; it may not exist."""
    path = SOURCES.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
