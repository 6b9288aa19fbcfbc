"""A control plane of real programs gets another version of Kubernetes: one program after another, and keeps all.

The earlier release is a real one where `make test-versions` has built it; else the programs of `make kube` play it:
copies that say that they are older.
"""

import os
from pathlib import Path

import pytest
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.programs import nothing_left
from tests.conformance.test_nested_programs import serving

from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import CONFIG_MAP, NAMESPACE, SECRET
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.world import templates
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.processes import record
from kubewright.testing.api import Api
from kubewright.testing.real_kubernetes import find
from kubewright.testing.real_kubernetes.binaries import kubewright_cache
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

CLOCK = SystemClock()
KEY = Key("default", "demo")
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
    """Ask for a version, and wait until the control plane is ready with it."""
    await client.patch(NESTED_CONTROL_PLANE, KEY, {"spec": {"version": version}})

    async def has():
        status = (await client.get(NESTED_CONTROL_PLANE, KEY)).status
        return status.ready and status.version == f"v{version}"

    await until(has, CLOCK)


async def administrator(client):
    """A client of the control plane itself."""
    secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
    return Client(from_secret(secret.data["value"]), CLOCK, name="administrator")


def started(folder):
    """When each component was started last, with the path of its program."""
    programs = folder / "components" / "programs" / "default" / "demo"
    found = {each.name: record.read(each) for each in programs.iterdir()}
    return sorted((each.since, name.removesuffix("-0")) for name, each in found.items())


async def test_a_whole_control_plane_gets_the_next_minor_version_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBEWRIGHT_ASSETS", str(earlier_release(tmp_path / "earlier")))
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", version=EARLIER)
            await four.create()
            await become(client, EARLIER)
            inside = await administrator(client)
            mine = {"metadata": {"name": "mine", "namespace": "default"}, "data": {"a": "b"}}
            await inside.create(CONFIG_MAP, mine)
            before = started(tmp_path)
            await become(client, NOW)
            assert (await inside.get(CONFIG_MAP, Key("default", "mine"))).data == {"a": "b"}
            after = started(tmp_path)
            assert [name for _, name in after] == ["etcd", "apiserver", "controller-manager"]
            assert min(after) > max(before)
            await inside.transport.close()
            await four.delete()
            await until(four.gone, CLOCK)


async def test_control_planes_of_two_releases_are_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBEWRIGHT_ASSETS", str(earlier_release(tmp_path / "earlier")))
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
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
