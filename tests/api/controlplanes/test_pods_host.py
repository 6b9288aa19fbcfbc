"""Components in pods on a server: what is asked of it, and what is left alone. Nothing runs the pods here."""

import asyncio
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from kubewright.api.controlplane import manifests as rights
from kubewright.api.controlplane.names import Component
from kubewright.api.core import CONFIG_MAP, POD
from kubewright.api.kinds import dynamic
from kubewright.api.meta import OwnerReference
from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.controlplanes.hosting.contract import Replacement, Running, Workload, WorkloadIdentity
from kubewright.controlplanes.hosting.member_data import NotReplaced
from kubewright.controlplanes.hosting.pods.host import Obstructed, PodHosting, Unseen
from kubewright.controlplanes.hosting.pods.objects import CLAIM, SERVICE, WORKLOAD, labels
from kubewright.controlplanes.members import Credentials
from kubewright.controlplanes.templates.render import Rendered
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.pki.certificates import new_authority, new_client
from kubewright.testing.kubelets.statefulsets import StatefulSets
from kubewright.testing.permissions import PermissionLog, granted, missing, unused
from kubewright.testing.servers import embedded_api
from kubewright.testing.world import running
from kubewright.wire.gvk import Key
from kubewright.wire.http import User

NAME = Key("default", "demo-etcd")
POD_JSON = dynamic(POD.resource)
RULED = ("statefulsets", "services", "pods", "persistentvolumeclaims")


def manifests(storage="1Gi"):
    selected = {"component-name": "mine"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    container = {
        "name": "etcd",
        "image": "etcd:v3",
        "args": ["--cert-file=a", "--key-file=b", "--trusted-ca-file=c"],
        "resources": {"limits": {"memory": "1024Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/etcd"}],
    }
    spec = {
        "serviceName": "demo-etcd",
        "selector": {"matchLabels": selected},
        "template": {"metadata": {"labels": selected}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    metadata = {"name": "demo-etcd", "namespace": "default"}
    service = {"clusterIP": "None", "selector": selected}
    return [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
    ]


class Stage:
    """A host on a server, a client of a user, and a component whose object is a ConfigMap."""

    def __init__(self, client, hosting, identity, log):
        self.client, self.hosting, self.identity, self.log = client, hosting, identity, log

    def workload(self, replicas=1, storage="1Gi", **changes):
        return replace(Workload(self.identity, "3.6.8", Rendered(manifests(storage)), replicas), **changes)

    async def pod(self, so):
        """The first pod, once it is so."""
        async with asyncio.timeout(20):
            while True:
                pods = await self.client.list(POD_JSON, "default")
                if pods and so(pods[0]):
                    return pods[0]
                await self.client.clock.sleep(0.05)


@asynccontextmanager
async def stage(*, pods=False):
    """``pods``: with a controller of StatefulSets, which makes them."""
    async with embedded_api() as api:
        client, log = Client(api.transport, api.clock), PermissionLog(api.transport)
        owner = await client.create(CONFIG_MAP, {"metadata": {"name": "mine"}}, namespace="default")
        reference = OwnerReference(api_version="v1", kind="ConfigMap", name="mine", uid=owner.metadata.uid)
        identity = WorkloadIdentity("default", "demo", Component.ETCD, reference)
        informers = Informers(Client(log, api.clock))
        hosting = PodHosting(informers, restore_image="kubewright:1")
        task = asyncio.create_task(informers.run())
        try:
            await informers.wait_synced(20)
            found = Stage(client, hosting, identity, log)
            if not pods:
                yield found
            else:
                async with running(StatefulSets(client).run):
                    yield found
        finally:
            task.cancel()
            await asyncio.wait([task])


async def at_last(effect):
    """Try again what did not work this time, as a controller does."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await effect()
            except KubewrightError:
                await asyncio.sleep(0.05)


async def version(of):
    return (await of.client.get(WORKLOAD, NAME))["metadata"]["resourceVersion"]


async def test_applying_the_same_again_writes_nothing():
    async with stage() as on:
        await on.hosting.apply(on.workload())
        before = await version(on)
        asked = len(on.log.needs)
        await on.hosting.apply(on.workload())
        assert (await version(on), len(on.log.needs)) == (before, asked)


async def test_services_are_made_before_anything_that_starts_pods_and_again_when_they_should_differ():
    async with stage() as on:
        asked = on.workload()
        assert on.hosting.must_reserve(asked)
        await on.hosting.reserve(asked)
        assert not on.hosting.must_reserve(asked)
        expected = Running(exists=True, service="demo-etcd", data=frozenset())
        assert on.hosting.status(on.identity) == expected
        open_to_all, closed = deepcopy(manifests()), manifests()
        open_to_all[1]["spec"]["publishNotReadyAddresses"] = True
        changed = replace(asked, rendered=Rendered(open_to_all))
        assert on.hosting.must_reserve(changed)
        await on.hosting.reserve(changed)
        assert (await on.client.get(SERVICE, NAME))["spec"]["publishNotReadyAddresses"]
        assert on.hosting.must_reserve(replace(asked, rendered=Rendered(closed)))


async def test_a_service_that_a_user_changes_or_has_is_left_until_the_next_change():
    async with stage() as on:
        await on.hosting.reserve(on.workload())
        await on.client.patch(SERVICE, NAME, {"spec": {"publishNotReadyAddresses": True}})
        other = replace(on.identity, object=structs.replace(on.identity.object, uid="another"))
        assert not on.hosting.must_reserve(on.workload())
        assert not on.hosting.must_reserve(on.workload(identity=other))


async def test_what_another_program_wrote_beside_ours_stays():
    async with stage() as on:
        await on.hosting.apply(on.workload())
        await on.client.patch(WORKLOAD, NAME, {"metadata": {"labels": {"team": "blue"}}})
        await on.hosting.apply(on.workload(replicas=3))
        found = await on.client.get(WORKLOAD, NAME)
        assert found["metadata"]["labels"]["team"] == "blue"
        assert found["spec"]["replicas"] == 3


@pytest.mark.parametrize("kind", [WORKLOAD, SERVICE], ids=["StatefulSet", "Service"])
@pytest.mark.parametrize("labelled", [True, False], ids=["with our labels", "without our labels"])
async def test_an_object_that_is_not_ours_is_left_alone(kind, labelled):
    async with stage() as on:
        theirs = next(each for each in manifests() if each["kind"] == kind.resource.kind)
        marks = {"labels": labels(on.identity)} if labelled else {}
        made = await on.client.create(kind, {**theirs, "metadata": {**theirs["metadata"], **marks}})
        with pytest.raises(Obstructed, match="belongs to another"):
            await on.hosting.apply(on.workload())
        await on.hosting.remove(on.identity, keep_data=False)
        assert await on.client.get(kind, NAME) == made
        assert on.hosting.status(on.identity).applied == ""


async def test_pods_of_another_owner_are_no_instances_of_ours():
    async with stage(pods=True) as on:
        await on.hosting.apply(on.workload())
        await on.pod(lambda _pod: on.hosting.status(on.identity).instances)
        successor = replace(on.identity, object=structs.replace(on.identity.object, uid="another"))
        assert not on.hosting.status(successor).exists
        await on.hosting.replace(successor, 0)
        await on.hosting.remove(successor, keep_data=True)
        assert on.hosting.status(on.identity).instances


async def test_claims_of_another_size_are_a_problem_that_a_user_can_mend():
    async with stage() as on:
        await on.hosting.apply(on.workload())
        larger = on.workload(storage="2Gi")
        before = await version(on)
        assert "--cascade=orphan" in on.hosting.problem_of(larger)
        with pytest.raises(InvalidInput, match=r"spec\.volumeClaimTemplates"):
            await on.hosting.apply(larger)
        assert await version(on) == before

        await on.client.delete(WORKLOAD, NAME, propagation="Orphan")
        await at_last(lambda: on.hosting.apply(larger))
        (claim,) = (await on.client.get(WORKLOAD, NAME))["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"


async def test_the_number_grows_again_when_the_claim_of_the_pod_that_went_is_deleted():
    async with stage() as on:
        await on.hosting.apply(on.workload())
        left = {"apiVersion": "v1", "kind": "Pod", "name": "demo-etcd-1", "uid": "of-a-pod-that-went"}
        meta = {"name": "data-demo-etcd-1", "labels": labels(on.identity), "ownerReferences": [left]}
        (template,) = manifests()[0]["spec"]["volumeClaimTemplates"]
        await on.client.create(CLAIM, {"metadata": meta, "spec": template["spec"]}, namespace="default")
        with pytest.raises(Obstructed, match="the volume claim data-demo-etcd-1 of a larger number before"):
            await on.hosting.apply(on.workload(replicas=2))
        assert (await on.client.get(WORKLOAD, NAME))["spec"]["replicas"] == 1
        await on.client.delete(CLAIM, Key("default", "data-demo-etcd-1"))
        await on.hosting.apply(on.workload(replicas=2))
        assert (await on.client.get(WORKLOAD, NAME))["spec"]["replicas"] == 2


async def test_no_pod_is_replaced_before_the_new_template_is_seen():
    async with stage() as on:
        await on.hosting.apply(on.workload())
        owner = await on.client.get(WORKLOAD, NAME)
        pod = {
            "metadata": {
                "name": "demo-etcd-0",
                "labels": owner["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo-etcd", "controller": True}
                    | {"uid": owner["metadata"]["uid"]}
                ],
            },
            "spec": {"containers": [{"name": "etcd", "image": "etcd:v3"}]},
        }
        await on.client.create(POD_JSON, pod, namespace="default")
        async with asyncio.timeout(20):
            while not on.hosting.status(on.identity).instances:
                await on.client.clock.sleep(0.05)
        with pytest.raises(Unseen):
            await on.hosting.replace(on.identity, 0)
        seen = {"status": {"observedGeneration": owner["metadata"]["generation"], "replicas": 1}}
        await on.client.patch(WORKLOAD, NAME, seen, subresource="status")
        await at_last(lambda: on.hosting.replace(on.identity, 0))
        assert await on.client.list(POD_JSON, "default") == []


def a_replacement(members=1, mark="mark"):
    """One that no pod waits for here, so nothing is fetched."""

    async def credentials():
        now = datetime.now(UTC)
        authority = new_authority("etcd", now, timedelta(days=1))
        own = new_client(authority, User("probe", ()), now, timedelta(days=1))
        return Credentials(authority.certificate, own.certificate, own.key)

    return Replacement(
        mark, members, fetch=lambda: pytest.fail("no pod waits for it"), credentials=credentials
    )


async def says(on, name, phase):
    """Let the status of a pod say this, as its kubelet would, and wait until the host has seen it."""
    await on.client.patch(POD_JSON, Key("default", name), {"status": {"phase": phase}}, subresource="status")


async def until_replaced(on, by, so):
    async with asyncio.timeout(20):
        while not so(found := await on.hosting.replace_data(on.identity, by)):
            await on.client.clock.sleep(0.05)
    return found


async def names(on):
    return {each["metadata"]["name"] for each in await on.client.list(POD_JSON, "default")}


async def test_a_pod_for_each_member_replaces_its_data_once_and_goes_when_the_etcd_starts():
    async with stage() as on:
        await on.hosting.apply(on.workload(replicas=0))
        by, pods = a_replacement(members=2), {"demo-etcd-0-restore", "demo-etcd-1-restore"}
        found = await until_replaced(on, by, lambda found: "is being made" not in found.waits)
        assert (found.waits.count("it is at work"), await names(on)) == (2, pods)
        await says(on, "demo-etcd-0-restore", "Succeeded")
        found = await until_replaced(on, by, lambda found: "demo-etcd-0-restore" not in found.waits)
        assert found.waits == "demo-etcd-1-restore: it is at work"
        await says(on, "demo-etcd-1-restore", "Succeeded")
        found = await until_replaced(on, by, lambda found: not found.waits)
        assert found.former == "before-mark, in the volumes of demo-etcd"
        assert (await on.hosting.replace_data(on.identity, by), await names(on)) == (found, pods)
        assert on.hosting.status(on.identity).instances == ()
        await on.hosting.apply(on.workload())
        assert await names(on) == set()


async def test_an_etcd_does_not_start_while_a_pod_is_at_work_in_its_volume():
    async with stage() as on:
        await on.hosting.apply(on.workload(replicas=0))
        await until_replaced(on, a_replacement(), lambda found: "is being made" not in found.waits)
        with pytest.raises(Obstructed, match="demo-etcd-0-restore, which replaces the data, ends first"):
            await on.hosting.apply(on.workload())
        assert (await on.client.get(WORKLOAD, NAME))["spec"]["replicas"] == 0


async def test_an_etcd_that_runs_is_not_replaced_nor_one_without_a_stateful_set():
    async with stage() as on:
        with pytest.raises(NotReplaced, match="there is no StatefulSet demo-etcd"):
            await on.hosting.replace_data(on.identity, a_replacement())
        await on.hosting.apply(on.workload())
        with pytest.raises(NotReplaced, match="demo-etcd still runs"):
            await on.hosting.replace_data(on.identity, a_replacement())
        assert await names(on) == set()


async def test_a_pod_of_an_earlier_restore_ends_before_that_of_the_next_is_made():
    async with stage() as on:
        await on.hosting.apply(on.workload(replicas=0))
        await until_replaced(on, a_replacement(), lambda found: "is being made" not in found.waits)
        await says(on, "demo-etcd-0-restore", "Succeeded")
        by = a_replacement(mark="next")
        found = await until_replaced(on, by, lambda found: "it is at work" in found.waits)
        (pod,) = await on.client.list(POD_JSON, "default")
        assert (pod["spec"]["containers"][0]["args"][-1], found.former) == ("--mark=next", "")


async def test_data_that_was_kept_tells_of_how_many_members_it_is():
    async with stage(pods=True) as on:
        await on.hosting.apply(on.workload(replicas=3))
        await on.pod(lambda _pod: len(on.hosting.status(on.identity).instances) == 3)
        await on.hosting.remove(on.identity, keep_data=True)
        async with asyncio.timeout(20):
            while on.hosting.status(on.identity).kept != 3:
                await on.client.clock.sleep(0.05)


async def test_data_that_is_gone_while_nothing_runs_is_told_and_a_restore_makes_room_for_it_again():
    async with stage(pods=True) as on:
        await on.hosting.apply(on.workload(replicas=3))
        await on.pod(lambda _pod: len(on.hosting.status(on.identity).instances) == 3)
        assert on.hosting.status(on.identity).data is None
        await at_last(lambda: on.hosting.apply(on.workload(replicas=0)))
        await until_data(on, {0, 1, 2})
        for ordinal in (0, 2):
            await on.client.delete(CLAIM, Key("default", f"data-demo-etcd-{ordinal}"))
        await until_data(on, {1})
        await at_last(lambda: on.hosting.replace_data(on.identity, a_replacement(members=3)))
        await until_data(on, {0, 1, 2})


async def until_data(on, there):
    async with asyncio.timeout(20):
        while on.hosting.status(on.identity).data != there:
            await on.client.clock.sleep(0.05)


async def test_the_role_of_the_controllers_is_enough_and_grants_no_more():
    async with stage(pods=True) as on:
        await on.hosting.apply(on.workload(replicas=0))
        await at_last(lambda: on.hosting.replace_data(on.identity, a_replacement()))
        await at_last(lambda: on.hosting.apply(on.workload()))
        stateful_set, service = manifests()
        published = {**service, "spec": {**service["spec"], "publishNotReadyAddresses": True}}
        await at_last(lambda: on.hosting.apply(on.workload(2, rendered=Rendered([stateful_set, published]))))
        first = await on.pod(lambda _pod: on.hosting.status(on.identity).instances)
        await at_last(lambda: on.hosting.replace(on.identity, 0))
        await on.pod(lambda pod: pod["metadata"]["uid"] != first["metadata"]["uid"])
        await on.hosting.remove(on.identity, keep_data=False)
        rules = [each for each in granted(rights.manifest()) if each.resource in RULED]
        assert missing(on.log.needs, rules) == []
        assert not await on.client.list(CLAIM, "default")
        assert [str(each) for each in unused(on.log.needs, rules)] == GETS


GETS = ["get services", "get statefulsets.apps"]
"""Needed only where an object of the same name is there and our caches do not show it."""
