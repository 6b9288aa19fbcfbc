"""A snapshot of a control plane of real programs, in ``kubewright up``: taken from etcd, and put back."""

import base64

import pytest
from tests.conformance.etcd_clients import encoded
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_etcd_scaling import left, urls_of, whole
from tests.conformance.test_nested_programs import serving

from kubewright.api.controlplane.names import KEEP_DATA_ANNOTATION
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.controlplane.v1alpha4 import NESTED_ETCD
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.members import REVISION_GAP
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.testing.left_programs import nothing_left
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(240)]
CLOCK = SystemClock()


async def test_what_a_real_etcd_had_comes_back_and_what_was_written_since_is_gone(tmp_path):
    """E-11, with the programs of Kubernetes."""

    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, CLOCK)
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            inside = Client(from_secret(secret.data["value"]), CLOCK)
            before = await write(inside, "before")
            spec = {"controlPlaneName": "demo"}
            await client.create(CONTROL_PLANE_SNAPSHOT, {"metadata": named("first"), "spec": spec})
            await until(lambda: is_ready(client, CONTROL_PLANE_SNAPSHOT, "first"), CLOCK)
            status = (await client.get(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))).status
            content = (tmp_path / "snapshots" / status.file).read_bytes()
            assert (status.format, status.size, b"written-before" in content) == ("etcd", len(content), True)

            after = await write(inside, "after")
            await client.create(
                CONTROL_PLANE_RESTORE, {"metadata": named("back"), "spec": {"snapshotName": "first"}}
            )
            await until(lambda: is_ready(client, CONTROL_PLANE_RESTORE, "back"), CLOCK)
            names = {each.name for each in await inside.list(CONFIG_MAP, "default")}
            assert {each for each in names if each.startswith("written-")} == {"written-before"}
            found = await inside.get(CONFIG_MAP, Key("default", "written-before"))
            later = await write(inside, "later")
            assert found.metadata.resource_version == before
            assert int(later) > int(after)
            status = (await client.get(CONTROL_PLANE_RESTORE, Key("default", "back"))).status
            assert (tmp_path / status.former_data).name.startswith("before-")
            assert (tmp_path / status.former_data).is_dir()
            await inside.close()
            await four.delete()
            await until(four.gone, CLOCK)


async def test_each_of_three_members_has_what_the_snapshot_had_and_versions_go_on(tmp_path):
    async with whole(tmp_path, members=3) as (client, etcd, direct):
        urls = await urls_of(etcd)
        seen = await put(direct, "early")
        await client.create(
            CONTROL_PLANE_SNAPSHOT, {"metadata": named("first"), "spec": {"controlPlaneName": "demo"}}
        )
        await until(lambda: is_ready(client, CONTROL_PLANE_SNAPSHOT, "first"), CLOCK)
        file = (await client.get(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))).status.file
        await client.delete(CONTROL_PLANE_SNAPSHOT, Key("default", "first"))
        seen = max(seen, await put(direct, "late"))

        spec = {"controlPlaneName": "demo", "file": {"name": file}}
        await client.create(CONTROL_PLANE_RESTORE, {"metadata": named("back"), "spec": spec})
        await until(lambda: is_ready(client, CONTROL_PLANE_RESTORE, "back"), CLOCK)
        assert await urls_of(etcd) == urls
        for url in urls:
            direct.urls = [url]
            assert (await keys_of(direct), len(await direct.members())) == ({"early"}, 3)
        assert await put(direct, "later") > seen + REVISION_GAP / 2
        former = [each.parent.parent.name for each in (tmp_path / "components").rglob("before-*")]
        assert sorted(former) == ["etcd-0", "etcd-1", "etcd-2"]


async def test_an_etcd_that_is_made_anew_with_fewer_members_starts_with_those_whose_data_was_kept(tmp_path):
    async with whole(tmp_path, members=3) as (client, etcd, direct):
        await put(direct, "early")
        key = Key("default", "demo-etcd")
        body = await client.get(NESTED_ETCD, key)
        marks = {"metadata": {"annotations": {KEEP_DATA_ANNOTATION: "true"}}}
        await client.patch(NESTED_ETCD, key, marks)
        await client.delete(NESTED_ETCD, key)

        async def is_gone():
            return await found(client, NESTED_ETCD, key) is None

        await until(is_gone, CLOCK)
        spec = {**NESTED_ETCD.to_plain(body)["spec"], "replicas": 1}
        await client.create(NESTED_ETCD, {"metadata": named("demo-etcd"), "spec": spec})
        await until(lambda: etcd.is_ready_with(1), CLOCK)
        assert (await keys_of(direct), await direct.members()) == ({"early"}, {"demo-etcd-0"})
        assert await etcd.told() == [*left(2), *left(1)]


async def put(direct, name):
    """Write a key of our own; answers the revision after it."""
    answer = await direct.call("/v3/kv/put", {"key": encoded(f"ours/{name}"), "value": encoded("v")})
    return int(answer["header"]["revision"])


async def keys_of(direct):
    """The keys of our own that a member has itself, without asking the others."""
    body = {"key": encoded("ours/"), "range_end": encoded("ours0"), "keys_only": True, "serializable": True}
    answer = await direct.call("/v3/kv/range", body)
    return {base64.b64decode(each["key"]).decode().removeprefix("ours/") for each in answer.get("kvs", ())}


async def is_ready(client, kind, name):
    return (await client.get(kind, Key("default", name))).status.ready


async def found(client, kind, key):
    try:
        return await client.get(kind, key)
    except NotFound:
        return None


def named(name):
    return {"name": name, "namespace": "default"}


async def write(inside, word):
    """Create an object; answers its version."""
    made = await inside.create(CONFIG_MAP, {"metadata": named(f"written-{word}"), "data": {}})
    return made.metadata.resource_version
