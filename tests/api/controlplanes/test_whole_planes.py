"""Whole control planes inside this process: from four objects to a kubeconfig that works, and back to nothing."""

import asyncio
from datetime import datetime, timedelta

import pytest
from tests.api.controlplanes.kit import NAMES, Stage, stage

from kubewright.api.cluster.manifests import crds as cluster_crds
from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane import manifests
from kubewright.api.controlplane.manifests import crds
from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.controlplane.v1alpha4 import (
    API_VERSION,
    CONTROL_PLANE_USER,
    INFRASTRUCTURE_GROUP,
    NESTED_API_SERVER,
    NESTED_CLUSTER,
    NESTED_CONTROL_PLANE,
    NESTED_ETCD,
    NestedControlPlane,
)
from kubewright.api.core import CRD, EVENT, SECRET
from kubewright.apiserver.server import ApiServer
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.plane.act import ControlPlanes
from kubewright.kube.client import Client
from kubewright.kube.config import inline_access
from kubewright.kube.informer import Change, Informers
from kubewright.kube.transport import InProcess
from kubewright.pki.facts import facts_of, is_signed_by
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import Faulty, Lose
from kubewright.testing.permissions import granted, missing, unused
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

COMPONENTS = ("etcd", "apiserver", "controllerManager")
AUTHORITIES = {"demo-ca", "demo-etcd", "demo-proxy"}
PAUSED = {"cluster.x-k8s.io/paused": ""}


async def create(on: Stage, *components: str, plane: str = "demo") -> None:
    await on.plane(*components, plane=plane)
    for each in components:
        await on.apply(NAMES[each], f"{plane}-{each.lower()}")


async def whole(on: Stage, name: str = "demo", *, ready: bool = True) -> None:
    """Wait until a control plane is ready, or is not."""

    async def so() -> bool:
        status = await on.status(NESTED_CONTROL_PLANE, name)
        return status is not None and status.ready is ready

    await on.until(so)


async def said(on: Stage, name: str = "demo") -> dict[str, str]:
    status = await on.status(NESTED_CONTROL_PLANE, name)
    return {each.type: each.status for each in status.conditions}


async def secrets(on: Stage) -> set[str]:
    return {each.name for each in await on.client.list(SECRET, "default")}


async def test_four_objects_become_a_control_plane_with_a_kubeconfig() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        found = await on.get(NESTED_CONTROL_PLANE, "demo")
        server = await on.get(NESTED_API_SERVER, "demo-apiserver")
        endpoint, status = found.spec.control_plane_endpoint, found.status
        assert endpoint == server.status.endpoint
        assert (status.initialized, status.external_managed_control_plane) == (True, True)
        assert (status.replicas, status.ready_replicas) == (1, 1)
        assert status.apiserver.service_cidr == "10.96.0.0/12"
        assert status.etcd.addresses == (await on.status(NESTED_ETCD, "demo-etcd")).addresses
        assert set((await said(on)).values()) == {"True"}
        access = inline_access((await on.get(SECRET, "demo-kubeconfig")).data["value"])
        authority = (await on.get(SECRET, "demo-ca")).data["tls.crt"]
        assert (access.server, access.ca) == (f"https://{endpoint}", authority)
        assert is_signed_by(access.certificate, authority)


async def test_every_component_belongs_to_it_and_so_do_the_secrets() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        plane = await on.get(NESTED_CONTROL_PLANE, "demo")
        owned = [await on.get(NAMES[each], f"demo-{each.lower()}") for each in COMPONENTS]
        owned += await on.client.list(SECRET, "default")
        assert {each.metadata.controller.uid for each in owned} == {plane.metadata.uid}
        assert {each.name for each in owned[3:]} == {
            *("demo-ca", "demo-etcd", "demo-proxy", "demo-sa", "demo-apiserver"),
            *("demo-kubeconfig", "demo-controller-manager-kubeconfig"),
        }


async def test_it_is_not_ready_while_a_component_sleeps_and_ready_again_after() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        for replicas, ready in ((0, False), (1, True)):
            body = {"spec": {"replicas": replicas}}
            await on.client.patch(NESTED_ETCD, Key("default", "demo-etcd"), body)
            await whole(on, ready=ready)
            conditions = await said(on)
            assert conditions["EtcdAvailable"] == str(ready)
            assert ("Sleeping" in conditions) is not ready
            assert (await on.status(NESTED_CONTROL_PLANE, "demo")).initialized


async def test_a_deleted_control_plane_leaves_what_is_a_users() -> None:
    async with stage() as on:
        mine = {"metadata": {"name": "demo-mine", "namespace": "default"}, "stringData": {"a": "b"}}
        await on.client.create(SECRET, mine)
        await create(on, *COMPONENTS)
        await whole(on)
        await on.client.delete(NESTED_CONTROL_PLANE, Key("default", "demo"))
        gone: list[str] = []

        async def all_gone() -> bool:
            for each in ("controllerManager", "apiserver", "etcd"):
                if each not in gone and await on.get(NAMES[each], f"demo-{each.lower()}") is None:
                    gone.append(each)
            return await on.get(NESTED_CONTROL_PLANE, "demo") is None

        await on.until(all_gone)
        assert gone == ["controllerManager", "apiserver", "etcd"]

        async def kept() -> bool:
            return await secrets(on) == {"demo-mine"}

        await on.until(kept)


async def test_a_component_belongs_to_one_control_plane() -> None:
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        await on.apply(NESTED_CONTROL_PLANE, "second", {"etcd": {"name": "demo-etcd"}})

        async def told() -> bool:
            status = await on.status(NESTED_CONTROL_PLANE, "second")
            return any(each.type == "ComponentConflict" for each in status.conditions)

        await on.until(told)
        assert not (await on.status(NESTED_CONTROL_PLANE, "second")).ready
        await on.client.delete(NESTED_CONTROL_PLANE, Key("default", "second"))

        async def gone() -> bool:
            return await on.get(NESTED_CONTROL_PLANE, "second") is None

        await on.until(gone)
        assert (await on.status(NESTED_CONTROL_PLANE, "demo")).ready


async def test_one_without_a_controller_manager_becomes_ready() -> None:
    """E-15."""
    async with stage() as on:
        await create(on, "etcd", "apiserver")
        await whole(on)
        assert "ControllerManagerAvailable" not in await said(on)


async def test_while_it_is_paused_only_that_is_written() -> None:
    """E-14."""
    async with stage() as on:
        names = {each: {"name": f"demo-{each.lower()}"} for each in COMPONENTS}
        await on.apply(NESTED_CONTROL_PLANE, "demo", names, annotations=PAUSED)
        for each in COMPONENTS:
            await on.apply(NAMES[each], f"demo-{each.lower()}")
        await on.clock.sleep(60)
        found = await on.get(NESTED_CONTROL_PLANE, "demo")
        assert (found.metadata.finalizers, await secrets(on)) == ((), set())
        assert await said(on) == {"Paused": "True"}
        assert (await on.get(NESTED_ETCD, "demo-etcd")).metadata.owner_references == ()
        on_again = {"metadata": {"annotations": None}}
        await on.client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), on_again)
        await whole(on)
        assert "Paused" not in await said(on)


async def test_while_it_comes_up_its_status_is_written_three_times_at_most() -> None:
    async with stage() as on:
        written: set[str] = set()

        def look(change: Change[NestedControlPlane]) -> None:
            before, after = change.before(), change.after()
            if after is not None and (before is None or before.status != after.status):
                written.add(after.metadata.resource_version)

        informers = Informers(on.client)
        informers.get(NESTED_CONTROL_PLANE).subscribe(look)
        running = asyncio.create_task(informers.run())
        await create(on, *COMPONENTS)
        await whole(on)
        await on.clock.sleep(20)
        running.cancel()
        assert len(written) - 1 <= 3, "the first one was made without a status"


async def test_while_its_cluster_is_paused_what_runs_goes_on_and_all_of_it_says_so() -> None:
    async with stage() as on:
        await on.apply(CLUSTER, "mine")
        uid = (await on.get(CLUSTER, "mine")).metadata.uid
        owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "mine", "uid": uid}
        names = {each: {"name": f"demo-{each.lower()}"} for each in COMPONENTS}
        await on.apply(NESTED_CONTROL_PLANE, "demo", names, ownerReferences=[{**owner, "controller": True}])
        for each in COMPONENTS:
            await on.apply(NAMES[each], f"demo-{each.lower()}")
        await whole(on)
        all_of_it = [
            (NESTED_CONTROL_PLANE, "demo"),
            *((NAMES[each], f"demo-{each.lower()}") for each in NAMES),
        ]

        async def paused() -> list[str]:
            found = [await on.status(kind, name) for kind, name in all_of_it]
            told = [{one.type: one.message for one in each.conditions} for each in found]
            return [each.get("Paused", "") for each in told]

        async def everywhere() -> bool:
            return await paused() == ["Cluster mine has spec.paused"] * 4

        async def nowhere() -> bool:
            return await paused() == [""] * 4

        async def versions() -> list[str]:
            found = [await on.get(kind, name) for kind, name in all_of_it]
            return [each.metadata.resource_version for each in found]

        await on.client.patch(CLUSTER, Key("default", "mine"), {"spec": {"paused": True}})
        await on.until(everywhere, 5)
        asleep = {"spec": {"asleep": True}}
        await on.client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), asleep)
        before = await versions()
        await on.clock.sleep(300)
        assert await versions() == before
        assert (await on.status(NESTED_CONTROL_PLANE, "demo")).ready
        await on.client.patch(CLUSTER, Key("default", "mine"), {"spec": {"paused": False}})
        await whole(on, ready=False)
        await on.until(nowhere, 60)


async def test_a_users_kubeconfig_without_a_label_counts() -> None:
    async with stage() as on:
        mine = {"metadata": {"name": "demo-kubeconfig", "namespace": "default"}, "stringData": {"value": "x"}}
        await on.client.create(SECRET, mine)
        await on.apply(NESTED_CONTROL_PLANE, "demo", {"etcd": {"name": "demo-etcd"}})
        await on.until(lambda: _has_conditions(on))
        assert (await said(on))["KubeconfigAvailable"] == "True"
        await on.client.delete(SECRET, Key("default", "demo-kubeconfig"))
        await on.apply(NESTED_ETCD, "demo-etcd")
        await whole(on)
        assert (await said(on))["KubeconfigAvailable"] == "False"


async def _has_conditions(on: Stage) -> bool:
    return bool((await on.status(NESTED_CONTROL_PLANE, "demo")).conditions)


@pytest.mark.parametrize("name", ["demo-apiserver", "demo-kubeconfig"])
async def test_a_secret_that_is_deleted_comes_back_alone(name: str) -> None:
    """E-06, with what runs."""
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        before = {each.name: each.metadata.uid for each in await on.client.list(SECRET, "default")}
        await on.client.delete(SECRET, Key("default", name))

        async def back() -> bool:
            return await on.get(SECRET, name) is not None

        await on.until(back)
        await whole(on)
        after = {each.name: each.metadata.uid for each in await on.client.list(SECRET, "default")}
        assert {each for each in after if after[each] != before[each]} == {name}


async def test_after_most_of_a_year_all_is_renewed_by_one_replacement_of_each_and_nothing_has_ended(
    monkeypatch,
) -> None:
    """E-07, with what runs."""
    async with stage() as on:
        await create(on, *COMPONENTS)
        await whole(on)
        known, now = await ends(on), on.clock.now
        later = now() + timedelta(days=300)
        assert {each for each in known.values() if each < later} == set()
        monkeypatch.setattr(on.clock, "now", lambda: now() + timedelta(days=300))
        looked_at = {"metadata": {"annotations": {"example.com/look": "now"}}}
        for each in COMPONENTS:
            await on.client.patch(NAMES[each], Key("default", f"demo-{each.lower()}"), looked_at)
        await on.clock.sleep(30)
        renewed = await ends(on)
        assert {name for name in known if renewed[name] == known[name]} == AUTHORITIES
        assert min(end for name, end in renewed.items() if name not in AUTHORITIES) > later + timedelta(
            days=364
        )
        # Inside of this process an etcd has no certificates, so it goes on.
        assert await replaced(on) == {"demo-apiserver": 1, "demo-controllermanager": 1}
        assert (await on.status(NESTED_CONTROL_PLANE, "demo")).ready


async def ends(on: Stage) -> dict[str, datetime]:
    """When each certificate expires, by the name of its Secret; of a kubeconfig, that of its client."""
    found = {}
    for each in await on.client.list(SECRET, "default"):
        certificate = each.data.get("tls.crt", b"")
        if "value" in each.data:
            certificate = inline_access(each.data["value"]).certificate
        if b"CERTIFICATE" in certificate:
            found[each.name] = facts_of(certificate).not_after
    return found


async def replaced(on: Stage) -> dict[str, int]:
    """How often an instance was replaced, by the name of its component."""
    found = [each for each in await on.client.list(EVENT, "default") if each.reason == "ReplacingInstance"]
    return {each.involved_object.name: each.count for each in found}


CONTROL_PLANE = {"apiVersion": API_VERSION, "kind": "NestedControlPlane", "name": "demo"}
INFRASTRUCTURE = {"apiVersion": f"{INFRASTRUCTURE_GROUP}/v1alpha4", "kind": "NestedCluster", "name": "mine"}


@pytest.mark.parametrize("first", [True, False], ids=["the Cluster first", "the Cluster when all runs"])
async def test_a_cluster_takes_over_its_control_plane_and_infrastructure(*, first: bool) -> None:
    """The core's controller of Clusters beside ours: endpoint, readiness and names; and back to nothing."""
    refs = {"controlPlaneRef": CONTROL_PLANE, "infrastructureRef": INFRASTRUCTURE}
    async with stage(clusters=True) as on:
        if first:
            await on.apply(CLUSTER, "mine", refs)
        await on.apply(NESTED_CLUSTER, "mine")
        await create(on, *COMPONENTS)
        if not first:
            await whole(on)
            await on.apply(CLUSTER, "mine", refs)

        async def provisioned() -> bool:
            found = await on.get(CLUSTER, "mine")
            ready = await on.status(NESTED_CONTROL_PLANE, "demo")
            return found.status.control_plane_ready and found.status.infrastructure_ready and ready.ready

        await on.until(provisioned)
        await on.clock.sleep(20)
        assert await provisioned()
        cluster, plane = await on.get(CLUSTER, "mine"), await on.get(NESTED_CONTROL_PLANE, "demo")
        assert cluster.spec.control_plane_endpoint == plane.spec.control_plane_endpoint
        assert {"mine-ca", "mine-kubeconfig"} <= await secrets(on)
        if not first:
            for purpose in ("ca", "etcd", "proxy", "sa"):
                old, new = await on.get(SECRET, f"demo-{purpose}"), await on.get(SECRET, f"mine-{purpose}")
                assert old.data == new.data
        await on.client.delete(CLUSTER, Key("default", "mine"))

        async def gone() -> bool:
            kinds = (CLUSTER, NESTED_CONTROL_PLANE, NESTED_CLUSTER, *NAMES.values())
            return not [each for kind in kinds for each in await on.client.list(kind, "default")]

        await on.until(gone)


async def test_the_infrastructure_of_its_cluster_is_ready_when_it_is_both_ways() -> None:
    async with stage() as on:
        await on.apply(
            CLUSTER,
            "mine",
            {
                "paused": True,
                "controlPlaneRef": {"apiVersion": API_VERSION, "kind": "NestedControlPlane", "name": "demo"},
            },
        )
        cluster = await on.get(CLUSTER, "mine")
        owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "mine"}
        owned = {"ownerReferences": [{**owner, "uid": cluster.metadata.uid, "controller": True}]}
        await on.apply(NESTED_CLUSTER, "mine", **owned)
        names = {each: {"name": f"demo-{each.lower()}"} for each in COMPONENTS}
        await on.apply(NESTED_CONTROL_PLANE, "demo", names, **owned)
        for each in COMPONENTS:
            await on.apply(NAMES[each], f"demo-{each.lower()}")

        async def infrastructure(*, ready: bool) -> None:
            async def so() -> bool:
                return (await on.status(NESTED_CLUSTER, "mine")).ready is ready

            await on.until(so)

        await on.clock.sleep(10)
        (paused,) = (await on.status(NESTED_CLUSTER, "mine")).conditions
        assert (paused.type, paused.message) == ("Paused", "Cluster mine has spec.paused")
        await on.client.patch(CLUSTER, Key("default", "mine"), {"spec": {"paused": False}})
        await infrastructure(ready=True)
        found = await on.get(NESTED_CLUSTER, "mine")
        plane = await on.get(NESTED_CONTROL_PLANE, "demo")
        assert found.spec.control_plane_endpoint == plane.spec.control_plane_endpoint
        assert "mine-kubeconfig" in await secrets(on)
        await on.client.patch(NESTED_ETCD, Key("default", "demo-etcd"), {"spec": {"replicas": 0}})
        await infrastructure(ready=False)


async def test_a_component_that_no_cache_shows_is_deleted_before_the_control_plane_goes() -> None:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    user = Client(InProcess(server.handle), clock)
    for crd in (*cluster_crds(), *crds()):
        await user.create(CRD, crd)
    names = {"etcd": {"name": "demo-etcd"}}
    plane = await user.create(
        NESTED_CONTROL_PLANE,
        {"metadata": {"name": "demo", "namespace": "default", "finalizers": [FINALIZER]}, "spec": names},
    )
    owner = {"apiVersion": API_VERSION, "kind": "NestedControlPlane", "name": "demo", "controller": True}
    owned = {"ownerReferences": [{**owner, "uid": plane.metadata.uid}]}
    await user.create(NESTED_ETCD, {"metadata": {"name": "demo-etcd", "namespace": "default", **owned}})
    await user.delete(NESTED_CONTROL_PLANE, Key("default", "demo"))

    def no_list(request: Request) -> Lose | None:
        return Lose() if request.path == NESTED_ETCD.resource.path() else None

    client = Client(Faulty(InProcess(server.handle), clock, no_list), clock)
    informers = Informers(client)
    recorder = Recorder(client, clock, "kubewright", kinds=[NESTED_CONTROL_PLANE])
    session = Session(client, informers)
    environment = Environment(session, Fixed(session), lambda: True, recorder, clock, Metrics())
    planes = ControlPlanes(environment, Caches(informers))
    running = asyncio.create_task(informers.run())
    await clock.sleep(2)
    left = []
    for _ in range(2):
        await planes.reconcile(Key("default", "demo"))
        await clock.sleep(1)
        left.append(
            {each.name for kind in (NESTED_ETCD, NESTED_CONTROL_PLANE) for each in await user.list(kind)}
        )
    assert left == [{"demo"}, set()]
    running.cancel()
    await server.close()


NOT_ASKED_FOR = ("pods", "statefulsets", "services", "persistentvolumeclaims", "leases")
"""What only a host in pods needs, whose own test is test_pods_host.py, and what a manager does."""
OF_SNAPSHOTS = ("controlplanesnapshot", "controlplanerestore")
"""What these begin with has a test of its own, in test_snapshots.py."""
IDLE = {
    "patch nestedclusters.infrastructure.cluster.x-k8s.io",
    *(f"create {each}.controlplane.cluster.x-k8s.io" for each in manifests.COMPONENTS),
}
"""For what this life of a control plane does not have: a Cluster, whose infrastructure gets an endpoint; and a
template, whose test is in test_templated.py."""


async def test_the_role_of_the_controllers_allows_all_that_they_ask_for_and_little_else() -> None:
    async with stage() as on:
        await on.apply(NESTED_CLUSTER, "demo")
        await create(on, *COMPONENTS)
        await on.apply(CONTROL_PLANE_USER, "alice", {"controlPlaneName": "demo", "groups": ["developers"]})
        await whole(on)
        leaf = Key("default", "demo-controller-manager-kubeconfig")
        await on.client.patch(SECRET, leaf, {"data": {"value": ""}})
        await on.clock.sleep(1)
        await on.client.delete(NESTED_CONTROL_PLANE, Key("default", "demo"))

        async def gone() -> bool:
            return await on.get(NESTED_CONTROL_PLANE, "demo") is None

        await on.until(gone)
        grants = [each for each in granted(manifests.manifest()) if each.resource not in NOT_ASKED_FOR]
        assert missing(on.log.needs, grants) == []
        asked = [each for each in grants if not each.resource.startswith(OF_SNAPSHOTS)]
        writes = [each for each in asked if each.verb not in ("get", "list", "watch")]
        idle = {str(each) for each in unused(on.log.needs, writes) if "/finalizers" not in each.resource}
        assert idle == IDLE  # finalizers are asked of by admission, not by us
