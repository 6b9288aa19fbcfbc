"""A real etcd of a nested control plane becomes larger and smaller through its controller, and loses nothing."""

from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.conformance.etcd_clients import etcd_client, writing
from tests.conformance.hosts import cluster
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_hosting_pods import address_of, controllers, programs
from tests.conformance.test_nested_programs import processes, serving

from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import EVENT, SECRET
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.etcd import tls_of
from kubewright.controlplanes.members import Credentials
from kubewright.kube.client import Client
from kubewright.testing.kubelets.hosts import may_mount
from kubewright.testing.left_programs import nothing_left
from kubewright.testing.servers import real_api
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

CLOCK = SystemClock()
NAMESPACE = "default"


class Etcd:
    """The NestedEtcd of the example."""

    def __init__(self, client, namespace=NAMESPACE):
        self._client, self._namespace = client, namespace

    async def found(self):
        return await self._client.get(NESTED_ETCD, Key(self._namespace, "demo-etcd"))

    async def client_tls(self):
        """To be a client, as the API server is one."""
        authority, own = [
            (await self._client.get(SECRET, Key(self._namespace, name))).data
            for name in ("demo-etcd", "demo-apiserver-etcd-client")
        ]
        return tls_of(Credentials(authority["tls.crt"], own["tls.crt"], own["tls.key"]))

    async def become(self, replicas, subresource=""):
        """Ask for another number, and wait until the control plane has it."""
        await self.ask(replicas, subresource)
        await until(lambda: self.is_ready_with(replicas), CLOCK)

    async def ask(self, replicas, subresource=""):
        """Ask for another number."""
        body = {"spec": {"replicas": replicas}}
        key = Key(self._namespace, "demo-etcd")
        await self._client.patch(NESTED_ETCD, key, body, subresource=subresource)

    async def says(self, replicas, phase, told):
        """Ask for a number, and wait until the status says this of it."""
        await self.ask(replicas)

        async def said():
            status = (await self.found()).status
            return status.phase == phase and any(told in each.message for each in status.conditions)

        await until(said, CLOCK)

    async def is_ready_with(self, replicas):
        status = (await self.found()).status
        plane = await self._client.get(NESTED_CONTROL_PLANE, Key(self._namespace, "demo"))
        return status.phase == "Ready" and status.ready_replicas == replicas and plane.status.ready

    async def told(self):
        """What the controller did to the members, in order."""
        listed = await self._client.list(EVENT, self._namespace)
        events = [each for each in listed if each.reason == "MembersChanged"]
        return [each.message for each in sorted(events, key=lambda each: int(each.metadata.resource_version))]


async def urls_of(etcd):
    return [f"https://{each.ip}:{each.port}" for each in (await etcd.found()).status.addresses]


@asynccontextmanager
async def whole(folder, members=0):
    """The control plane of the example with real programs, ready; and a client of its etcd."""
    with nothing_left(folder / "components"):
        async with serving(folder) as client:
            four = FourObjects(client, NAMESPACE, "1.36", members=members)
            await four.create()
            await until(four.ready, CLOCK)
            etcd = Etcd(client)
            async with etcd_client(await urls_of(etcd), await etcd.client_tls()) as direct:
                yield client, etcd, direct
            await four.delete()
            await until(four.gone, CLOCK)
            assert processes(folder) == {}


def joined(number):
    name = f"demo-etcd-{number}"
    return [
        f"{name} became a member of etcd, without a vote until it has all data",
        f"{name} has all data, and a vote now",
    ]


def left(number):
    return [f"demo-etcd-{number} is no member of etcd any more"]


async def test_acceptance_10_one_three_one_while_a_client_writes(tmp_path):
    async with whole(tmp_path) as (client, etcd, direct), writing(direct):
        before = await client.get(SECRET, Key(NAMESPACE, "demo-etcd-server"))
        await etcd.become(3)
        assert await direct.members() == {"demo-etcd-0", "demo-etcd-1", "demo-etcd-2"}
        direct.urls = await urls_of(etcd)
        assert len(direct.urls) == 3
        await etcd.become(1, "scale")
        assert await direct.members() == {"demo-etcd-0"}
        assert await etcd.told() == [*joined(1), *joined(2), *left(2), *left(1)]
        assert (await client.get(SECRET, Key(NAMESPACE, "demo-etcd-server"))).data == before.data


async def test_three_from_the_start_five_asleep_and_awake_with_one(tmp_path):
    async with whole(tmp_path, members=3) as (_client, etcd, direct):
        async with writing(direct):
            assert (await etcd.found()).status.ready_replicas == 3
            await etcd.says(2, "Failed", "etcd needs an odd number of members")
            await etcd.become(5)
            assert len(await direct.members()) == 5
        written = await direct.keys()
        await etcd.says(0, "Sleeping", "it has no instance, as its spec says")
        await etcd.become(1)
        assert (await direct.members(), await direct.keys()) == ({"demo-etcd-0"}, written)
        told, grown = await etcd.told(), [*joined(3), *joined(4)]
        assert told[: len(grown)] == grown
        assert sorted(told[len(grown) :]) == [
            *left(1),
            *left(2),
            *left(3),
            *left(4),
        ]  # those that start last first


@pytest.mark.skipif(not may_mount(), reason="names of pods need a mount namespace, and that needs root")
async def test_one_three_one_in_pods_of_a_stateful_set_while_a_client_writes(tmp_path, real_kubernetes):
    async with (
        real_api(real_kubernetes) as api,
        cluster(
            partial(Client, api.transport, api.clock),
            tmp_path,
            manager=False,
            names=True,
            programs=programs(),
        ) as on,
        controllers(on, api),
    ):
        four, etcd = FourObjects(on.client, on.namespace, "1.36"), Etcd(on.client, on.namespace)
        await four.create()
        await until(four.ready, CLOCK)
        url, name = (
            f"https://{await address_of(on, 'demo-etcd-0')}:2379",
            f"demo-etcd.{on.namespace}.svc",
        )
        async with etcd_client([url], await etcd.client_tls(), name) as direct, writing(direct):
            await etcd.become(3)
            assert len(await direct.members()) == 3
            await etcd.become(1)
            assert await direct.members() == {"demo-etcd-0"}
            assert await etcd.told() == [*joined(1), *joined(2), *left(2), *left(1)]
        await four.delete()
        await until(four.gone, CLOCK)


async def test_another_process_goes_on_with_a_change_that_one_has_begun(tmp_path):
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            await FourObjects(client, NAMESPACE, "1.36").create()
            etcd = Etcd(client)
            await etcd.become(1)
            await etcd.says(3, "Scaling", "its members become 3")
        async with serving(tmp_path) as client:
            etcd, four = Etcd(client), FourObjects(client, NAMESPACE, "1.36")
            await etcd.become(3)
            async with etcd_client(await urls_of(etcd), await etcd.client_tls()) as direct:
                assert await direct.members() == {"demo-etcd-0", "demo-etcd-1", "demo-etcd-2"}
            await four.delete()
            await until(four.gone, CLOCK)
