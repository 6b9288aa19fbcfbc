"""What a life has: a real Kubernetes, our controllers as a process, VMs, and a clock that writes down each step.

A life is a program that runs in namespaces of its own (network, processes): what it leaves behind ends with it, and
nothing of this machine's network is changed. Its last line is a report, which the test reads.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from kubewright.base.clock import SystemClock
from kubewright.kube.config import load
from kubewright.processes import record
from kubewright.testing.api import Api
from kubewright.testing.kubectl import Kubectl
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.real_kubernetes.cached import SCHEDULER
from kubewright.testing.real_kubernetes.process import Program, free_ports

GATEWAY = "10.99.0.1"
NODES = "/api/v1/nodes"
POLL = 0.5
TAIL = 60


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


class Stage:
    """One real Kubernetes at ``GATEWAY`` and ``kubewright run`` with driver qemu on it."""

    def __init__(
        self, real: RealKubernetes, api: Api, folder: Path, images: Path, clock: SystemClock
    ) -> None:
        self.real, self.api, self.folder, self.images, self.clock = real, api, folder, images, clock
        self.kubectl = Kubectl(real.binaries.kubectl, real.kubeconfig, folder, "real", "default")
        self.steps = Steps(clock)
        self.programs: list[Program] = []

    async def apply(self, *objects: Any) -> None:
        text = "\n---\n".join(json.dumps(each) for each in objects)
        await asyncio.to_thread(self.kubectl, "apply", "--server-side", "-f", "-", stdin=text)

    async def get(self, path: str) -> Any:
        """An object or a list; None if it is not there."""
        answer = await self.api.call("GET", path)
        return None if answer.code == 404 else answer.ok()

    async def items(self, path: str) -> list[Any]:
        return list((await self.get(path) or {}).get("items") or [])

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

    async def ready_nodes(self) -> dict[str, Any]:
        """Those that say that they are ready, by name."""
        return {
            each["metadata"]["name"]: each
            for each in await self.items(NODES)
            if condition(each, "Ready") == "True"
        }

    async def run(self, *words: str) -> None:
        """Start ``kubewright run`` with VMs on the bridge."""
        (port,) = free_ports(1)
        options = {"dataDir": self.folder / "data", "images": self.images, "network": "bridge"}
        command = [
            sys.executable,
            "-m",
            "kubewright",
            "run",
            "--driver=qemu",
            f"--kubeconfig={self.real.kubeconfig}",
        ]
        command += [f"--driver-option={name}={value}" for name, value in options.items()]
        command += [f"--health-port={port}", "--no-leader-elect", *words]
        self.programs.append(Program(command, self.folder / "run.log", self.clock))

    @property
    def vms(self) -> Path:
        return self.folder / "data" / "qemu" / "vms"

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
        for path in [self.folder / "run.log", *sorted(self.vms.glob("*/output.log"))]:
            lines = path.read_text(errors="replace").splitlines() if path.exists() else []
            say(f"== the end of {path.relative_to(self.folder)}\n" + "\n".join(lines[-TAIL:]))

    def network(self) -> list[str]:
        """The network devices of this namespace, but for loopback."""
        said = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, timeout=10).stdout
        return sorted(each["ifname"] for each in json.loads(said) if each["ifname"] != "lo")


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


@asynccontextmanager
async def opened(folder: Path, images: Path, shown: Sequence[str]) -> AsyncIterator[Stage]:
    """A stage; when the life fails, what it leaves is shown before it goes."""
    clock = SystemClock()
    await asyncio.to_thread(subprocess.run, ["ip", "link", "set", "lo", "up"], check=True, timeout=10)
    options = Options(fsync=False, reached_at=GATEWAY, scheduler=SCHEDULER.find())
    async with RealKubernetes(find(), clock, options) as real:
        transport = load(real.kubeconfig, clock=clock)
        stage = Stage(real, Api(transport, clock, "real"), folder, images, clock)
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
            await transport.close()


def main(life: Callable[[Stage], Awaitable[None]], shown: Sequence[str]) -> None:
    """Live it: ``python -m tests.vm.LIFE FOLDER IMAGES``; the last line of what it prints is its steps."""
    folder, images = map(Path, sys.argv[1:])

    async def lived() -> Sequence[tuple[str, float, int]]:
        async with opened(folder, images, shown) as stage:
            await life(stage)
            return stage.steps.done

    sys.stdout.write(json.dumps(asyncio.run(lived())) + "\n")
