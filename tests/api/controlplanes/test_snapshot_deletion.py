"""What the deletion of a snapshot waits for, in virtual time."""

from tests.api.controlplanes.kit import stage

from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_SNAPSHOT
from kubewright.wire.gvk import Key


async def test_an_object_goes_though_its_file_cannot_be_deleted():
    async with stage() as on:
        spec = {"controlPlaneName": "demo", "deletionPolicy": "Delete"}
        body = {
            "metadata": {"name": "first", "namespace": "default", "finalizers": [FINALIZER]},
            "spec": spec,
        }
        await on.client.create(CONTROL_PLANE_SNAPSHOT, body)
        await on.client.delete(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))

        async def told() -> bool:
            conditions = (await on.status(CONTROL_PLANE_SNAPSHOT, "first")).conditions
            return any("this program has no folder for snapshots" in each.message for each in conditions)

        await on.until(told)

        async def gone() -> bool:
            return await on.get(CONTROL_PLANE_SNAPSHOT, "first") is None

        await on.until(gone, 700)
