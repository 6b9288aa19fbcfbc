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
from kubewright.api.core import CONFIG_MAP, SECRET
from kubewright.base.clock import SystemClock
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret
from kubewright.processes import record
from kubewright.testing.real_kubernetes import find
from kubewright.testing.real_kubernetes.binaries import kubewright_cache
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

CLOCK = SystemClock()
KEY = Key("default", "demo")
EARLIER, NOW = "1.35.4", "1.36.3"
RENAMED = {
    "etcd": (b"3.6.8", b"3.6.6"),
    "kube-apiserver": (b"v1.36.3", b"v1.35.4"),
    "kube-controller-manager": (b"v1.36.3", b"v1.35.4"),
}


def earlier_release(folder: Path) -> Path:
    """A folder with the programs of the earlier release."""
    built = kubewright_cache() / "kube" / f"v{EARLIER}"
    if built.is_dir():
        return built
    if os.environ.get("KUBEWRIGHT_VERSIONS"):
        pytest.fail(f"there is no {built}; `make test-versions` builds it")
    folder.mkdir()
    found = find()
    for name, (old, new) in RENAMED.items():
        content = (found.etcd.parent / name).read_bytes()
        assert old in content
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
