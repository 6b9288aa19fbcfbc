"""A control plane from a template, inside this process."""

from tests.api.controlplanes.kit import NAMES, stage

from kubewright.api.cluster.v1beta1 import CLUSTER
from kubewright.api.controlplane import manifests
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_USER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_ETCD,
)
from kubewright.testing.permissions import granted, missing, unused
from kubewright.wire.gvk import Key

COMPONENTS = {"etcd": {}, "apiserver": {"replicas": 1}, "controllerManager": {}}


async def test_one_object_that_names_a_template_becomes_a_whole_control_plane():
    async with stage() as on:
        made = {"template": {"spec": {}, "components": COMPONENTS}}
        await on.apply(NESTED_CONTROL_PLANE, "demo", {"templateName": "small"})
        await on.apply(NESTED_CONTROL_PLANE_TEMPLATE, "small", made)

        async def is_ready() -> bool:
            return (await on.status(NESTED_CONTROL_PLANE, "demo")).ready

        await on.until(is_ready)
        plane = await on.get(NESTED_CONTROL_PLANE, "demo")
        etcd = await on.get(NESTED_ETCD, "demo-etcd")
        assert etcd.metadata.controller.uid == plane.metadata.uid
        assert plane.spec.controller_manager.name == "demo-controller-manager"
        await on.client.delete(NESTED_CONTROL_PLANE, Key("default", "demo"))

        async def gone() -> bool:
            left = [await on.client.list(kind, "default") for kind in (NESTED_CONTROL_PLANE, *NAMES.values())]
            return not any(left)

        await on.until(gone)
        grants = granted(manifests.manifest())
        assert missing(on.log.needs, grants) == []
        creates = [each for each in grants if each.verb == "create" and each.resource.startswith("nested")]
        assert unused(on.log.needs, creates) == []


async def test_components_are_made_and_users_get_kubeconfigs_as_soon_as_a_paused_cluster_goes_on():
    async with stage() as on:
        await on.apply(CLUSTER, "mine", {"paused": True})
        uid = (await on.get(CLUSTER, "mine")).metadata.uid
        owner = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": "mine", "uid": uid}
        owners = [{**owner, "controller": True}]
        await on.apply(
            NESTED_CONTROL_PLANE_TEMPLATE, "small", {"template": {"spec": {}, "components": COMPONENTS}}
        )
        asked = {"templateName": "small", "controlPlaneEndpoint": {"host": "mine.example.com", "port": 443}}
        await on.apply(NESTED_CONTROL_PLANE, "demo", asked, ownerReferences=owners)
        alice = {"controlPlaneName": "demo", "groups": ["a"], "credential": "Certificate"}
        await on.apply(CONTROL_PLANE_USER, "alice", alice)
        await on.clock.sleep(60)
        assert await on.client.list(NESTED_ETCD, "default") == []
        (told,) = (await on.status(CONTROL_PLANE_USER, "alice")).conditions
        assert (told.type, told.message) == ("Paused", "Cluster mine has spec.paused")
        await on.client.patch(CLUSTER, Key("default", "mine"), {"spec": {"paused": False}})

        async def is_ready() -> bool:
            user = await on.status(CONTROL_PLANE_USER, "alice")
            return user.ready and (await on.status(NESTED_CONTROL_PLANE, "demo")).ready

        await on.until(is_ready, 20)
