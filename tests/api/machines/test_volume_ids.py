"""Volumes without a VolumeAttachment: the driver names them (GetVolumeIDs), and pods wait until they are detached."""

from collections.abc import Sequence

import pytest

from kubewright.api.core import NODE, POD
from kubewright.api.storage import PV, PVC
from kubewright.driver.contract import VolumeSpec
from kubewright.driver.errors import Unimplemented
from kubewright.testing.stage import Borrowed, stage
from kubewright.testing.world import World, short_timeouts
from kubewright.wire.gvk import Key

IN_TREE = "kubernetes.io/aws-ebs/aws://eu-west-1a/"


class OfAws(Borrowed):
    """A driver that knows the volumes of one of Kubernetes' own plugins."""

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        return [each.spec["awsElasticBlockStore"]["volumeID"] for each in volumes]


class WithoutVolumes(Borrowed):
    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        raise Unimplemented("not offered")


async def with_database(world: World, name: str) -> None:
    """A pod of a controller on node m1, with a claim and its volume."""
    source = {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
    spec = {**source, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    await world.target.create(PV, {"metadata": {"name": f"pv-{name}"}, "spec": spec})
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    bound = {**wanted, "volumeName": f"pv-{name}"}
    claim = {"metadata": {"name": name, "namespace": "default"}, "spec": bound}
    await world.target.create(PVC, claim)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    await world.run_pod(name, "m1", volumes=volumes)


async def attached(world: World, *names: str) -> None:
    """The node says that these volumes are attached to it."""
    listed = [{"name": f"{IN_TREE}vol-{name}", "devicePath": "/dev/x"} for name in names]
    await world.target.patch(
        NODE, Key("", "m1"), {"status": {"volumesAttached": listed}}, subresource="status"
    )


async def begin_to_drain(world: World) -> None:
    """Machine m1 with two such pods, both volumes attached, is deleted."""
    await world.make("m1")
    await world.until(lambda seen: seen.phases == ["Running"], "it runs")
    for name in ("db-0", "db-1"):
        await with_database(world, name)
    await attached(world, "db-0", "db-1")
    await world.unmake("m1")


async def left(world: World) -> list[str]:
    """The pods that have not gone, five seconds later."""
    await world.clock.sleep(5)
    return sorted(each.name for each in await world.target.list(POD, "default"))


async def test_a_pod_waits_for_a_volume_that_only_the_driver_can_name() -> None:
    async with stage(short_timeouts(detach_timeout=600)) as here, here.process(OfAws(here.cloud)):
        world = here.world
        await begin_to_drain(world)
        assert await left(world) == ["db-1"]
        await world.clock.sleep(60)
        assert await left(world) == ["db-1"]
        assert "pv-db-0 of default/db-0" in (await world.machine("m1")).status.last_operation.description
        await attached(world, "db-1")
        assert await left(world) == []
        assert (await world.look()).vms == 1
        await attached(world)
        await world.until(lambda seen: not seen.machines, "it is deleted")


@pytest.mark.parametrize(
    "driver", [WithoutVolumes, Borrowed], ids=["not offered", "volumes of another cloud"]
)
async def test_a_volume_that_the_driver_does_not_name_is_not_awaited(driver: type[Borrowed]) -> None:
    async with stage(short_timeouts(detach_timeout=600)) as here, here.process(driver(here.cloud)):
        world = here.world
        await begin_to_drain(world)
        await world.until(lambda seen: not seen.machines, "it is deleted", seconds=30)
