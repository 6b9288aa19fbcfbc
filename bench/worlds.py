"""The two worlds: the product in a process of its own, and how to ask its server what was asked."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.requests import AUDIT_POLICY, Asked, from_audit, from_metrics
from kubewright.base.clock import Clock
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.testing.real_kubernetes import Keeper, Options, RealKubernetes, find

START_SECONDS = 60.0
CONTROLLERS = ("namespace-controller",)
"""Of kube-controller-manager only this runs: the bench acts for the kubelets and the node life cycle, and
what is measured is a machine controller with an API server, as the originals were."""
STOP_SECONDS = 15.0


class Counter(Protocol):
    """Reads what the server has been asked so far."""

    async def __call__(self) -> Asked: ...


@dataclass(frozen=True, slots=True)
class World:
    """``pid`` is the product's process; ``nodes_are_ours`` when this bench must make the nodes."""

    name: str
    client: Client
    pid: int
    asked: Counter
    nodes_are_ours: bool


@asynccontextmanager
async def embedded(clock: Clock) -> AsyncIterator[World]:
    """``kubewright up`` in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="kubewright-bench-") as folder:
        words = ("up", "--data-dir", folder)
        async with _product(words) as process:
            assert process.stdout is not None
            async with asyncio.timeout(START_SECONDS):
                while b"ready" not in (line := await process.stdout.readline()):
                    assert line, "kubewright up ended before it was ready"
            client = _connect(Path(folder) / "kubeconfig", clock)

            async def asked() -> Asked:
                answer = await client.send(client.request("GET", "/metrics"))
                return from_metrics(answer.body.decode())

            try:
                yield World("embedded", client, process.pid, asked, nodes_are_ours=False)
            finally:
                await client.transport.close()


@asynccontextmanager
async def real(clock: Clock, fsync: bool = True) -> AsyncIterator[World]:
    """``kubewright run`` against etcd and kube-apiserver."""
    with tempfile.TemporaryDirectory(prefix="kubewright-bench-") as name:
        folder = Path(name)
        (folder / "policy.json").write_text(AUDIT_POLICY)
        log = folder / "audit.log"
        flags = (f"--audit-policy-file={folder / 'policy.json'}", f"--audit-log-path={log}",
                 "--audit-log-mode=batch", "--audit-log-batch-max-wait=1s")  # fmt: skip
        async with RealKubernetes(
            find(), clock, Options(fsync=fsync, apiserver_flags=flags, controllers=CONTROLLERS)
        ) as real_kubernetes:
            client = _connect(real_kubernetes.kubeconfig, clock)
            words = ("run", "--kubeconfig", str(real_kubernetes.kubeconfig), "--driver", "sim",
                     "--allow-simulated-nodes", "--driver-option", "kubelets=off",
                     "--log-level", "warning")  # fmt: skip

            async def asked() -> Asked:
                await clock.sleep(2.5)  # the audit log is written in batches
                with log.open() as lines:
                    return from_audit(lines)

            try:
                async with _product(words) as process:
                    yield World("kube-apiserver", client, process.pid, asked, nodes_are_ours=True)
            finally:
                await client.transport.close()


def _connect(kubeconfig: Path, clock: Clock) -> Client:
    """A light connection under the bench's own name, so that it costs little and is not counted as ours."""
    transport = config.load(kubeconfig, clock=clock)
    return Client(transport, clock, name="bench", user_agent="bench")


@asynccontextmanager
async def _product(words: tuple[str, ...]) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kubewright",
        *words,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    keeper = Keeper(process.pid)
    try:
        yield process
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
