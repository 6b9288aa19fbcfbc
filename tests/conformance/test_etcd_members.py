"""A real etcd grows from one member to three and shrinks again while a client writes; nothing is lost.

The host runs the instances, the decision says which change is next, and this test plays the controller.
"""

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from tests.conformance.etcd_clients import etcd_client, writing
from tests.conformance.programs import ETCD, Plane, hosted, identity

from kubewright.base.clock import SystemClock
from kubewright.controlplanes.etcd import Members, NoAnswer
from kubewright.controlplanes.members import (
    Access,
    Credentials,
    Endpoint,
    decide,
    initial_variables,
    replicas,
)
from kubewright.testing.left_programs import nothing_left

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(180)]

SECONDS = 60.0
SIZE = 3


class Cluster:
    """An etcd in a host, with the client of a controller."""

    def __init__(self, found, plane, tls):
        self.hosting, self.plane, self.tls = found.hosting, plane, tls
        authority, own = plane.contents["demo-etcd"], plane.contents["demo-apiserver-etcd-client"]
        certificates = authority["tls.crt"], own["tls.crt"], own["tls.key"]
        self.hosts = found.hosting.addresses(identity(ETCD), SIZE).hosts
        self.urls = [f"https://{host}:2379" for host in self.hosts]
        self.access = Access([Endpoint(url) for url in self.urls], Credentials(*certificates))

    def wanted(self, size):
        return {f"demo-etcd-{n}": f"https://{host}:2380" for n, host in enumerate(self.hosts[:size])}

    async def run(self, count, variables):
        workload = replace(self.plane.workload(ETCD), replicas=count, environment=variables)
        await self.hosting.apply(workload)

    async def become(self, size):
        """Play the controller until the etcd has this size."""
        changes = []
        async with (
            Members(self.access) as members,
            asyncio.timeout(SECONDS),
        ):
            while True:
                seen = await members.look(self.wanted(size))
                plan = decide(seen)
                if seen.members:
                    await self.run(replicas(seen), initial_variables(seen))
                    if not plan.steps and len(seen.voters) == size == len(seen.members):
                        return changes
                for step in plan.steps:
                    with suppress(NoAnswer):  # a learner that lacks more than it seemed: asked again
                        await members.perform(step)
                        changes.append(type(step).__name__)
                await SystemClock().sleep(0.1)


@asynccontextmanager
async def cluster(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock(), members=SIZE)
        tls = ssl.create_default_context(cadata=plane.contents["demo-etcd"]["tls.crt"].decode())
        plane.etcd_client.load_into(tls)
        yield found, Cluster(found, plane, tls)
        await found.hosting.remove(identity(ETCD), keep_data=False)
        await found.until(ETCD, lambda status: not status.exists)


async def test_one_three_one_while_a_client_writes(tmp_path):
    with nothing_left(tmp_path):
        async with cluster(tmp_path) as (found, etcd):
            alone = {
                "INITIAL_CLUSTER": f"demo-etcd-0={etcd.wanted(1)['demo-etcd-0']}",
                "INITIAL_CLUSTER_STATE": "new",
            }
            await etcd.run(1, alone)
            await found.until(ETCD, lambda status: bool(status.instances and status.instances[0].ready))
            async with etcd_client(etcd.urls, etcd.tls) as client, writing(client):
                assert await etcd.become(3) == ["AddLearner", "Promote"] * 2
                assert await etcd.become(1) == ["Remove"] * 2
                assert await etcd.become(3) == ["AddLearner", "Promote"] * 2
                await etcd.become(1)
            await found.until(ETCD, lambda status: len(status.instances) == 1)
