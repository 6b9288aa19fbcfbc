"""Real programs in pods: a control plane from our own templates, in the host alone.

No controller takes part: the test makes the certificates and applies the three workloads in order. The programs
run as a kubelet's double starts them, and find each other by the names that pods and Services have.
"""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.conformance.hosts import Cluster, cluster
from tests.conformance.nested_planes import ETCD, MANAGER, SERVER, Plane

from kubewright.api.core import CONFIG_MAP, POD
from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.hosting.contract import Running
from kubewright.kube.client import Client
from kubewright.testing.kubelets.hosts import may_mount
from kubewright.testing.real_kubernetes import find
from kubewright.testing.servers import embedded_api
from kubewright.wire.gvk import Key

pytestmark = [
    pytest.mark.kube,
    pytest.mark.looptime(False),
    pytest.mark.timeout(180),
    pytest.mark.skipif(not may_mount(), reason="names of pods need a mount namespace, and that needs root"),
]
READY_SECONDS = 90.0


def programs() -> dict[str, str]:
    """The real programs, by the names that templates give them."""
    found = find()
    paths = {
        "etcd": found.etcd,
        "kube-apiserver": found.apiserver,
        "kube-controller-manager": found.controller_manager,
    }
    return {name: str(path) for name, path in paths.items()}


async def address_of(on: Cluster, name: str) -> str:
    pod = await on.client.get(dynamic(POD.resource), Key(on.namespace, name))
    return str(pod["status"]["podIP"])


async def test_a_control_plane_starts_in_order_works_and_stops_in_order(tmp_path: Path) -> None:
    async with (
        embedded_api() as api,
        cluster(
            partial(Client, api.transport, api.clock), tmp_path, manager=True, names=True, programs=programs()
        ) as on,
        on.open() as hosting,
    ):
        places = {each: await on.place(CONFIG_MAP, f"my-{each}", each) for each in (ETCD, SERVER, MANAGER)}
        plane, told = Plane(hosting, SystemClock(), places.__getitem__), asyncio.Event()
        hosting.listen(lambda _key: told.set())
        for name, contents in plane.contents.items():
            await on.put(on.namespace, name, contents)

        async def until(component, says):
            async with asyncio.timeout(READY_SECONDS):
                while not says(found := hosting.status(places[component])):
                    told.clear()
                    await told.wait()
            return found

        for component in (ETCD, SERVER, MANAGER):
            workload = plane.workload(component)
            assert hosting.problem_of(workload) == ""
            await hosting.apply(workload)
            found = await until(component, lambda status: status.instances and status.instances[0].ready)
            assert found.instances[0].restarts == 0

        async with plane.api(await address_of(on, "demo-apiserver-0")) as inside:

            async def account():
                answer = await inside.get("/api/v1/namespaces/default/serviceaccounts/default")
                return answer.code == 200

            await inside.eventually(account, "the controller manager works", seconds=60)

        for component in (MANAGER, SERVER, ETCD):
            await hosting.remove(places[component], keep_data=False)
            await until(component, lambda status: status == Running())
