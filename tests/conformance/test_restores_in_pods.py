"""A real etcd in pods of a StatefulSet, restored by the real etcdutl, with its snapshot in a bucket."""

import os
import stat
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.api.controlplanes.buckets import KEY, buckets
from tests.conformance.etcd_clients import etcd_client
from tests.conformance.hosts import cluster
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_etcd_scaling import Etcd
from tests.conformance.test_hosting_pods import address_of, controllers, programs
from tests.conformance.test_snapshots_of_etcd import keys_of, put

import kubewright
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.core import POD
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.hosting.processes.binaries import Binaries, places
from kubewright.controlplanes.members import ETCDUTL, REVISION_GAP
from kubewright.kube.client import Client
from kubewright.testing.kubelets.hosts import may_mount
from kubewright.testing.servers import real_api
from kubewright.wire.gvk import Key

pytestmark = [
    pytest.mark.kube,
    pytest.mark.looptime(False),
    pytest.mark.timeout(300),
    pytest.mark.skipif(not may_mount(), reason="names of pods need a mount namespace, and that needs root"),
]
CLOCK = SystemClock()
IMAGE = "kubewright:of-this-test"
MEMBERS = 3


def this_program(folder: Path) -> str:
    """What the image of this program runs: the code under test."""
    path, source = folder / "kubewright", Path(kubewright.__file__).parents[1]
    lines = [f"#!{sys.executable}", "import sys", f"sys.path.insert(0, {str(source)!r})"]
    path.write_text("\n".join([*lines, "from kubewright.cli.app import main", "main()", ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def test_each_of_three_members_in_pods_has_what_the_snapshot_had(tmp_path, real_kubernetes):
    etcdutl = str(await Binaries(places(os.environ)).find(ETCDUTL, ""))
    async with (
        buckets() as bucket,
        real_api(real_kubernetes) as api,
        cluster(
            partial(Client, api.transport, api.clock),
            tmp_path,
            manager=False,
            names=True,
            programs={**programs(), ETCDUTL: etcdutl, IMAGE: this_program(tmp_path)},
        ) as on,
        controllers(on, api, restore_image=IMAGE),
    ):
        four, etcd = (
            FourObjects(on.client, on.namespace, "1.36", members=MEMBERS),
            Etcd(on.client, on.namespace),
        )
        await four.create()
        await until(four.ready, CLOCK)
        tls = await etcd.client_tls()

        async def urls():
            addresses = [await address_of(on, f"demo-etcd-{number}") for number in range(MEMBERS)]
            return [f"https://{each}:2379" for each in addresses]

        async def create(kind, name, spec):
            body = {"metadata": {"name": name, "namespace": on.namespace}, "spec": spec}
            await on.client.create(kind, body)

            async def ready():
                return (await on.client.get(kind, Key(on.namespace, name))).status.ready

            await until(ready, CLOCK)
            return (await on.client.get(kind, Key(on.namespace, name))).status

        async with etcd_client(await urls(), tls, f"demo-etcd.{on.namespace}.svc") as direct:
            seen = await put(direct, "early")
            keys = {"accessKeyId": KEY.encode(), "secretAccessKey": b"secret"}
            await on.put(on.namespace, "s3", keys)
            location = {"bucket": {"bucket": "kept", "endpoint": bucket.url, "secretName": "s3"}}
            spec = {"controlPlaneName": "demo", "location": location}
            await create(CONTROL_PLANE_SNAPSHOT, "first", spec)
            seen = max(seen, await put(direct, "late"))
            done = await create(CONTROL_PLANE_RESTORE, "back", {"snapshotName": "first"})
            assert done.former_data.endswith("in the volumes of demo-etcd")
            for url in await urls():
                direct.urls = [url]
                assert (await keys_of(direct), len(await direct.members())) == ({"early"}, MEMBERS)
            assert await put(direct, "later") > seen + REVISION_GAP / 2
        pods = [each.name for each in await on.client.list(POD, on.namespace)]
        assert [each for each in pods if each.endswith("-restore")] == []
        former = [each.parent.name.rpartition(".")[0] for each in (tmp_path / "node").rglob("before-*")]
        assert sorted(former) == [f"data-demo-etcd-{number}" for number in range(MEMBERS)]
        await four.delete()
        await until(four.gone, CLOCK)
