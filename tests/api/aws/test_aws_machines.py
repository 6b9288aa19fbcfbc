"""The controllers of machines on EC2: deployments are made, rolled and deleted, whatever is lost on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api.core import CRD, NAMESPACE, SECRET
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT
from kubewright.apiserver.server import ApiServer
from kubewright.base.clock import SystemClock
from kubewright.compose.on_kubernetes import run_with
from kubewright.compose.options import Election
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess, Nowhere
from kubewright.testing.world import running, short_timeouts
from kubewright.wire.gvk import Key

from .bench import SECRET as KEYS
from .bench import AwsBench, opened
from .ec2 import Fault, Place

pytestmark = pytest.mark.looptime(False)
NS = "ns"


class Machines:
    """A server with the controllers of machines and the aws driver."""

    def __init__(self, client: Client, bench: AwsBench) -> None:
        self.client, self.bench = client, bench

    async def make_class(self, name: str, **spec: Any) -> None:
        found = self.bench.class_of(**spec).machine_class
        secret = {"name": "workers", "namespace": NS}
        await self.client.create(
            MACHINE_CLASS,
            {
                "metadata": {"name": name, "namespace": NS},
                "provider": "AWS",
                "providerSpec": found.provider_spec,
                "secretRef": secret,
            },
        )

    async def deploy(self, replicas: int, machine_class: str) -> None:
        labels = {"app": "workers"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"class": {"kind": "MachineClass", "name": machine_class}},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.client.create(
            MACHINE_DEPLOYMENT, {"metadata": {"name": "workers", "namespace": NS}, "spec": spec}
        )

    async def until(self, true: Callable[[list[str], list[str]], bool]) -> None:
        """Until this is so of the machines' phases and of the types of the instances."""
        phases: list[str] = []
        said: list[str] = []
        try:
            async with asyncio.timeout(50):
                while True:
                    found = await self.client.list(MACHINE, NS)
                    phases = [each.status.current_status.phase for each in found]
                    said = [each.status.last_operation.description for each in found]
                    if true(phases, self.types):
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{phases}, {self.types}, {said}") from None

    async def class_told(self, name: str) -> list[str]:
        """What is told on a class, once something is."""
        async with asyncio.timeout(50):
            while True:
                for each in (await self.client.get(MACHINE_CLASS, Key(NS, name))).status.conditions:
                    return [each.type, each.status, each.reason, each.message]
                await asyncio.sleep(0.1)

    @property
    def types(self) -> list[str]:
        return [each.instance_type for each in self.bench.place.live(self.bench.cluster)]


@asynccontextmanager
async def machines(place: Place, **faults: list[Fault]) -> AsyncIterator[Machines]:
    seconds = (timedelta(seconds=each) for each in (3, 1, 1))
    period, confirmation, soon = seconds
    options = short_timeouts(confirm_absent=0.5)
    options = replace(
        options,
        machine=replace(options.machine, joins=False),
        orphans=OrphanSettings(period=period, confirmation=confirmation, soon=soon),
    )
    clock, election = SystemClock(), Election(enabled=False)
    async with opened(place, attempts="3") as bench:
        server = ApiServer(clock)
        await server.start()
        try:
            client = Client(InProcess(server.handle), clock, name="people")
            control = Client(InProcess(server.handle), clock, name="control")
            nowhere = Client(Nowhere(clock), clock, name="target")
            for crd in crds():
                await client.create(CRD, crd)
            await client.create(NAMESPACE, {"metadata": {"name": NS}})
            data: Mapping[str, str] = {key: value.decode() for key, value in KEYS.items()}
            secret = {"metadata": {"name": "workers", "namespace": NS}, "stringData": data}
            await client.create(SECRET, secret)
            bench.ec2.faults = dict(faults)

            async def serve(stop: asyncio.Event) -> None:
                await run_with(control, nowhere, bench.made, options, election=election, stop=stop)

            async with running(serve):
                yield Machines(client, bench)
        finally:
            await server.close()


async def test_a_deployment_is_made_rolled_and_deleted_with_answers_lost_on_the_way(place: Place) -> None:
    lost = {"RunInstances": [Fault.LOST, Fault.REPEATED], "TerminateInstances": [Fault.LOST, Fault.FAILED]}
    async with machines(place, **lost) as here:
        await here.make_class("small")
        await here.make_class("large", machineType="m5.xlarge")
        await here.deploy(3, "small")
        await here.until(lambda phases, types: phases == [Phase.AVAILABLE] * 3 and types == ["m5.large"] * 3)
        change = {"spec": {"template": {"spec": {"class": {"kind": "MachineClass", "name": "large"}}}}}
        await here.client.patch(MACHINE_DEPLOYMENT, Key(NS, "workers"), change)
        await here.until(lambda phases, types: phases == [Phase.AVAILABLE] * 3 and types == ["m5.xlarge"] * 3)
        await here.client.delete(MACHINE_DEPLOYMENT, Key(NS, "workers"), propagation="Foreground")
        for each in await here.client.list(MACHINE, NS):
            await here.client.delete(MACHINE, Key(NS, each.metadata.name))
        await here.until(lambda phases, types: not phases and not types)
        assert not any(here.bench.ec2.faults.values())


async def test_an_instance_that_no_machine_wants_is_collected_and_one_without_tags_is_not(
    place: Place,
) -> None:
    async with machines(place) as here:
        await here.make_class("small")
        await here.deploy(1, "small")
        await here.until(lambda phases, types: phases == [Phase.AVAILABLE] and len(types) == 1)
        by_hand = place.client.run_instances(ImageId=place.ami, MinCount=1, MaxCount=1)["Instances"][0][
            "InstanceId"
        ]
        await here.bench.another().create(here.bench.request("ghost"))
        assert len(here.types) == 2
        await here.until(lambda phases, types: phases == [Phase.AVAILABLE] and len(types) == 1)
        left = place.client.describe_instances(InstanceIds=[by_hand])["Reservations"][0]["Instances"][0]
        assert left["State"]["Name"] == "running"
        place.client.terminate_instances(InstanceIds=[by_hand])


async def test_a_class_that_cannot_be_is_told_on_the_class(place: Place) -> None:
    async with machines(place) as here:
        await here.make_class("wrong", machineType="m5.immense")
        *told, message = await here.class_told("wrong")
        assert told == ["Accepted", "False", "InvalidArgument"]
        assert "machineType: there is no m5.immense in eu-west-1" in message
