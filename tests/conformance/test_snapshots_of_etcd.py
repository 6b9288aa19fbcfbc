"""A snapshot of a control plane of real programs, in ``kubewright up``: what etcd streams is a whole database."""

import pytest
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.programs import nothing_left
from tests.conformance.test_nested_programs import serving

from kubewright.api.controlplane.v1alpha4 import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.base.clock import SystemClock
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(180)]


async def test_the_file_has_what_was_written_and_a_restore_that_cannot_be_stops_nothing(tmp_path):
    async def taken(client):
        return (await client.get(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))).status.ready

    async def told(client):
        found = await client.get(CONTROL_PLANE_RESTORE, Key("default", "back"))
        return any("cannot be replaced where it runs" in each.message for each in found.status.conditions)

    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, SystemClock())
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            inside = Client(from_secret(secret.data["value"]), SystemClock())
            meta = {"name": "mine", "namespace": "default"}
            await inside.create(CONFIG_MAP, {"metadata": meta, "data": {"a": "written-before"}})
            await inside.close()

            for kind, name, spec in (
                (CONTROL_PLANE_SNAPSHOT, "first", {"controlPlaneName": "demo"}),
                (CONTROL_PLANE_RESTORE, "back", {"snapshotName": "first"}),
            ):
                await client.create(kind, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            await until(lambda: taken(client), SystemClock())
            status = (await client.get(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))).status
            content = (tmp_path / "snapshots" / status.file).read_bytes()
            assert (status.format, status.size, b"written-before" in content) == ("etcd", len(content), True)
            await until(lambda: told(client), SystemClock())
            assert await four.ready()
            await four.delete()
            await until(four.gone, SystemClock())
