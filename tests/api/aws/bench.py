"""A corner of EC2 for a test: a cluster of its own, and the driver on it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import structs

from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest, Driver, MachineRequest, VolumeSpec, stub
from kubewright.providers.aws.driver import AwsDriver
from kubewright.providers.aws.ec2 import Deadlines
from kubewright.providers.aws.spec import parse_options
from kubewright.testing.driver_conformance import Tagged
from kubewright.testing.scenes import class_request

from .ec2 import REGION, Ec2, Place, kept, serving

SECRET = {
    "providerAccessKeyId": b"AKIAEXAMPLE000000000",
    "providerSecretAccessKey": b"hush",
    "userData": b"#!/bin/sh",
}
SPEED = 50.0


class QuickClock(SystemClock):
    """At the usual speed a day of it takes half an hour."""

    def __init__(self, speed: float = SPEED) -> None:
        super().__init__()
        self._speed = speed

    def monotonic(self) -> float:
        return super().monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


class AwsBench:
    """As ``driver_conformance.Bench``."""

    def __init__(self, place: Place, ec2: Ec2, **options: str) -> None:
        self.place, self.ec2 = place, ec2
        self.cluster = uuid.uuid4().hex[:12]
        self._options = parse_options({"endpointUrl": ec2.url, "attempts": "1", **options})
        self._drivers: list[AwsDriver] = []
        self.made = self.another()
        self.machine_class = self.tagged({})
        self.other_class = self.class_of(tags=self.tags_of_class(role="other"))
        self.broken_class: ClassRequest | None = self.class_of(machineTyp="m5.large")

    def tags_of_class(self, role: str = "node", **more: str) -> Mapping[str, str]:
        return {f"kubernetes.io/cluster/{self.cluster}": "1", f"kubernetes.io/role/{role}": "1", **more}

    def tagged(self, tags: Mapping[str, str], *, mandatory: bool = True) -> ClassRequest:
        return self.class_of(
            srcAndDstChecksEnabled=False, tags={**(self.tags_of_class() if mandatory else {}), **tags}
        )

    async def tags(self, provider_id: str) -> Tagged:
        return {each: dict(tags) for each in self._objects(provider_id) if (tags := kept().tags.get(each))}

    async def put_tag(self, provider_id: str, key: str, value: str) -> None:
        found = [{"Key": key, "Value": value}]
        self.place.client.create_tags(Resources=self._objects(provider_id), Tags=found)

    async def interrupt(self) -> bool:
        self.ec2.errors["DeleteTags"] = self.ec2.errors["CreateTags"] = [("InternalError", "an error", 500)]
        return True

    def _objects(self, provider_id: str) -> list[str]:
        """The ids of an instance, its interfaces and its volumes."""
        every = self.place.instances(self.cluster)
        (vm,) = [each for each in every if each["InstanceId"] == provider_id.rpartition("/")[2]]
        interfaces = [each["NetworkInterfaceId"] for each in vm["NetworkInterfaces"]]
        return [
            vm["InstanceId"],
            *interfaces,
            *(each["Ebs"]["VolumeId"] for each in vm["BlockDeviceMappings"]),
        ]

    def class_of(self, **spec: Any) -> ClassRequest:
        usual = {
            "ami": self.place.ami,
            "machineType": "m5.large",
            "region": REGION,
            "iam": {"name": "nodes"},
            "networkInterfaces": [{"subnetID": self.place.subnet, "securityGroupIDs": [self.place.group]}],
            "tags": self.tags_of_class(),
        }
        made = class_request("workers", provider="aws", **{**usual, **spec})
        return ClassRequest(made.machine_class, structs.replace(made.secret, data=dict(SECRET)))

    def request(
        self, name: str = "m1", of: ClassRequest | None = None, provider_id: str = "", **data: bytes
    ) -> MachineRequest:
        asked = (of or self.machine_class).of(stub(name, "ns", f"uid-of-{name}", provider_id=provider_id))
        secret = structs.replace(asked.secret, data={**asked.secret.data, **data})
        return MachineRequest(asked.machine, asked.machine_class, secret)

    def another(
        self, read_seconds: float = 10.0, speed: float = SPEED, call_seconds: float = 20.0
    ) -> AwsDriver:
        """The driver of another process."""
        deadlines = Deadlines(connect=5, read=read_seconds, call=call_seconds)
        self._drivers.append(AwsDriver(QuickClock(speed), self._options, deadlines))
        return self._drivers[-1]

    async def driver(self) -> Driver:
        return self.made

    async def restarted(self) -> AwsDriver:
        await self.made.close()
        self.made = self.another()
        return self.made

    def volumes(self) -> tuple[Sequence[VolumeSpec], Sequence[str]]:
        csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"}
        in_tree = {"volumeID": "aws://eu-west-1a/vol-00112233"}
        return (
            [
                VolumeSpec("pv1", {"csi": csi}),
                VolumeSpec("pv2", {"nfs": {}}),
                VolumeSpec("pv3", {"awsElasticBlockStore": in_tree}),
                VolumeSpec("pv4", {"csi": {**csi, "driver": "efs.csi.aws.com"}}),
            ],
            ["vol-0123456789abcdef0", "vol-00112233"],
        )

    @property
    def live(self) -> list[str]:
        """The ids of this cluster's instances, as EC2 itself has them."""
        return sorted(each.id for each in self.place.live(self.cluster))

    async def close(self) -> None:
        for each in self._drivers:
            await each.close()
        if self.live:
            self.place.client.terminate_instances(InstanceIds=self.live)
        self.place.forget(self.cluster)


@asynccontextmanager
async def opened(place: Place, **options: str) -> AsyncIterator[AwsBench]:
    """A bench whose VMs are gone in the end."""
    async with serving() as ec2:
        bench = AwsBench(place, ec2, **options)
        try:
            yield bench
        finally:
            await bench.close()
