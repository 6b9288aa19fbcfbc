"""What a nested control plane costs: one until its kubeconfig works, asleep, awake, changed; many at once.

Theory.      ``kubewright up`` in a process of its own, driven from outside, as by a user: the four objects
             are written, and the kubeconfig is used as soon as it is there. In channel ``embedded`` a control
             plane is tasks of that process, so its memory and CPU are the growth of the process. In the other
             channel it is three programs: their memory is their proportional share (PSS), because they share
             their binaries, and the growth of ``kubewright`` itself is shown apart.
Counting.    A control plane is usable when the default namespace is read with its kubeconfig. While its
             authorities are replaced, or its version, ``changes`` counts the seconds without an answer. Many
             are begun at once; the seconds are those until the last one is usable.
Called by    ``python -m bench planes``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import worlds
from bench.changes import NOT_MEASURED, Changes, Cost
from bench.process import usage
from bench.table import Budget, beside
from bench.worlds import PRODUCT, World
from kubewright.api.controlplane.names import Component, Phase
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import NAMESPACE
from kubewright.base.clock import Clock
from kubewright.controlplanes.family import KINDS
from kubewright.controlplanes.world import templates
from kubewright.testing.real_kubernetes import find
from kubewright.testing.real_kubernetes.binaries import kubewright_cache
from kubewright.wire.gvk import Key

EMBEDDED, REAL = "embedded", "1.36"
"""The channels: control planes inside of ``kubewright up``, and of Kubernetes' programs beside it."""
EARLIER = "1.35"
"""The channel from which a control plane of real programs is upgraded; `make kube RELEASE=1.35` builds it."""
NAMESPACE_NAME = "bench"
FIELDS = {
    Component.ETCD: "etcd",
    Component.API_SERVER: "apiserver",
    Component.CONTROLLER_MANAGER: "controllerManager",
}
AT_ONCE = 20
"""Requests in flight when many are asked for."""
STEP_SECONDS, MANY_STEP_SECONDS = 0.02, 0.25
"""Between two looks at one control plane; and at many, which must not be slowed down by that."""
TIMEOUT_SECONDS = 900.0
REST_SECONDS = 30.0
LIMITS = {EMBEDDED: (1.0, 1.0), REAL: (6.0, 5.0)}
"""Budgets in seconds, by channel: from nothing to usable, and from asleep to usable."""
PUBLISHED = (
    ("Kamaji", "ready in 16 s; 100 in 7.5 min: 4.5 s each, 2 replicas", "320 MiB asked for, etcd shared"),
    ("k0smotron", "", "210 to 560 MiB at 100, by kind of store"),
    ("vCluster", "seconds; restart about 6 s", "300 to 500 MiB, as users report"),
    ("HyperShift", "10 to 15 min", "8.5 GiB asked for, one replica"),
    ("1.20 by hand, here", "8.1 to 10.8 s; the API server again 3.5 s", "338 MiB PSS of three side by side"),
)
"""What other systems publish (nested.md B3), and Kubernetes 1.20 by hand (D3): system, time, memory."""


@dataclass(slots=True)
class Result:
    """What was measured in one channel; nan: not measured. Those below ``upgraded`` are of ``many`` at once.

    ``replicas``                      instances of each API server and controller manager
    ``first``, ``asleep``, ``awake``  seconds of one: from nothing to usable, to sleep, from there to usable
    ``rotated``, ``upgraded``         what it costs to replace all authorities of one, and its version
    ``all_usable``, ``gone``          seconds until the last one is usable, and until all are deleted
    ``ours``, ``each``                MiB for each: of ``kubewright up``; of its programs (embedded: the same)
    ``cpu_ours``, ``cpu_each``        CPU-seconds for each until then, of the same two
    ``rest_ours``, ``rest_each``      cores for each at rest, of the same two
    ``left_behind``                   processes that run after the deletion of all
    """

    channel: str
    many: int
    replicas: int = 1
    first: float = nan
    asleep: float = nan
    awake: float = nan
    rotated: Cost = NOT_MEASURED
    upgraded: Cost = NOT_MEASURED
    all_usable: float = nan
    ours: float = nan
    each: float = nan
    cpu_ours: float = nan
    cpu_each: float = nan
    rest_ours: float = nan
    rest_each: float = nan
    gone: float = nan
    left_behind: int = 0
    notes: list[str] = field(default_factory=list)


class Scenario:
    """One run in one channel, in a world of ``kubewright up``."""

    def __init__(self, world: World, clock: Clock, channel: str, many: int, replicas: int) -> None:
        self._client, self._pid = world.client, world.pids[PRODUCT]
        self._clock = clock
        self._channel = channel
        self._result = Result(channel, many, replicas)

    async def play(self) -> Result:
        """Everything in order."""
        await self._client.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        await self._one()
        if self._channel == REAL:
            await self._upgrade("older")
        if self._result.many:
            await self._many()
        return self._result

    async def _one(self) -> None:
        result, name = self._result, "one"
        result.first = await self._seconds(self._create(name), lambda: self._usable(name))
        began = self._clock.monotonic()
        for each in reversed(Component):
            await self._scale(name, each, 0)
            await self._until(partial(self._sleeps, name, each), STEP_SECONDS)
        result.asleep = self._clock.monotonic() - began
        result.awake = await self._seconds(self._wake(name), lambda: self._usable(name))
        await self._until(lambda: self._all_ready(1), STEP_SECONDS)
        result.rotated = await self._changes(name).rotate()
        await self._seconds(self._delete([name]), self._gone)

    async def _upgrade(self, name: str) -> None:
        """Of one by a minor version; all its components follow the version of the control plane."""
        result, (before, after) = self._result, (_version(EARLIER), _version(REAL))
        if not (kubewright_cache() / "kube" / f"v{before}").is_dir():
            result.notes.append(f"no upgrade from v{before}, which `make kube RELEASE={EARLIER}` builds")
            return
        await self._create(name, before)
        await self._until(lambda: self._all_ready(1), STEP_SECONDS)
        result.upgraded = await self._changes(name).upgrade(after)
        await self._seconds(self._delete([name]), self._gone)

    async def _many(self) -> None:
        result = self._result
        names = [f"p{number}" for number in range(result.many)]
        before, began = usage(self._pid), self._clock.monotonic()
        await self._at_once(self._create(name) for name in names)
        await self._until(lambda: self._all_ready(len(names)), MANY_STEP_SECONDS)
        usable = await self._at_once(self._usable(name) for name in names)
        result.all_usable = self._clock.monotonic() - began
        result.notes += [f"{usable.count(False)} are ready and not usable"] if not all(usable) else []
        await self._clock.sleep(REST_SECONDS)
        after, programs = usage(self._pid), children(self._pid)
        grown = after.resident - before.resident
        result.ours = grown / result.many
        result.each = sum(map(pss, programs)) / result.many if self._channel == REAL else grown / result.many
        result.cpu_ours = (after.cpu - before.cpu) / result.many
        spent = sum(usage(each).cpu for each in programs)
        result.cpu_each = spent / result.many if self._channel == REAL else nan
        await self._clock.sleep(REST_SECONDS)
        result.rest_ours = (usage(self._pid).cpu - after.cpu) / REST_SECONDS / result.many
        idle = (sum(usage(each).cpu for each in programs) - spent) / REST_SECONDS / result.many
        result.rest_each = idle if self._channel == REAL else nan
        result.gone = await self._seconds(self._delete(names), self._gone, MANY_STEP_SECONDS)
        result.left_behind = len(children(self._pid))

    # ------------------------------------------------------------ what a user does

    async def _create(self, name: str, version: str = "") -> None:
        parts: dict[str, Any] = {FIELDS[each]: {"name": f"{name}-{each}"} for each in KINDS}
        await self._client.create(NESTED_CONTROL_PLANE, _body(name, parts | _named("version", version)))
        channel = _named("channel", "" if version else self._channel)
        for each, kind in KINDS.items():
            spec = {"replicas": self._replicas(each), **channel}
            await self._client.create(kind, _body(f"{name}-{each}", spec))

    def _replicas(self, component: Component) -> int:
        """As asked; of etcd an odd number."""
        asked = self._result.replicas
        return asked | 1 if component is Component.ETCD else asked

    async def _scale(self, name: str, component: Component, replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        await self._client.patch(KINDS[component], _key(f"{name}-{component}"), body)

    async def _wake(self, name: str) -> None:
        for each in KINDS:
            await self._scale(name, each, self._replicas(each))

    async def _delete(self, names: Iterable[str]) -> None:
        await self._at_once(self._client.delete(NESTED_CONTROL_PLANE, _key(name)) for name in names)

    # ------------------------------------------------------------ what a user sees

    def _changes(self, name: str) -> Changes:
        return Changes(self._client, _key(name), self._clock)

    async def _usable(self, name: str) -> bool:
        return await self._changes(name).answers()

    async def _sleeps(self, name: str, component: Component) -> bool:
        found = await self._client.get(KINDS[component], _key(f"{name}-{component}"))
        return found.status.phase == Phase.SLEEPING and not found.status.replicas

    async def _all_ready(self, count: int) -> bool:
        found = await self._client.list(NESTED_CONTROL_PLANE, NAMESPACE_NAME)
        return sum(each.status.ready for each in found) == count

    async def _gone(self) -> bool:
        return not await self._client.list(NESTED_CONTROL_PLANE, NAMESPACE_NAME)

    # ------------------------------------------------------------ time

    async def _seconds(
        self, act: Awaitable[Any], done: Callable[[], Awaitable[bool]], step: float = STEP_SECONDS
    ) -> float:
        began = self._clock.monotonic()
        await act
        await self._until(done, step)
        return self._clock.monotonic() - began

    async def _until(self, done: Callable[[], Awaitable[bool]], step: float) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await done():
                await self._clock.sleep(step)

    @staticmethod
    async def _at_once(works: Iterable[Awaitable[Any]]) -> list[Any]:
        """The answers of all, at most ``AT_ONCE`` at one time."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(work: Awaitable[Any]) -> Any:
            async with slots:
                return await work

        return await asyncio.gather(*map(one, works))


async def measure(channel: str, many: int, clock: Clock, replicas: int = 1) -> Result:
    """Play the scenario in a new ``kubewright up``. ``replicas``: of control planes of real programs.

    Raises:
        NoKubernetes: this machine has not got the programs.
    """
    if channel == REAL:
        find()
    async with worlds.embedded(clock) as world:
        return await Scenario(world, clock, channel, many, replicas if channel == REAL else 1).play()


def children(pid: int) -> list[int]:
    """The processes that this one has started, and that run."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = each.read_text().rpartition(")")[2].split()
            found += [int(each.parent.name)] if int(parent) == pid and state != "Z" else []
    return found


def pss(pid: int) -> float:
    """The proportional share of a process in memory, in MiB; 0 if it is gone."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
    return 0.0


def lines(result: Result) -> list[Budget]:
    """Every line for one channel."""
    usable, awake = LIMITS[result.channel]
    n = result.many
    return [
        Budget("one control plane: created to usable kubeconfig", "s", usable, result.first),
        Budget("  to sleep (replicas 0, one after another)", "s", None, result.asleep),
        Budget("  woken to usable", "s", awake, result.awake),
        Budget("  all its authorities replaced", "s", None, result.rotated.seconds),
        Budget("    of these without an answer of its API", "s", None, result.rotated.silent),
        Budget(f"  upgraded from {EARLIER} to {REAL}", "s", None, result.upgraded.seconds),
        Budget("    of these without an answer of its API", "s", None, result.upgraded.silent),
        Budget("side by side", "", None, n),
        Budget("  all usable after", "s", None, result.all_usable),
        Budget("  seconds each", "s", None, result.all_usable / n if n else nan),
        Budget("  memory of what it runs as, each", "MiB", None, result.each),
        Budget("  memory of kubewright itself, each", "MiB", None, result.ours),
        Budget("  CPU of kubewright until then, each", "ms", None, result.cpu_ours * 1000),
        Budget("  CPU of its programs until then, each", "ms", None, result.cpu_each * 1000),
        Budget("  at rest: CPU of kubewright, each", "m", None, result.rest_ours * 1000),
        Budget("  at rest: CPU of its programs, each", "m", None, result.rest_each * 1000),
        Budget("  all deleted after", "s", None, result.gone),
        Budget("  processes left behind", "", 0, result.left_behind),
    ]


def show(results: Sequence[Result], console: Console) -> None:
    """Print the table, and below it what others publish."""
    for result in results:  # their budgets differ
        title = f"planes of channel {result.channel}, replicas {result.replicas}; m: a thousandth of a core"
        console.print(beside(title, [result.channel], [lines(result)]))
        for note in result.notes:
            console.print(f"{result.channel}: {note}")
    published = Table(title="published by others, and measured here before", title_justify="left")
    for column in ("what", "from nothing to ready", "memory each"):
        published.add_column(column)
    for row in PUBLISHED:
        published.add_row(*row)
    console.print(published)


def _body(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE_NAME}, "spec": spec}


def _named(field: str, value: str) -> dict[str, Any]:
    return {field: value} if value else {}


def _version(channel: str) -> str:
    """The version of Kubernetes that a channel stands for."""
    return next(each.version for each in templates().channels[channel] if each.package == "apiserver")


def _key(name: str) -> Key:
    return Key(NAMESPACE_NAME, name)
