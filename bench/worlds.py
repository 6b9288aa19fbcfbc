"""The worlds that are measured: programs in their own processes, and how to ask the server what was asked.

Theory.      A world is a server, a client of the bench's own, and the programs that work on the server, each
             by its process id. ``embedded`` is ``kubewright up``. ``server`` is etcd and
             kube-apiserver with an audit log, on which a world starts what it measures: ``real`` the
             controllers of machines, ``over_grpc`` the same with their driver in another process,
             ``bench.clusters.worlds`` those of clusters, ours or Cluster API's.
Invariants.  What a world starts ends with it, also when this process is killed (``Keeper``).
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.requests import AUDIT_POLICY, Asked, from_audit, from_metrics
from kubewright.base.clock import Clock
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.testing.left_programs import nothing_left
from kubewright.testing.real_kubernetes import Keeper, Options, RealKubernetes, find

START_SECONDS = 300.0
CONTROLLERS = ("namespace-controller",)
"""Of kube-controller-manager only this runs: the bench acts for the kubelets and the node life cycle, and
what is measured is a machine controller with an API server, as the originals were."""
STOP_SECONDS = 15.0
DIAL_SECONDS = 15.0
"""For a driver to dial again, once the manager leads; also on a machine that does other work."""
PRODUCT, DRIVER = "kubewright", "driver"


class Counter(Protocol):
    """Reads what the server has been asked so far."""

    async def __call__(self) -> Asked: ...


@dataclass(frozen=True, slots=True)
class World:
    """``pids`` by program; ``nodes_are_ours`` when this bench must make the nodes; ``settles``: seconds after
    the classes are there, before it is measured."""

    name: str
    client: Client
    pids: Mapping[str, int]
    asked: Counter
    nodes_are_ours: bool = False
    settles: float = 3.0


@dataclass(frozen=True, slots=True)
class Server:
    """A real kube-apiserver."""

    client: Client
    kubeconfig: Path
    folder: Path
    pids: Mapping[str, int]
    asked: Counter


@asynccontextmanager
async def embedded(clock: Clock, *switches: str) -> AsyncIterator[World]:
    """``kubewright up`` in a temporary folder, and the programs of control planes that it starts."""
    with (
        tempfile.TemporaryDirectory(prefix="kubewright-bench-") as folder,
        nothing_left(Path(folder) / "components"),
    ):
        async with product(
            ("up", "--data-dir", folder, "--log-level", "error", *switches), ready=b"ready"
        ) as pid:
            client = _connect(Path(folder) / "kubeconfig", clock)

            async def asked() -> Asked:
                answer = await client.send(client.request("GET", "/metrics"))
                return from_metrics(answer.body.decode())

            try:
                yield World("embedded", client, {PRODUCT: pid}, asked)
            finally:
                await client.transport.close()


@asynccontextmanager
async def real(clock: Clock) -> AsyncIterator[World]:
    """``kubewright run`` against etcd and kube-apiserver."""
    async with server(clock, CONTROLLERS) as found:
        words = ("run", "--kubeconfig", str(found.kubeconfig), "--driver", "sim",
                 "--allow-simulated-nodes", "--driver-option", "kubelets=off",
                 "--log-level", "warning")  # fmt: skip
        async with product(words) as pid:
            yield World("kube-apiserver", found.client, {PRODUCT: pid}, found.asked, nodes_are_ours=True)


@asynccontextmanager
async def over_grpc(clock: Clock) -> AsyncIterator[World]:
    """As ``real``, with the simulated cloud in a process of its own, which dials in."""
    async with server(clock, CONTROLLERS) as found:
        words = ("run", "--kubeconfig", str(found.kubeconfig), "--driver", "grpc",
                 "--driver-option", f"dataDir={found.folder}", "--log-level", "warning")  # fmt: skip
        cloud = ("driver", "serve", "sim", "--manager", f"unix:{found.folder / 'grpc' / 'drivers.sock'}",
                 "--driver-option", "kubelets=off", "--log-level", "error")  # fmt: skip
        async with product(words) as pid, product(cloud) as driver:
            pids = {PRODUCT: pid, DRIVER: driver}
            yield World(
                "over gRPC", found.client, pids, found.asked, nodes_are_ours=True, settles=DIAL_SECONDS
            )


@asynccontextmanager
async def server(clock: Clock, controllers: tuple[str, ...]) -> AsyncIterator[Server]:
    """etcd and kube-apiserver, with these controllers of kube-controller-manager."""
    with tempfile.TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        (folder / "policy.json").write_text(AUDIT_POLICY)
        log = folder / "audit.log"
        flags = (f"--audit-policy-file={folder / 'policy.json'}", f"--audit-log-path={log}",
                 "--audit-log-mode=batch", "--audit-log-batch-max-wait=1s",
                 "--audit-log-maxsize=100000")  # fmt: skip
        options = Options(apiserver_flags=flags, controllers=controllers)
        async with RealKubernetes(find(), clock, options) as real_kubernetes:
            client = _connect(real_kubernetes.kubeconfig, clock)

            async def asked() -> Asked:
                await clock.sleep(2.5)  # the audit log is written in batches
                with log.open() as lines:
                    return from_audit(lines)

            try:
                yield Server(client, real_kubernetes.kubeconfig, folder, real_kubernetes.pids, asked)
            finally:
                await client.transport.close()


@asynccontextmanager
async def product(words: tuple[str, ...], *, module: str = PRODUCT, ready: bytes = b"") -> AsyncIterator[int]:
    """A program of ours; its process id, once it has printed ``ready``."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *words,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    keeper = Keeper(process.pid)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            while ready and ready not in (line := await process.stdout.readline()):
                assert line, f"{module} {words[0]} ended before it was ready"
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        keeper.dismiss()


def _connect(kubeconfig: Path, clock: Clock) -> Client:
    """A light connection under the bench's own name, so that it costs little and is not counted as ours."""
    transport = config.load(kubeconfig, clock=clock)
    return Client(transport, clock, name="bench", user_agent="bench")
