"""A snapshot of a control plane of real programs, in ``kubewright up``: taken from etcd, and put back."""

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


async def test_what_a_real_etcd_had_comes_back_and_what_was_written_since_is_gone(tmp_path):
    """Acceptance 11 of nested.md part E, with the programs of Kubernetes."""

    async def ready(client, kind, name):
        return (await client.get(kind, Key("default", name))).status.ready

    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, SystemClock())
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            inside = Client(from_secret(secret.data["value"]), SystemClock())
            before = await write(inside, "before")
            spec = {"controlPlaneName": "demo"}
            await client.create(CONTROL_PLANE_SNAPSHOT, {"metadata": named("first"), "spec": spec})
            await until(lambda: ready(client, CONTROL_PLANE_SNAPSHOT, "first"), SystemClock())
            status = (await client.get(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))).status
            content = (tmp_path / "snapshots" / status.file).read_bytes()
            assert (status.format, status.size, b"written-before" in content) == ("etcd", len(content), True)

            after = await write(inside, "after")
            await client.create(
                CONTROL_PLANE_RESTORE, {"metadata": named("back"), "spec": {"snapshotName": "first"}}
            )
            await until(lambda: ready(client, CONTROL_PLANE_RESTORE, "back"), SystemClock())
            names = {each.name for each in await inside.list(CONFIG_MAP, "default")}
            assert {each for each in names if each.startswith("written-")} == {"written-before"}
            found = await inside.get(CONFIG_MAP, Key("default", "written-before"))
            later = await write(inside, "later")
            assert found.metadata.resource_version == before
            assert int(later) > int(after)
            status = (await client.get(CONTROL_PLANE_RESTORE, Key("default", "back"))).status
            assert status.former_data in {str(each) for each in (tmp_path / "components").rglob("before-*")}
            await inside.close()
            await four.delete()
            await until(four.gone, SystemClock())


def named(name):
    return {"name": name, "namespace": "default"}


async def write(inside, word):
    """Create an object; answers its version."""
    made = await inside.create(CONFIG_MAP, {"metadata": named(f"written-{word}"), "data": {}})
    return made.metadata.resource_version
