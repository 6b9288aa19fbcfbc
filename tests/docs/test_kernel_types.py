"""What a subclass of the kernel cannot get wrong: a table without a step does not pass mypy, a table has the steps
of its plan, and no private name of the kernel is replaced."""

import ast
import inspect
import subprocess
import sys
import textwrap
import typing
from importlib import import_module
from pathlib import Path
from types import UnionType

import pytest

from kubewright.runtime.kernel import ObjectReconciler

TABLE = """
from collections.abc import Awaitable
from dataclasses import dataclass

@dataclass(frozen=True)
class Make: ...

@dataclass(frozen=True)
class Drop: ...

Step = Make | Drop
Effect = Awaitable[object] | None

async def make() -> None: ...

def act(step: Step) -> Effect:
    match step:
        case Make():
            return make()
"""


def test_mypy_refuses_a_table_that_lacks_a_step(tmp_path: Path) -> None:
    table = tmp_path / "table.py"
    table.write_text(TABLE)
    code, printed = checked(table)
    assert (code, "Missing return statement" in printed) == (1, True), printed
    table.write_text(f"{TABLE}        case Drop():\n            return None\n")
    code, printed = checked(table)
    assert code == 0, printed


def checked(file: Path) -> tuple[int, str]:
    """What mypy says. In a process of its own: it raises the limit of recursion of the one that it is in."""
    words = ["--strict", "--config-file=", f"--cache-dir={file.parent}", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], capture_output=True, text=True, timeout=50, check=False
    )
    return done.returncode, done.stdout + done.stderr


def everyone(kind: type) -> list[type]:
    return [each for one in kind.__subclasses__() for each in (one, *everyone(one))]


def steps_of(plan: typing.Any) -> typing.Any:
    """The steps of a plan: the argument of the generic class that it is, or that it extends."""
    plans = [each for each in typing.get_args(plan) if each is not type(None)]
    if typing.get_origin(plan) in (typing.Union, UnionType):
        (plan,) = plans
    while not typing.get_args(plan):
        (plan, *_) = plan.__orig_bases__
    return typing.get_args(plan)[0]


for context in ("machines", "clusters", "bootstrap", "infra", "controlplanes", "reserves"):
    import_module(f"kubewright.{context}.wiring")
RECONCILERS = [
    each
    for each in everyone(ObjectReconciler)
    if "act" in vars(each) and each.__module__.startswith("kubewright.")
]


@pytest.mark.parametrize("kind", RECONCILERS, ids=[each.__qualname__ for each in RECONCILERS])
def test_the_table_has_the_steps_that_the_plan_has(kind: type) -> None:
    plan = typing.get_type_hints(kind.decide)["return"]
    assert typing.get_type_hints(kind.act)["step"] == steps_of(plan)


def test_there_are_reconcilers() -> None:
    assert len(RECONCILERS) >= 4


def assigned(kind: type) -> set[str]:
    """The names that the methods of a class assign to attributes of ``self``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    targets = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {
        node.attr
        for node in targets
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }


def own_names(kind: type) -> set[str]:
    return {name for name in vars(kind).keys() | assigned(kind) if not name.startswith("__")}


OF_THE_KERNEL = {
    name for name in own_names(ObjectReconciler) if name.startswith("_") and not name.startswith("_abc_")
}


def replaced(kind: type) -> set[str]:
    """The kernel's private names that a class has, too: its own, or from what else it extends."""
    others = [
        each for each in kind.__mro__ if each.__module__.partition(".")[0] not in ("builtins", "typing")
    ]
    theirs = [own_names(each) for each in others if each not in ObjectReconciler.__mro__]
    return OF_THE_KERNEL & set().union(*theirs)


class OfThisName:
    def _another(self) -> None: ...


class Replacing(OfThisName):
    def __init__(self) -> None:
        self._finalizer = ""

    def _write(self) -> None: ...


def test_a_method_and_an_attribute_that_replace_what_is_the_kernels_are_found() -> None:
    assert replaced(Replacing) == {"_write", "_finalizer", "_another"}


@pytest.mark.parametrize("kind", everyone(ObjectReconciler), ids=lambda kind: kind.__qualname__)
def test_no_reconciler_replaces_what_is_the_kernels(kind: type) -> None:
    assert not replaced(kind), "the kernel would call the subclass's"
