"""What a machine at AWS costs in requests of EC2: ``kubewright up --driver aws`` on an EC2 for tests.

Theory.      An account of AWS is allowed few requests a second: their number decides how fast machines come.
             The product runs as a user runs it. EC2 is moto, in this process, behind a small server that
             counts by operation. One deployment goes from nothing to Running (this bench makes the nodes, as
             kubelets would), rests, and goes back to nothing.
Differs      from EC2: an instance of moto ends at once, where EC2 takes half a minute, so deletions ask less
             here; nothing is throttled, and lists do not lag. moto looks through all tags for each instance
             where a filter names one. Such filters are answered before it, else it would answer too late.
Called by    ``python -m bench aws``. Needs moto, which development has.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from math import nan
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import web
from rich.console import Console
from rich.table import Table

from bench import worlds
from bench.nodes import NodeMaker
from bench.scenario import NAME, TIMEOUT_SECONDS
from bench.watcher import Watcher
from kubewright.api.core import NAMESPACE, SECRET
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, Machine
from kubewright.base.clock import Clock
from kubewright.kube.informer import Informers

REGION, ACCOUNT = "eu-west-1", "123456789012"
REST_SECONDS = 120.0
KEYS = {"providerAccessKeyId": "AKIABENCH00000000000", "providerSecretAccessKey": "unused", "userData": "#!"}


@dataclass(slots=True)
class Result:
    """Seconds and requests of EC2, by phase and operation; filled while it is measured."""

    machines: int
    seconds: dict[str, float] = field(default_factory=dict)
    asked: dict[str, Counter[str]] = field(default_factory=dict)
    left_behind: float = nan


class Ec2:
    """moto, and how often each operation was asked for."""

    def __init__(self) -> None:
        os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        from moto.backends import get_backend
        from moto.moto_server.werkzeug_app import create_backend_app
        from werkzeug.test import Client

        self._moto = Client(create_backend_app("ec2"))
        self._kept: Any = get_backend("ec2")[ACCOUNT][REGION]
        profiles: Any = get_backend("iam")[ACCOUNT]["aws"]
        profiles.create_instance_profile("nodes", "/", [])
        self.counts: Counter[str] = Counter()

    def provider_spec(self) -> Mapping[str, Any]:
        """Of a class that works here."""
        image = self._kept.register_image("bench")
        subnet = next(iter(self._kept.describe_subnets()))
        group = next(iter(self._kept.describe_security_groups()))
        return {
            "ami": image.id,
            "machineType": "m5.large",
            "region": REGION,
            "iam": {"name": "nodes"},
            "networkInterfaces": [{"subnetID": subnet.id, "securityGroupIDs": [group.id]}],
            "tags": {"kubernetes.io/cluster/bench": "1", "kubernetes.io/role/node": "1"},
        }

    @property
    def live(self) -> int:
        """Instances that have not ended."""
        every = (each for one in self._kept.reservations.values() for each in one.instances)
        return sum(each.state != "terminated" for each in every)

    async def handle(self, request: web.Request) -> web.Response:
        parameters = dict(parse_qsl((await request.read()).decode(), keep_blank_values=True))
        self.counts[parameters["Action"]] += 1
        if parameters["Action"] == "DescribeInstances":
            parameters = self._without_tags(parameters)
        answer = self._moto.post("/", data=urlencode(parameters), headers=HEADERS)
        return web.Response(status=answer.status_code, text=answer.text, content_type="text/xml")

    def _without_tags(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """The same question by instances' ids instead of filters of tags."""
        found = {name: value for name, value in parameters.items() if not name.startswith("Filter.")}
        filters: dict[str, list[str]] = {}
        for number in {name.split(".")[1] for name in parameters if name.startswith("Filter.")}:
            start = f"Filter.{number}.Value."
            values = [value for name, value in parameters.items() if name.startswith(start)]
            filters[parameters[f"Filter.{number}.Name"]] = values
        tags = {name.removeprefix("tag:"): set(filters.pop(name)) for name in list(filters) if "tag:" in name}
        if tags:
            carry = (
                each for each, has in self._kept.tags.items()
                if each.startswith("i-") and all(has.get(key) in values for key, values in tags.items())
            )  # fmt: skip
            filters["instance-id"] = list(carry) or ["i-00000000"]
        for place, (name, values) in enumerate(filters.items(), 1):
            found[f"Filter.{place}.Name"] = name
            found |= {f"Filter.{place}.Value.{n}": value for n, value in enumerate(values, 1)}
        return found


HEADERS = {
    "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
    "Host": f"ec2.{REGION}.amazonaws.com",
    "Authorization": f"AWS4-HMAC-SHA256 Credential=bench/20300101/{REGION}/ec2/aws4_request, "
    "SignedHeaders=host, Signature=0",
}


@asynccontextmanager
async def serving(ec2: Ec2) -> AsyncIterator[str]:
    """The address at which EC2 answers."""
    application = web.Application()
    application.router.add_post("/", ec2.handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Scenario:
    """One run with so many machines."""

    def __init__(self, world: worlds.World, ec2: Ec2, clock: Clock, result: Result) -> None:
        self._client, self._ec2, self._clock, self._result = world.client, ec2, clock, result
        self._informers = Informers(world.client)
        self._watcher = Watcher(self._informers, clock, MACHINE, _look)
        self._nodes = NodeMaker(world.client, self._informers)

    async def play(self) -> None:
        """Everything in order."""
        async with asyncio.TaskGroup() as group:
            await self._prepare()
            tasks = [group.create_task(each.run()) for each in (self._informers, self._nodes)]
            await self._informers.wait_synced(60)
            count, watcher = self._result.machines, self._watcher
            with self._counted("create"):
                await self._client.create(MACHINE_DEPLOYMENT, _deployment(count))
                await watcher.until(lambda: watcher.running == count, TIMEOUT_SECONDS, "create")
            with self._counted("at rest"):
                await self._clock.sleep(REST_SECONDS)
            with self._counted("delete"):
                await self._client.delete(MACHINE_DEPLOYMENT, NAME)
                await watcher.until(lambda: watcher.count == 0, TIMEOUT_SECONDS, "delete")
            self._result.left_behind = self._ec2.live
            for task in tasks:
                task.cancel()

    @contextmanager
    def _counted(self, phase: str) -> Iterator[None]:
        self._ec2.counts.clear()
        began = self._clock.monotonic()
        yield
        self._result.seconds[phase] = self._clock.monotonic() - began
        self._result.asked[phase] = Counter(self._ec2.counts)

    async def _prepare(self) -> None:
        await self._client.create(NAMESPACE, {"metadata": {"name": NAME.namespace}})
        meta = {"name": NAME.name, "namespace": NAME.namespace}
        await self._client.create(SECRET, {"metadata": meta, "stringData": KEYS})
        spec = self._ec2.provider_spec()
        made = {"metadata": meta, "provider": "AWS", "providerSpec": spec, "secretRef": meta}
        await self._client.create(MACHINE_CLASS, made)


async def measure(count: int, clock: Clock, keep: Callable[[Result], None]) -> None:
    """Fill a result, which is handed over first."""
    ec2, result = Ec2(), Result(count)
    keep(result)
    async with serving(ec2) as url:
        switches = ("--worlds", "machines", "--driver", "aws", "--driver-option", f"endpointUrl={url}")
        async with worlds.embedded(clock, *switches) as world:
            await Scenario(world, ec2, clock, result).play()


def show(result: Result, console: Console) -> None:
    """Print it."""
    table = Table(title=f"{result.machines} machines at AWS: requests of EC2 each", title_justify="left")
    for column in ("", *result.seconds):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("seconds", *(f"{each:.1f}" for each in result.seconds.values()))
    for operation in sorted({each for asked in result.asked.values() for each in asked}):
        counts = (asked[operation] / result.machines for asked in result.asked.values())
        table.add_row(operation, *(f"{each:.3f}" for each in counts))
    totals = (asked.total() / result.machines for asked in result.asked.values())
    table.add_row("all", *(f"{each:.3f}" for each in totals))
    console.print(table)
    console.print(f"instances left behind: {result.left_behind:g}")


def _deployment(count: int) -> Mapping[str, Any]:
    labels = {"pool": "bench"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"class": {"kind": "MachineClass", "name": NAME.name}},
    }
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": NAME.name, "namespace": NAME.namespace}, "spec": spec}


def _look(machine: Machine) -> tuple[str, str]:
    return machine.status.current_status.phase, machine.spec.machine_class.name
