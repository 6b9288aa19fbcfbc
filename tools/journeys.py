"""How far a request travels: through how many files of ours, and how often from one to another.

    .venv/bin/python tools/journeys.py                    every journey, and the shape of the packages
    .venv/bin/python tools/journeys.py GET POST           these journeys
    git worktree add --detach ../before COMMIT
    .venv/bin/python tools/journeys.py --beside ../before   both checkouts, as the table of ARCHITECTURE.md

Theory.      What a reader pays who follows a request is how many files they open, and how often they turn
             from one to another. A journey is taken in an embedded world in memory and on virtual time, from
             a user's request until what they wait for has come. Each function of ours that begins is a
             *step* in its file, whatever calls it; a step in another file than the step before is a *move*.
             What stands in for other programs is no step (``OTHERS``), nor is work in threads.
             The shape is read from the sources: files, lines, and *arrows*, which are imports of one module
             of a package by another one of it; arrows that lead back to where they began are a *circle*.
Invariants.  Requests are JSON and imports few, so that a checkout of months ago can be measured too. Every
             journey ends at a deadline of virtual time.
"""

import ast
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import looptime
import orjson
import structlog
import yaml

import kubewright
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options
from kubewright.compose.worlds import every_word
from kubewright.testing.clocks import LoopClock
from kubewright.wire.http import JSON, MERGE_PATCH, Request

SOURCE = Path(kubewright.__file__).parent
EXAMPLES = Path(__file__).parent.parent / "examples"
OTHERS = ("testing", "providers/sim", "builtin")
"""What does the work of other programs: the clock of tests, clouds and kubelets, kube-controller-manager."""
BEGINS = 8
"""The greatest ``f_lasti`` of a function that begins; a coroutine that goes on has come further."""
DEADLINE = 300.0
"""Seconds of virtual time in which a journey must end."""

LOOK = 0.01
"""Seconds of virtual time between two looks of the user."""
REST = 30.0
"""Seconds of virtual time after which controllers have done what a start asks of them."""

Object = Mapping[str, Any]
Journeys = Mapping[str, Callable[["World"], Awaitable[None]]]


@dataclass
class Steps:
    """The files in which functions of ours began, and the moves between them."""

    files: set[str] = field(default_factory=set)
    moves: int = 0
    _last: str = ""
    _ours: dict[str, bool] = field(default_factory=dict)

    def step(self, frame: Any, event: str, _argument: object) -> None:
        """What ``sys.setprofile`` calls."""
        file = frame.f_code.co_filename
        if event == "call" and frame.f_lasti < BEGINS and self._is_ours(file):
            self.files.add(file)
            self.moves += file != self._last != ""
            self._last = file

    def _is_ours(self, file: str) -> bool:
        if file not in self._ours:
            path = Path(file)
            ours = path.is_relative_to(SOURCE)
            self._ours[file] = ours and not any(path.is_relative_to(SOURCE / other) for other in OTHERS)
        return self._ours[file]

    @contextmanager
    def counted(self, *, on: bool = True) -> Iterator[None]:
        """Count in this block; or leave this block out of one that is counted."""
        sys.setprofile(self.step if on else None)
        try:
            yield
        finally:
            sys.setprofile(None if on else self.step)


class World:
    """An embedded world, and what its user does there."""

    def __init__(self, embedded: Embedded, steps: Steps) -> None:
        self._embedded = embedded
        self.steps = steps

    async def ask(self, method: str, path: str, body: Object | None = None, kind: str = JSON) -> Any:
        data = b"" if body is None else orjson.dumps(body)
        request = Request(method, path, headers={"content-type": kind}, body=data)
        response = await self._embedded.server.handle(request)
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.body.decode()}")
        return orjson.loads(response.body)

    async def create(self, *bodies: Object) -> None:
        for body in bodies:
            await self.ask("POST", path_of(body).rpartition("/")[0], body)

    async def until(self, body: Object, met: Callable[[Object], object]) -> None:
        """Wait until its status meets it; what looks is not counted."""
        async with asyncio.timeout(DEADLINE):
            while True:
                with self.steps.counted(on=False):
                    shown = await self.ask("GET", path_of(body))
                if met(shown.get("status", {})):
                    return
                await self._embedded.clock.sleep(LOOK)


def path_of(body: Object) -> str:
    api = body["apiVersion"]
    root = "apis" if "/" in api else "api"
    return f"/{root}/{api}/namespaces/default/{body['kind'].lower()}s/{body['metadata']['name']}"


def example(file: str) -> dict[str, Object]:
    """The objects of an example, by kind."""
    return {body["kind"]: body for body in yaml.safe_load_all((EXAMPLES / file).read_text())}


CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}}
MACHINE = {
    "apiVersion": "machine.sapcloud.io/v1alpha1",
    "kind": "Machine",
    "metadata": {"name": "one"},
    "spec": {"class": {"kind": "MachineClass", "name": "sim-small"}},
}


async def get(world: World) -> None:
    await world.create(CONFIG_MAP)
    with world.steps.counted():
        await world.ask("GET", path_of(CONFIG_MAP))


async def post(world: World) -> None:
    with world.steps.counted():
        await world.create(CONFIG_MAP)


async def patch(world: World) -> None:
    await world.create(CONFIG_MAP)
    with world.steps.counted():
        await world.ask("PATCH", path_of(CONFIG_MAP), {"data": {"b": "2"}}, MERGE_PATCH)


async def machine_running(world: World) -> None:
    with world.steps.counted():
        await world.create(MACHINE)
        await world.until(MACHINE, lambda s: s.get("currentStatus", {}).get("phase") == "Running")


async def bootstrap_secret(world: World) -> None:
    """The cluster's infrastructure is ready, and the Machine waits for its KubeadmConfig."""
    bodies = example("cluster.yaml")
    config = bodies["KubeadmConfig"]
    await world.create(
        *(bodies[kind] for kind in ("Cluster", "KubewrightCluster", "Machine", "KubewrightMachine"))
    )
    await world.until(bodies["Cluster"], lambda s: s.get("infrastructureReady"))
    with world.steps.counted():
        await world.create(config)
        await world.until(config, lambda s: s.get("dataSecretName"))


async def etcd_ready(world: World) -> None:
    """The NestedControlPlane is there, and names an etcd that is not."""
    bodies = example("control-plane.yaml")
    await world.create(bodies["NestedControlPlane"])
    with world.steps.counted():
        await world.create(bodies["NestedEtcd"])
        await world.until(bodies["NestedEtcd"], is_ready)


def is_ready(status: Object) -> bool:
    return {"Ready": "True"}.items() <= {
        each["type"]: each["status"] for each in status.get("conditions", ())
    }.items()


REQUESTS: Journeys = {"GET": get, "POST": post, "PATCH": patch}
"""Those of one request: of the server alone, without a controller."""
PASSES: Journeys = {
    "Machine to Running": machine_running,
    "KubeadmConfig to Secret": bootstrap_secret,
    "NestedEtcd ready": etcd_ready,
}


def travelled(name: str) -> Steps:
    """Take a journey, in a world of its own."""
    loop, steps = looptime.new_event_loop(), Steps()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_asked(name, steps) if name in REQUESTS else _reconciled(name, steps))
    finally:
        loop.close()
    return steps


async def _asked(name: str, steps: Steps) -> None:
    async with Embedded(None, Options(), LoopClock()) as embedded:
        await REQUESTS[name](World(embedded, steps))


async def _reconciled(name: str, steps: Steps) -> None:
    options = Options(controllers=every_word(Options()))
    async with Embedded(None, options, LoopClock()) as embedded:
        stop, ready = asyncio.Event(), asyncio.Event()
        serving = asyncio.create_task(embedded.serve(stop, ready.set))
        await ready.wait()
        await embedded.clock.sleep(REST)
        await PASSES[name](World(embedded, steps))
        stop.set()
        await serving


@dataclass(frozen=True)
class Shape:
    """A package with all below it: the arrows are those between its own modules."""

    files: int
    lines: int
    arrows: int
    circles: bool


def shape(folder: Path) -> Shape:
    """The shape of a package."""
    sources = {_module(path): path.read_text() for path in sorted(folder.rglob("*.py"))}
    arrows = {name: {to for to in _imports(text, sources) if to != name} for name, text in sources.items()}
    lines = sum(len(text.splitlines()) for text in sources.values())
    return Shape(len(sources), lines, sum(map(len, arrows.values())), _has_circle(arrows))


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def _imports(text: str, known: Iterable[str]) -> set[str]:
    """The modules among those known that a source imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{each.name}" for each in node.names}
            found |= (whole & set(known)) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found & set(known)


def _has_circle(arrows: Mapping[str, set[str]]) -> bool:
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError:
        return True
    return False


def packages() -> list[Path]:
    """Those whose shape is shown: each room, and the folder that has most to do."""
    rooms = [path for path in sorted(SOURCE.iterdir()) if (path / "__init__.py").exists()]
    return [SOURCE, *rooms, SOURCE / "machines" / "machine"]


def measured(names: Iterable[str]) -> dict[str, list[str]]:
    """The rows of this checkout: of these journeys, or of all and the shape."""
    wanted, rows = list(names), {}
    for name in wanted or (*REQUESTS, *PASSES):
        steps = travelled(name)
        rows[name] = [f"{len(steps.files)} files", f"{steps.moves:,} moves"]
    for folder in () if wanted else packages():
        it = shape(folder)
        circles = ["circles"] if it.circles and folder != SOURCE else []
        name = str(folder.relative_to(SOURCE.parent.parent))
        rows[name] = [f"{it.files} files", f"{it.lines:,} lines", f"{it.arrows:,} arrows", *circles]
    return rows


def main() -> None:
    """Print the table."""
    words = sys.argv[1:]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    if words[:1] == ["--json"]:
        print(json.dumps(measured(words[1:])))
        return
    beside = Path(words[1]) if words[:1] == ["--beside"] else None
    columns = [measured(words if beside is None else words[2:])]
    if beside is not None:
        command = [sys.executable, __file__, "--json", *words[2:]]
        environment = {**os.environ, "PYTHONPATH": str(beside / "src")}
        told = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
        columns.insert(0, json.loads(told))
    for name in dict.fromkeys(name for rows in columns for name in rows):
        print("|", " | ".join([name, *(", ".join(rows.get(name, ())) for rows in columns)]), "|")


if __name__ == "__main__":
    main()
