"""A cluster of real programs gets another version of Kubernetes: one program after another, and keeps all.

The earlier release is a real one where `make test-versions` has built it; else the programs of `make kube` play it:
copies that say that they are older.
"""

import asyncio
import os
from pathlib import Path

import pytest
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_nested_clusters import (
    NESTED,
    cluster_gone,
    create_cluster,
    inside,
    ready_nodes,
    reported,
)
from tests.conformance.test_nested_programs import Visitor, processes, serving
from tests.conformance.test_nested_storm import say

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.conditions import is_condition_true
from kubewright.api.controlplane.names import PlaneCondition
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import NAMESPACE, SECRET
from kubewright.base.clock import SystemClock, rfc3339_micro
from kubewright.controlplanes.wiring import templates
from kubewright.kube.config import from_secret
from kubewright.processes import record
from kubewright.testing.api import Api
from kubewright.testing.left_programs import nothing_left
from kubewright.testing.real_kubernetes import find
from kubewright.testing.real_kubernetes.binaries import kubewright_cache
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

CLOCK = SystemClock()
BEFORE, AFTER = (
    {each.package: each.version for each in templates().channels[name]} for name in ("1.35", "1.36")
)
EARLIER, NOW = BEFORE["apiserver"], AFTER["apiserver"]
PROGRAMS = {"etcd": "etcd", "kube-apiserver": "apiserver", "kube-controller-manager": "controller-manager"}


def earlier_release(folder: Path) -> Path:
    """A folder with the programs of the earlier release."""
    built = kubewright_cache() / "kube" / f"v{EARLIER}"
    if built.is_dir():
        return built
    if os.environ.get("KUBEWRIGHT_VERSIONS"):
        pytest.fail(f"there is no {built}; `make test-versions` builds it")
    folder.mkdir()
    found = find()
    for name, package in PROGRAMS.items():
        old, new = (each[package].encode() for each in (AFTER, BEFORE))
        content = (found.etcd.parent / name).read_bytes()
        assert old in content
        assert len(old) == len(new)
        (folder / name).write_bytes(content.replace(old, new))
        (folder / name).chmod(0o755)
    return folder


async def become(client, version):
    """Ask for a version, and wait until all components of the control plane are ready with it."""
    await client.patch(NESTED_CONTROL_PLANE, NESTED, {"spec": {"version": version}})
    await until(lambda: has(client, version), CLOCK)


async def has(client, version):
    status = (await client.get(NESTED_CONTROL_PLANE, NESTED)).status
    current = is_condition_true(status.conditions, PlaneCondition.UP_TO_DATE)
    return status.ready and current and status.version == f"v{version}"


def started(folder):
    """When each component was started last, with the path of its program."""
    programs = folder / "components" / "programs" / "default" / "nested"
    found = {each.name: record.read(each) for each in programs.glob("*-0")}
    return sorted((each.since, name.removesuffix("-0")) for name, each in found.items())


async def test_a_whole_cluster_gets_the_next_minor_version_in_order_and_keeps_its_data_and_workers(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KUBEWRIGHT_ASSETS", str(earlier_release(tmp_path / "earlier")))
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            await create_cluster(client, version=EARLIER)
            await until(lambda: ready_nodes(client), CLOCK)
            await until(lambda: has(client, EARLIER), CLOCK)
            async with inside(client) as api:
                note = {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "a"},
                    "data": {"a": "b"},
                }
                (await api.post("/api/v1/namespaces/default/configmaps", note)).ok()
            before, visitor = started(tmp_path), Visitor(client, "nested")
            visits, began = asyncio.create_task(visitor.run()), CLOCK.now()
            await become(client, NOW)
            seconds = (CLOCK.now() - began).total_seconds()
            say(f"upgraded within {seconds:.1f} s, {visitor.silent:.1f} s of them without an answer")
            visits.cancel()
            assert (visitor.refused, visitor.answered > 0) == ([], True)
            after = started(tmp_path)
            assert [name for _, name in after] == ["etcd", "apiserver", "controller-manager"]
            assert min(after) > max(before)
            async with inside(client) as api:
                assert (await api.get("/version")).ok()["gitVersion"] == f"v{NOW}"
                assert (await api.get("/api/v1/namespaces/default/configmaps/a")).ok()["data"] == note["data"]
            now = rfc3339_micro(CLOCK.now())
            await until(lambda: reported(client, now), CLOCK)
            assert await ready_nodes(client)
            await client.delete(CLUSTER, NESTED)
            await until(lambda: cluster_gone(client), CLOCK)
            assert processes(tmp_path) == {}


async def test_control_planes_of_two_releases_are_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBEWRIGHT_ASSETS", str(earlier_release(tmp_path / "earlier")))
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path, shared=True) as client:
            await client.create(NAMESPACE, {"metadata": {"name": "other"}})
            both = {
                "1.35": FourObjects(client, "default", "1.35"),
                "1.36": FourObjects(client, "other", "1.36"),
            }
            for four in both.values():
                await four.create()
            for four in both.values():
                await until(four.ready, CLOCK)
            found = [
                (await client.get(NESTED_CONTROL_PLANE, Key(namespace, "demo"))).status.version
                for namespace in ("default", "other")
            ]
            assert found == [f"v{EARLIER}", f"v{NOW}"]
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            transport = from_secret(secret.data["value"])
            said = (await Api(transport, CLOCK, "real").get("/version")).ok()
            assert said["gitVersion"] == f"v{EARLIER}"
            await transport.close()
            for four in both.values():
                await four.delete()
            for four in both.values():
                await until(four.gone, CLOCK)
