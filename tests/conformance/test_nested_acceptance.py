"""Acceptance tests of control planes (E-01, E-06) with the programs of Kubernetes: the order of starts, and lost Secrets."""

import pytest
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_nested_programs import serving

from kubewright.api.core import EVENT, SECRET, Secret
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import SystemClock
from kubewright.kube.config import inline_access
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import is_signed_by
from kubewright.pki.keys import Algorithm
from kubewright.processes import record
from kubewright.testing.left_programs import nothing_left
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(180)]

CLOCK = SystemClock()
ETCD, SERVER, MANAGER = "etcd-0", "apiserver-0", "controller-manager-0"
AUTHORITY = Key("default", "demo-ca")


def started(folder):
    """When the process of each component has started, and its id."""
    programs = folder / "components" / "programs"
    found = {name: record.read(programs / name) for name in record.recorded(programs)}
    return {name.rpartition("/")[2]: (each.since, each.pid) for name, each in found.items()}


async def in_order(folder, *, backwards):
    """Create the four objects in one order; what becomes of them, after their programs have started in order."""
    with nothing_left(folder / "components"):
        async with serving(folder) as client:
            four = FourObjects(client, "default", "1.36")
            if backwards:
                four.reverse()
            await four.create()
            await until(four.ready, CLOCK)
            since = started(folder)
            assert since[ETCD] < since[SERVER] < since[MANAGER]
            statuses = [each.status for each in await four.there()]
            await four.delete()
            await until(four.gone, CLOCK)
    return {
        (type(each).__name__, each.ready, each.version, each.replicas, each.ready_replicas)
        for each in statuses
    }


async def replaced(client):
    """The components of which we have replaced an instance."""
    found = await client.list(EVENT, "default")
    return {each.involved_object.name for each in found if each.reason == "ReplacingInstance"}


async def test_acceptance_1_in_either_order_etcd_starts_first_and_the_controller_manager_last(tmp_path):
    forwards = await in_order(tmp_path / "forwards", backwards=False)
    assert await in_order(tmp_path / "backwards", backwards=True) == forwards
    assert len(forwards) == 4


async def test_acceptance_6_a_lost_leaf_restarts_its_consumers_alone_and_a_users_authority_stays(tmp_path):
    pair = new_cluster_authority(CLOCK.now(), Algorithm.EC, "my own")
    mine = Secret(
        metadata=ObjectMeta(name=AUTHORITY.name, namespace=AUTHORITY.namespace),
        type="kubernetes.io/tls",
        data={"tls.crt": pair.certificate, "tls.key": pair.key},
    )
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            kept = await client.create(SECRET, mine)
            await four.create()
            await until(four.ready, CLOCK)
            before = started(tmp_path)

            lost = Key("default", "demo-proxy-client")
            uid = (await client.get(SECRET, lost)).metadata.uid
            await client.delete(SECRET, lost)

            async def server_restarted():
                return started(tmp_path)[SERVER] != before[SERVER]

            await until(server_restarted, CLOCK)
            await until(four.ready, CLOCK)
            # A controller manager that is without its API server for ten seconds ends by itself.
            assert started(tmp_path)[ETCD] == before[ETCD]
            assert await replaced(client) == {"demo-apiserver"}
            assert (await client.get(SECRET, lost)).metadata.uid != uid

            kubeconfig = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            assert is_signed_by(inline_access(kubeconfig.data["value"]).certificate, pair.certificate)
            await four.delete()
            await until(four.gone, CLOCK)
            assert await client.get(SECRET, AUTHORITY) == kept
            assert kept.metadata.owner_references == ()
