"""What a life has: a server for its objects, our controllers as a process, VMs, and a clock that writes down each step.

A life is a program that runs in namespaces of its own (network, processes): what it leaves behind ends with it, and
nothing of this machine's network is changed. Its last line is a report, which the test reads.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.vm import guests, objects

from kubewright.base.clock import SystemClock
from kubewright.base.errors import KubewrightError
from kubewright.kube.config import load
from kubewright.processes import record
from kubewright.testing.api import Api
from kubewright.testing.kubectl import Kubectl
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.real_kubernetes.cached import SCHEDULER
from kubewright.testing.real_kubernetes.cluster import Program, free_ports, write_private

GATEWAY, COMPONENTS = "10.99.0.1", "10.98.0.0/16"
"""This side of the bridge, and addresses of components, which VMs reach by it."""
NODES = "/api/v1/nodes"
POLL = 0.5
TAIL, LOG = 60, "kubewright.log"


class Late(AssertionError):
    """Something did not come in time; the text says what was there instead."""


class Steps:
    """The seconds of each step, and the largest memory of the VMs meanwhile."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self.done: list[tuple[str, float, int]] = []
        self._peak = 0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        say(f"-- {name}")
        began, self._peak = self._clock.monotonic(), 0
        yield
        seconds = self._clock.monotonic() - began
        self.done.append((name, round(seconds, 1), self._peak))
        say(f"   {seconds:.1f} s")

    def see(self, resident: int) -> None:
        self._peak = max(self._peak, resident)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class Server:
    """An API server."""

    def __init__(self, clock: SystemClock, folder: Path, kubeconfig: Path) -> None:
        self.api = Api(load(kubeconfig, clock=clock), clock, "real")
        self.kubectl = Kubectl(find().kubectl, kubeconfig, folder, "real", "default")

    async def apply(self, *objects: Any) -> None:
        await asyncio.to_thread(
            self.kubectl, "apply", "--server-side", "-f", "-", stdin=guests.text(*objects)
        )

    async def get(self, path: str) -> Any:
        """An object or a list; None if it is not there."""
        answer = await self.api.call("GET", path)
        return None if answer.code == 404 else answer.ok()

    async def items(self, path: str) -> list[Any]:
        return list((await self.get(path) or {}).get("items") or [])

    async def ready_nodes(self) -> dict[str, Any]:
        """Those that say that they are ready, by name."""
        return {
            each["metadata"]["name"]: each
            for each in await self.items(NODES)
            if condition(each, "Ready") == "True"
        }


class Stage(Server):
    """Objects on a server, and Kubewright as a process with driver qemu; VMs are below ``data``."""

    def __init__(self, clock: SystemClock, folder: Path, images: Path, kubeconfig: Path, data: Path) -> None:
        self.folder, self.images, self.clock = folder, images, clock
        self.vms = data / "qemu" / "vms"
        super().__init__(clock, folder, kubeconfig)
        self.steps = Steps(clock)
        self.programs: list[Program] = []

    async def until(self, what: str, seconds: float, look: Callable[[], Awaitable[Any]]) -> Any:
        """What ``look`` finds, once it is something.

        Raises:
            Late: it was nothing for so long.
        """
        deadline = self.clock.monotonic() + seconds
        while not (found := await look()):
            self.steps.see(sum(map(resident, self.qemus().values())))
            ended = [each for each in self.programs if not each.is_running()]
            assert not ended, f"{ended[0].name} has ended:\n{ended[0].last_lines()}"
            if self.clock.monotonic() > deadline:
                raise Late(f"not within {seconds:g} s: {what}")
            await self.clock.sleep(POLL)
        return found

    def start(self, *words: str) -> None:
        """Start ``kubewright`` with VMs on the bridge."""
        self.programs.append(kubewright(self.clock, self.folder, self.images, *words))

    def qemus(self) -> dict[str, int]:
        """The processes of VMs that run, by the machine's name."""
        found = {}
        for name in record.recorded(self.vms):
            seen = record.read(self.vms / name)
            if seen is not None and seen.pid and Path(f"/proc/{seen.pid}").exists():
                found[json.loads((self.vms / name / "vm.json").read_text())["name"]] = seen.pid
        return found

    def kill(self, machine: str) -> None:
        os.kill(self.qemus()[machine], signal.SIGKILL)

    def show(self, *kinds: str) -> None:
        """All that tells why a life failed: objects, our log, the ends of the consoles."""
        for kind in kinds:
            done = self.kubectl.run("get", kind, "-A", "-o", "wide", "--request-timeout=5s")
            say(f"== {kind}\n{done.stdout or done.stderr}")
        for path in [self.folder / LOG, *sorted(self.vms.glob("*/output.log"))]:
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            say(f"== the end of {path.relative_to(self.folder)}\n" + "\n".join(lines[-TAIL:]))

    def network(self) -> list[str]:
        """The network devices of this namespace, but for loopback."""
        return sorted(each["ifname"] for each in json.loads(ip("-json", "link")) if each["ifname"] != "lo")


class Workload(Server):
    """A cluster that a life has made, seen from the one of its objects."""

    def __init__(self, stage: Stage, kubeconfig: Path) -> None:
        super().__init__(stage.clock, stage.folder, kubeconfig)
        self._stage = stage

    @classmethod
    @asynccontextmanager
    async def of(cls, stage: Stage, cluster: str) -> AsyncIterator["Workload"]:
        """By the kubeconfig of the Cluster, which is there."""
        secret = await stage.get(f"/api/v1/namespaces/default/secrets/{cluster}-kubeconfig")
        path = stage.folder / f"{cluster}.kubeconfig"
        path.unlink(missing_ok=True)
        write_private(path, b64decode(secret["data"]["value"]))
        workload = cls(stage, path)
        try:
            yield workload
        finally:
            await workload.api.transport.close()

    async def joined(self, count: int) -> bool:
        """Whether so many machines have a Node that is ready, and there is no other. False while it does not answer."""
        try:
            answer = await self.api.call("GET", NODES)
        except KubewrightError:
            return False
        nodes = answer.body.get("items") or [] if answer.code == 200 else []
        ready = {each["metadata"]["name"] for each in nodes if condition(each, "Ready") == "True"}
        machines = await self._stage.items(objects.MACHINES)
        known = {each.get("status", {}).get("nodeRef", {}).get("name") for each in machines}
        return len(machines) == len(ready) == len(nodes) == count and known == ready

    async def kubelets(self) -> list[str]:
        """The versions that kubelets say of themselves, sorted."""
        return sorted(each["status"]["nodeInfo"]["kubeletVersion"] for each in await self.items(NODES))


def condition(obj: Any, type_: str) -> str:
    """The status of a condition; empty if it is not there."""
    found = [each for each in obj.get("status", {}).get("conditions") or () if each["type"] == type_]
    return str(found[0]["status"]) if found else ""


def resident(pid: int) -> int:
    """MiB of a process in memory."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS"))


Opener = Callable[[SystemClock, Path, Path], AbstractAsyncContextManager[Stage]]


@asynccontextmanager
async def on_kubernetes(clock: SystemClock, folder: Path, images: Path) -> AsyncIterator["OnKubernetes"]:
    """A real Kubernetes that VMs reach at ``GATEWAY``; the life starts ``kubewright run`` itself."""
    options = Options(fsync=False, reached_at=GATEWAY, scheduler=SCHEDULER.find())
    async with RealKubernetes(find(), clock, options) as real:
        yield OnKubernetes(clock, folder, images, real)


class OnKubernetes(Stage):
    """A stage whose objects are in a real Kubernetes."""

    def __init__(self, clock: SystemClock, folder: Path, images: Path, real: RealKubernetes) -> None:
        self.real = real
        super().__init__(clock, folder, images, real.kubeconfig, folder / "data")

    def run(self, *words: str) -> None:
        """Start ``kubewright run``."""
        (port,) = free_ports(1)
        where = (f"--kubeconfig={self.real.kubeconfig}", f"--driver-option=dataDir={self.vms.parents[1]}")
        self.start("run", *where, f"--health-port={port}", "--no-leader-elect", *words)


@asynccontextmanager
async def embedded(clock: SystemClock, folder: Path, images: Path) -> AsyncIterator[Stage]:
    """``kubewright up`` with components that VMs reach."""
    await asyncio.to_thread(ip, "route", "add", "local", COMPONENTS, "dev", "lo")
    data = folder / "up"
    (port,) = free_ports(1)
    words = ("up", f"--data-dir={data}", f"--port={port}", f"--component-addresses={COMPONENTS}")
    up = kubewright(clock, folder, images, *words)

    async def answers() -> bool:
        return b"kubewright is ready" in (folder / LOG).read_bytes()

    await up.wait_until(answers, 60)
    stage = Stage(clock, folder, images, data / "kubeconfig", data)
    stage.programs.append(up)
    yield stage


@asynccontextmanager
async def opened(opener: Opener, folder: Path, images: Path, shown: Sequence[str]) -> AsyncIterator[Stage]:
    """A stage; when the life fails, what it leaves is shown before it goes."""
    await asyncio.to_thread(ip, "link", "set", "lo", "up")
    async with opener(SystemClock(), folder, images) as stage:
        try:
            yield stage
        except BaseException:
            await asyncio.to_thread(stage.show, *shown)
            raise
        finally:
            for program in reversed(stage.programs):
                await program.stop()
            for pid in stage.qemus().values():
                os.kill(pid, signal.SIGKILL)
            await stage.api.transport.close()


def kubewright(clock: SystemClock, folder: Path, images: Path, *words: str) -> Program:
    """Kubewright with VMs on the bridge, whose output is in ``LOG``."""
    options = (f"--driver-option=images={images}", "--driver-option=network=bridge")
    command = [sys.executable, "-m", "kubewright", *words, "--driver=qemu", *options]
    return Program(command, folder / LOG, clock)


def ip(*words: str) -> bytes:
    return subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10).stdout


def main(opener: Opener, life: Callable[[Any], Awaitable[None]], shown: Sequence[str]) -> None:
    """Live it: ``python -m tests.vm.LIFE FOLDER IMAGES``; the last line of what it prints is its steps."""
    folder, images = map(Path, sys.argv[1:])

    async def lived() -> Sequence[tuple[str, float, int]]:
        async with opened(opener, folder, images, shown) as stage:
            await life(stage)
            return stage.steps.done

    sys.stdout.write(json.dumps(asyncio.run(lived())) + "\n")
