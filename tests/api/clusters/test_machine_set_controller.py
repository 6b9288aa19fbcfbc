"""MachineSets and MachineDeployments of Cluster API on an embedded server, with machines that come up by hand."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from kubewright.api.catalog import RULES
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
)
from kubewright.api.core import CRD
from kubewright.api.kinds import dynamic
from kubewright.apiserver.server import ApiServer
from kubewright.cli.rollout import command as rollout
from kubewright.cli.rollout import decide
from kubewright.clusters import world as clusters
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.world import Environment
from kubewright.testing.clocks import LoopClock
from kubewright.testing.faults import ExecuteLate, Faulty
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource

NS, POOL = "default", Key("default", "pool")
INFRA, BOOT, PLANE = "infra.example.com", "boot.example.com", "plane.example.com"
MACHINES = dynamic(Resource(INFRA, "v1beta1", "foomachines", "FooMachine"))
MACHINE_TEMPLATES = dynamic(Resource(INFRA, "v1beta1", "foomachinetemplates", "FooMachineTemplate"))
CONFIGS = dynamic(Resource(BOOT, "v1beta1", "fooconfigs", "FooConfig"))
CONFIG_TEMPLATES = dynamic(Resource(BOOT, "v1beta1", "fooconfigtemplates", "FooConfigTemplate"))
PLANES = dynamic(Resource(PLANE, "v1beta1", "fooplanes", "FooPlane"))
KINDS = (MACHINES, MACHINE_TEMPLATES, CONFIGS, CONFIG_TEMPLATES, PLANES)
CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
SKIP = "machineset.cluster.x-k8s.io/skip-preflight-checks"


def definition(kind):
    resource = kind.resource
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": resource.kind, "plural": resource.plural}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema}
    return {
        "metadata": {"name": str(resource), "labels": {"cluster.x-k8s.io/v1beta1": "v1beta1"}},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def ref(kind, name):
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


def template(name="small", boot="small", **spec):
    """A template of machines."""
    return {
        "spec": {
            "clusterName": "demo",
            "bootstrap": {"configRef": ref(CONFIG_TEMPLATES, boot)},
            "infrastructureRef": ref(MACHINE_TEMPLATES, name),
            **spec,
        }
    }


class World:
    """A server, the controllers of sets, and what users and machines do."""

    def __init__(self, choose=lambda _request: None, **server):
        self.clock = LoopClock()
        self.server = ApiServer(self.clock, **{"admission": RULES, **server})
        self.transport = Faulty(InProcess(self.server.handle), self.clock, choose)
        self.client = Client(self.transport, self.clock)
        self.informers = Informers(self.client)
        self.recorder = Recorder(
            self.client, self.clock, "kubewright", kinds=(MACHINE_SET, MACHINE_DEPLOYMENT)
        )

    @asynccontextmanager
    async def running(self):
        await self.server.start()
        world = clusters.world()
        for each in (*world.definitions(), *map(definition, KINDS)):
            await self.client.create(CRD, each)
        session = Session(self.client, self.informers)
        environment = Environment(session, Fixed(session), lambda: True, self.recorder, self.clock, Metrics())
        made = world.wire(environment, ["clustermachineset", "clustermachinedeployment"])
        runs = (
            self.informers.run,
            *made.background,
            *(each.run for each in made.controllers),
            self.recorder.run,
        )
        tasks = [asyncio.create_task(run()) for run in runs]
        yield self
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.server.close()

    async def make(self, kind, name, spec, **metadata):
        await self.client.create(kind, {"metadata": {"name": name, **metadata}, "spec": spec}, namespace=NS)

    async def settled(self, seconds=5):
        await asyncio.sleep(seconds)

    async def cluster(self, **spec):
        await self.make(CLUSTER, "demo", spec)

    async def templates(self, *names):
        for name in names or ("small",):
            await self.make(
                MACHINE_TEMPLATES,
                name,
                {"template": {"spec": {"size": name}, "metadata": {"labels": {"of": "infra"}}}},
            )
            await self.make(CONFIG_TEMPLATES, name, {"template": {"spec": {"run": name}}})

    async def set(self, replicas=2, **spec):
        spec = {"clusterName": "demo", "replicas": replicas, "selector": {}, "template": template(), **spec}
        await self.make(MACHINE_SET, "pool", spec)

    async def deployment(self, replicas=2, annotations=None, **spec):
        spec = {"clusterName": "demo", "replicas": replicas, "selector": {}, "template": template(), **spec}
        await self.make(MACHINE_DEPLOYMENT, "pool", spec, annotations=annotations or {})

    async def machines(self):
        listed = await self.client.list(MACHINE, NS)
        return sorted(listed, key=lambda machine: machine.name)

    async def sets(self):
        listed = await self.client.list(MACHINE_SET, NS)
        return sorted(listed, key=lambda found: found.metadata.creation_timestamp)

    async def ready(self, *machines, status="True", **more):
        """The machines' Nodes are there, and as ``status`` says."""
        for machine in machines or await self.machines():
            at = "2030-01-01T00:00:00Z"
            conditions = [{"type": "NodeHealthy", "status": status, "lastTransitionTime": at}]
            body = {"nodeRef": {"name": machine.name}, "conditions": conditions, **more}
            await self.client.patch(MACHINE, Key(NS, machine.name), {"status": body}, subresource="status")
        await self.settled()

    async def let_go(self):
        """The controller of machines deletes what is to be deleted."""
        for machine in await self.machines():
            if machine.metadata.deleting:
                await self.client.patch(MACHINE, Key(NS, machine.name), {"metadata": {"finalizers": None}})
        await self.settled()

    async def change(self, kind, body, key=POOL, subresource=""):
        await self.client.patch(kind, key, body, subresource=subresource)
        await self.settled()

    async def said(self, kind, name, of=MACHINE_SET):
        found = await self.client.get(of, Key(NS, name))
        conditions = {each.type: each for each in found.status.conditions}
        each = conditions.get(kind)
        return each and (each.status, each.reason, each.severity, each.message)


@pytest.fixture
async def world():
    async with World().running() as made:
        yield made


async def test_a_set_makes_machines_with_their_clones(world):
    await world.cluster()
    await world.templates()
    await world.set(2)
    await world.settled()
    first, second = await world.machines()
    owner = await world.client.get(MACHINE_SET, POOL)
    assert first.name.startswith("pool-")
    assert first.metadata.finalizers == ("machine.cluster.x-k8s.io",)
    assert first.metadata.labels == {
        CLUSTER_LABEL: "demo", "cluster.x-k8s.io/set-name": "pool",
    }  # fmt: skip
    (controller,) = first.metadata.owner_references
    assert (controller.kind, controller.uid, controller.controller) == (
        "MachineSet",
        owner.metadata.uid,
        True,
    )
    assert first.spec.bootstrap.config_ref.name == first.name
    assert (first.spec.infrastructure_ref.kind, first.spec.infrastructure_ref.name) == (
        "FooMachine",
        first.name,
    )
    for kind, part, spec in (
        (MACHINES, "FooMachineTemplate", {"size": "small"}),
        (CONFIGS, "FooConfigTemplate", {"run": "small"}),
    ):
        clone = await world.client.get(kind, Key(NS, second.name))
        assert clone["spec"] == spec
        assert clone["metadata"]["annotations"] == {
            "cluster.x-k8s.io/cloned-from-name": "small",
            "cluster.x-k8s.io/cloned-from-groupkind": f"{part}.{kind.resource.group}",
        }
        (by,) = clone["metadata"]["ownerReferences"]
        assert (by["kind"], by["uid"], by.get("controller", False)) == (
            "MachineSet",
            owner.metadata.uid,
            False,
        )
    assert (await world.client.get(MACHINES, Key(NS, first.name)))["metadata"]["labels"]["of"] == "infra"


async def test_a_set_that_stands_alone_and_its_templates_are_the_clusters(world):
    await world.cluster()
    await world.templates()
    await world.set(0)
    await world.settled()
    found = await world.client.get(MACHINE_SET, POOL)
    assert [each.kind for each in found.metadata.owner_references] == ["Cluster"]
    assert found.metadata.labels[CLUSTER_LABEL] == "demo"
    for kind in (MACHINE_TEMPLATES, CONFIG_TEMPLATES):
        owners = (await world.client.get(kind, Key(NS, "small")))["metadata"]["ownerReferences"]
        assert [(each["kind"], each["name"]) for each in owners] == [("Cluster", "demo")]


async def test_a_set_waits_for_its_templates_and_says_so(world):
    await world.cluster()
    await world.set(1)
    await world.settled()
    assert await world.machines() == []
    status, reason, severity, message = await world.said("MachinesCreated", "pool")
    assert (status, reason, severity) == ("False", "BootstrapTemplateCloningFailed", "Error")
    assert message.startswith("FooConfigTemplate small cannot be cloned: ")
    await world.templates()
    await world.settled()
    assert len(await world.machines()) == 1
    assert (await world.said("MachinesCreated", "pool"))[0] == "True"


async def test_a_sets_status_tells_of_its_machines(world):
    await world.cluster()
    await world.templates()
    await world.set(2)
    await world.settled()
    assert (await world.said("Resized", "pool")) is None or (await world.said("Resized", "pool"))[
        0
    ] == "False"
    await world.ready()
    found = (await world.client.get(MACHINE_SET, POOL)).status
    assert (found.replicas, found.ready_replicas, found.available_replicas) == (2, 2, 2)
    assert found.fully_labeled_replicas == 2
    assert found.selector == "cluster.x-k8s.io/cluster-name=demo,cluster.x-k8s.io/set-name=pool"
    assert (await world.said("Resized", "pool"))[0] == "True"
    assert (await world.said("Ready", "pool"))[0] == "True"
    scale = await world.client.get(MACHINE_SET, POOL)
    assert scale.status.observed_generation == scale.metadata.generation


async def test_a_set_shrinks_by_what_is_marked_and_waits_until_it_is_gone(world):
    await world.cluster()
    await world.templates()
    await world.set(3)
    await world.settled()
    await world.ready()
    marked = (await world.machines())[2]
    mark = {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}}}
    await world.change(MACHINE, mark, Key(NS, marked.name))
    await world.change(MACHINE_SET, {"spec": {"replicas": 2}})
    going = [each.name for each in await world.machines() if each.metadata.deleting]
    assert going == [marked.name]
    await world.let_go()
    assert len(await world.machines()) == 2


async def test_what_needs_no_rollout_reaches_machines_and_their_clones(world):
    await world.cluster()
    await world.templates()
    labelled = {**template(), "metadata": {"labels": {"old": "1", "both": "1"}, "annotations": {"note": "1"}}}
    await world.set(1, template=labelled)
    await world.settled()
    (machine,) = await world.machines()
    await world.change(MACHINE, {"metadata": {"labels": {"own": "mine"}}}, Key(NS, machine.name))
    changed = {
        "metadata": {"labels": {"old": None, "both": "2", "new": "1"}, "annotations": {"note": "2"}},
        "spec": {"nodeDrainTimeout": "5m"},
    }
    await world.change(MACHINE_SET, {"spec": {"template": changed}})
    (machine,) = await world.machines()
    labels = machine.metadata.labels
    assert (labels.get("old"), labels["both"], labels["new"], labels["own"]) == (None, "2", "1", "mine")
    assert machine.metadata.annotations["note"] == "2"
    assert machine.spec.node_drain_timeout == "5m"
    for kind in (MACHINES, CONFIGS):
        clone = (await world.client.get(kind, Key(NS, machine.name)))["metadata"]
        assert (clone["labels"].get("old"), clone["labels"]["both"], clone["labels"]["new"]) == (
            None,
            "2",
            "1",
        )
        assert clone["annotations"]["note"] == "2"
    before = machine.metadata.resource_version
    await world.settled(60)
    assert (await world.machines())[0].metadata.resource_version == before


async def test_an_unhealthy_machine_is_replaced_by_its_set(world):
    await world.cluster()
    await world.templates()
    await world.set(2)
    await world.settled()
    await world.ready()
    sick = (await world.machines())[0]
    at = "2030-01-01T00:00:00Z"
    conditions = [
        {
            "type": "OwnerRemediated",
            "status": "False",
            "reason": "WaitingForRemediation",
            "severity": "Warning",
            "lastTransitionTime": at,
        }
    ]
    await world.change(MACHINE, {"status": {"conditions": conditions}}, Key(NS, sick.name), "status")
    assert [each.name for each in await world.machines() if each.metadata.deleting] == [sick.name]
    await world.let_go()
    names = [each.name for each in await world.machines()]
    assert len(names) == 2
    assert sick.name not in names


async def test_machines_wait_for_a_control_plane_that_is_not_there_yet(world):
    await world.make(PLANES, "plane", {"version": "v1.30.0"})
    await world.cluster(controlPlaneRef=ref(PLANES, "plane"))
    await world.templates()
    await world.set(1)
    await world.settled()
    assert await world.machines() == []
    _, reason, _, message = await world.said("MachinesCreated", "pool")
    assert (reason, message) == (
        "PreflightCheckFailed",
        "ControlPlaneIsStable: FooPlane plane is being provisioned",
    )
    await world.change(PLANES, {"status": {"version": "v1.30.0"}}, Key(NS, "plane"), "status")
    await world.settled(15)
    assert len(await world.machines()) == 1


async def test_nothing_is_done_in_a_paused_cluster(world):
    await world.cluster(paused=True)
    await world.templates()
    await world.deployment(1)
    await world.settled()
    assert (await world.machines(), await world.sets()) == ([], [])
    assert (await world.client.get(MACHINE_DEPLOYMENT, POOL)).metadata.finalizers == ()
    await world.change(CLUSTER, {"spec": {"paused": False}}, Key(NS, "demo"))
    assert len(await world.machines()) == 1


async def test_a_set_whose_creation_was_lost_is_not_asked_for_again_while_its_cluster_is_paused():
    def lost(request):
        creation = request.method == "POST" and request.path.endswith("/machinesets")
        return ExecuteLate(1000) if creation else None

    def creations():
        return sum(request.method == "POST" for _, request in world.transport.asked if lost(request))

    async with World(lost).running() as world:
        await world.cluster()
        await world.templates()
        await world.deployment(1)
        await world.settled(1)
        assert creations() > 0
        await world.change(CLUSTER, {"spec": {"paused": True}}, Key(NS, "demo"))
        before = creations()
        await world.settled(30)
        assert creations() == before
        await world.change(CLUSTER, {"spec": {"paused": False}}, Key(NS, "demo"))
        assert creations() > before


async def test_a_deployment_makes_a_set_and_reports(world):
    await world.cluster()
    await world.templates()
    await world.deployment(2, {"note": "yes"})
    await world.settled()
    (found,) = await world.sets()
    hashed = found.metadata.labels["machine-template-hash"]
    assert found.name == f"pool-{hashed.rpartition('-')[2]}"
    assert found.spec.selector.match_labels["machine-template-hash"] == hashed
    assert found.metadata.labels["cluster.x-k8s.io/deployment-name"] == "pool"
    assert found.metadata.annotations["machinedeployment.clusters.x-k8s.io/revision"] == "1"
    assert found.metadata.annotations["note"] == "yes"
    assert [each.kind for each in found.metadata.owner_references] == ["MachineDeployment"]
    machines = await world.machines()
    assert {each.metadata.labels["cluster.x-k8s.io/deployment-name"] for each in machines} == {"pool"}
    assert (await world.client.get(MACHINE_DEPLOYMENT, POOL)).status.phase == "ScalingUp"
    assert (await world.said("Available", "pool", MACHINE_DEPLOYMENT))[:3] == (
        "False", "WaitingForAvailableMachines", "Warning",
    )  # fmt: skip
    await world.ready()
    deployment = await world.client.get(MACHINE_DEPLOYMENT, POOL)
    status = deployment.status
    assert (status.phase, status.replicas, status.updated_replicas, status.ready_replicas) == (
        "Running",
        2,
        2,
        2,
    )
    assert (status.available_replicas, status.unavailable_replicas) == (2, 0)
    for kind in ("Available", "MachineSetReady", "Ready"):
        assert (await world.said(kind, "pool", MACHINE_DEPLOYMENT))[0] == "True"
    assert deployment.metadata.annotations["machinedeployment.clusters.x-k8s.io/revision"] == "1"
    assert [each.kind for each in deployment.metadata.owner_references] == ["Cluster"]


async def test_a_new_template_rolls_out_with_one_more_at_a_time(world):
    await world.cluster()
    await world.templates("small", "large")
    await world.deployment(2)
    await world.settled()
    await world.ready()
    new = {"spec": {"infrastructureRef": {"name": "large"}}}
    await world.change(MACHINE_DEPLOYMENT, {"spec": {"template": new}})
    most = 0
    for _ in range(8):
        most = max(most, len(await world.machines()))
        await world.ready()
        await world.let_go()
    assert most == 3
    machines = await world.machines()
    assert len(machines) == 2
    old, current = await world.sets()
    assert (old.spec.replicas, current.spec.replicas) == (0, 2)
    assert current.spec.template.spec.infrastructure_ref.name == "large"
    assert (await world.client.get(MACHINE_DEPLOYMENT, POOL)).status.phase == "Running"


async def test_a_template_in_other_words_or_labels_rolls_nothing_out(world):
    await world.cluster()
    await world.templates()
    await world.deployment(1)
    await world.settled()
    other = {
        "metadata": {"labels": {"new": "1"}},
        "spec": {"nodeDrainTimeout": "1m", "infrastructureRef": {"apiVersion": f"{INFRA}/v1alpha9"}},
    }
    await world.change(MACHINE_DEPLOYMENT, {"spec": {"template": other}})
    assert len(await world.sets()) == 1
    (machine,) = await world.machines()
    assert machine.metadata.labels["new"] == "1"
    assert machine.spec.node_drain_timeout == "1m"


def labelled(**labels):
    return {"selector": {"matchLabels": labels}, "template": {**template(), "metadata": {"labels": labels}}}


@pytest.mark.parametrize(
    "labels",
    [{"app": "a", "tier": "x"}, {"app": "b"}, {"other": "x"}],
    ids=["one more", "another value", "another key"],
)
async def test_a_change_of_selector_and_labels_keeps_the_set_and_its_machines(world, labels):
    await world.cluster()
    await world.templates()
    await world.deployment(4, **labelled(app="a"))
    await world.settled()
    await world.ready()
    before = {each.metadata.uid for each in await world.machines()}
    after = labelled(**labels)
    gone = dict.fromkeys({"app"} - labels.keys())
    after["selector"]["matchLabels"] = {**labels, **gone}
    after["template"]["metadata"]["labels"] = {**labels, **gone}
    await world.change(MACHINE_DEPLOYMENT, {"spec": after})
    await world.settled(30)
    assert {each.metadata.uid for each in await world.machines()} == before
    (found,) = await world.sets()
    assert found.metadata.controller.name == "pool"
    for each in (found, *(await world.machines())):
        assert each.metadata.labels.items() >= labels.items()
        assert not gone.keys() & each.metadata.labels.keys()
    found = (await world.client.get(MACHINE_DEPLOYMENT, POOL)).status
    assert (found.replicas, found.ready_replicas, found.updated_replicas) == (4, 4, 4)


async def test_a_rollout_after_a_change_of_selector_replaces_the_machines_of_the_old_set(world):
    await world.cluster()
    await world.templates("small", "large")
    await world.deployment(1, **labelled(app="a"))
    await world.settled()
    await world.ready()
    changed = labelled(app="b")
    changed["template"]["spec"]["infrastructureRef"]["name"] = "large"
    await world.change(MACHINE_DEPLOYMENT, {"spec": changed})
    await world.ready()
    await world.let_go()
    assert [each.spec.replicas for each in await world.sets()] == [0, 1]
    (machine,) = await world.machines()
    assert machine.metadata.labels["app"] == "b"


async def test_a_machine_whose_hash_is_taken_off_stays_its_sets_and_gets_it_back(world):
    await world.cluster()
    await world.templates()
    await world.deployment(2)
    await world.settled()
    await world.ready()
    first, second = await world.machines()
    hashed = first.metadata.labels["machine-template-hash"]
    off = {"metadata": {"labels": {"machine-template-hash": None}}}
    await world.change(MACHINE, off, Key(NS, first.name))
    found = await world.machines()
    assert [each.metadata.uid for each in found] == [first.metadata.uid, second.metadata.uid]
    assert found[0].metadata.labels["machine-template-hash"] == hashed
    assert found[0].metadata.controller == first.metadata.controller
    (owner,) = await world.sets()
    await world.change(MACHINE_SET, off, Key(NS, owner.name))
    assert [each.metadata.controller for each in await world.sets()] == [owner.metadata.controller]


async def test_a_set_that_its_deployment_has_left_is_the_clusters(world):
    await world.cluster()
    await world.templates()
    await world.deployment(1)
    await world.settled()
    (left,) = await world.sets()
    await world.client.delete(MACHINE_DEPLOYMENT, POOL, propagation="Orphan")
    await world.settled()
    await world.change(MACHINE_SET, {"metadata": {"ownerReferences": None}}, Key(NS, left.name))
    await world.change(MACHINE_DEPLOYMENT, {"metadata": {"finalizers": None}})
    (left,) = await world.sets()
    assert [(each.kind, each.name) for each in left.metadata.owner_references] == [("Cluster", "demo")]
    await world.deployment(1)
    await world.settled()
    assert [each.metadata.controller.name for each in await world.sets()] == ["pool"]


TIMEOUTS = {"nodeDrainTimeout": "1m", "nodeVolumeDetachTimeout": "2m", "nodeDeletionTimeout": "3m"}


async def timeouts_of_machines(world):
    return {
        (each.spec.node_drain_timeout, each.spec.node_volume_detach_timeout, each.spec.node_deletion_timeout)
        for each in await world.machines()
    }


async def test_what_needs_no_rollout_reaches_old_sets_and_machines_that_are_being_deleted(world):
    await world.cluster()
    await world.templates("small", "large")
    await world.deployment(2)
    await world.settled()
    await world.ready()
    roll = {"spec": {"infrastructureRef": {"name": "large"}}}
    await world.change(MACHINE_DEPLOYMENT, {"spec": {"template": roll}})
    going = (await world.machines())[0].name
    await world.client.delete(MACHINE, Key(NS, going))
    changed = {
        "metadata": {"labels": {"new": "1"}, "annotations": {"note": "2"}},
        "spec": {"nodeDrainTimeout": "1m", "nodeVolumeDetachTimeout": "2m", "nodeDeletionTimeout": "3m"},
    }
    wanted = {
        "template": changed,
        "minReadySeconds": 7,
        "strategy": {"rollingUpdate": {"deletePolicy": "Oldest"}},
    }
    await world.change(MACHINE_DEPLOYMENT, {"spec": wanted})
    assert await timeouts_of_machines(world) == {("1m", "2m", "3m")}
    sets = await world.sets()
    assert len(sets) == 2
    for each in sets:
        assert (each.spec.min_ready_seconds, each.spec.delete_policy) == (7, "Oldest")
        assert each.spec.template.metadata.labels["new"] == "1"
        assert each.spec.template.metadata.annotations["note"] == "2"
    living = [each for each in await world.machines() if not each.metadata.deleting]
    assert {(each.metadata.labels.get("new"), each.metadata.annotations.get("note")) for each in living} == {
        ("1", "2")
    }
    versions = [each.metadata.resource_version for each in (*sets, *await world.machines())]
    await world.settled(60)
    assert [
        each.metadata.resource_version for each in (*await world.sets(), *await world.machines())
    ] == versions


async def test_a_deployment_that_is_being_deleted_still_passes_on_its_timeouts(world):
    await world.cluster()
    await world.templates()
    await world.deployment(2)
    await world.settled()
    await world.ready()
    await world.client.delete(MACHINE_DEPLOYMENT, POOL)
    await world.settled()
    assert all(each.metadata.deleting for each in (*await world.sets(), *await world.machines()))
    await world.change(MACHINE_DEPLOYMENT, {"spec": {"template": {"spec": TIMEOUTS}}})
    assert await timeouts_of_machines(world) == {("1m", "2m", "3m")}
    await world.let_go()
    assert await world.sets() == []


async def test_on_delete_replaces_what_users_delete(world):
    await world.cluster()
    await world.templates("small", "large")
    await world.deployment(2, strategy={"type": "OnDelete"})
    await world.settled()
    await world.ready()
    await world.change(
        MACHINE_DEPLOYMENT, {"spec": {"template": {"spec": {"infrastructureRef": {"name": "large"}}}}}
    )
    old, current = await world.sets()
    assert (old.spec.replicas, current.spec.replicas) == (2, 0)
    assert "cluster.x-k8s.io/disable-machine-create" in old.metadata.annotations
    await world.client.delete(MACHINE, Key(NS, (await world.machines())[0].name))
    await world.settled()
    await world.let_go()
    old, current = await world.sets()
    assert (old.spec.replicas, current.spec.replicas) == (1, 1)


async def test_a_deployment_goes_after_its_machines(world):
    await world.cluster()
    await world.templates()
    await world.deployment(2)
    await world.settled()
    await world.client.delete(MACHINE_DEPLOYMENT, POOL)
    await world.settled()
    assert all(each.metadata.deleting for each in await world.machines())
    assert len(await world.sets()) == 1
    await world.let_go()
    assert await world.sets() == []
    with pytest.raises(NotFound):
        await world.client.get(MACHINE_DEPLOYMENT, POOL)


async def test_a_rollout_that_a_time_asks_for(world):
    await world.cluster()
    await world.templates()
    await world.deployment(1)
    await world.settled()
    await world.ready()
    soon = world.clock.now().timestamp() + 100
    when = datetime.fromtimestamp(soon, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await world.change(MACHINE_DEPLOYMENT, {"spec": {"rolloutAfter": when}})
    assert len(await world.sets()) == 1
    await world.settled(120)
    old, current = await world.sets()
    assert (old.spec.replicas, current.spec.replicas) == (1, 1)
    await world.ready()
    await world.let_go()
    assert [each.spec.replicas for each in await world.sets()] == [0, 1]


async def test_the_command_rollout_takes_a_deployment_back_and_restarts_it(world):
    await world.cluster()
    await world.templates("small", "large")
    await world.deployment(1)
    await world.settled()
    await world.ready()
    new = {"spec": {"infrastructureRef": {"name": "large"}}}
    await world.change(MACHINE_DEPLOYMENT, {"spec": {"template": new}})
    await world.ready()
    await world.let_go()
    target = rollout.Deployment("md/pool", NS)
    done = await rollout.changed(
        world.client, target, lambda api, found, sets: decide.undo(api, found, sets, 0)
    )
    assert done.said == "rolled back to revision 1"
    await world.settled()
    await world.ready()
    await world.let_go()
    assert [each.spec.replicas for each in await world.sets()] == [1, 0]
    assert [each.spec.template.spec.infrastructure_ref.name for each in await world.sets()] == [
        "small",
        "large",
    ]
    assert await rollout.follow(world.client, world.clock, target, 60)
    await world.settled(10)
    before = {each.metadata.uid for each in await world.machines()}
    now = world.clock.now()
    await rollout.changed(world.client, target, lambda api, found, _: decide.restart(api, found, now))
    await world.settled()
    await world.ready()
    await world.let_go()
    (machine,) = await world.machines()
    assert machine.metadata.uid not in before
    assert [each.spec.replicas for each in await world.sets()] == [0, 1]


EVERYTHING = {"matchExpressions": [{"key": CLUSTER_LABEL, "operator": "Exists"}]}
PLANE_LABEL = "cluster.x-k8s.io/control-plane"


@pytest.mark.parametrize(
    ("labels", "left"),
    [
        pytest.param({}, ["plane"], id="a set of workers: the control plane is left alone"),
        pytest.param({PLANE_LABEL: ""}, [], id="a set of control plane machines: they are its own"),
    ],
)
async def test_a_selector_that_selects_everything_costs_no_control_plane(world, labels, left):
    await world.cluster()
    await world.templates()
    for name, more in (("plane", {PLANE_LABEL: ""}), ("worker", {})):
        await world.make(MACHINE, name, template()["spec"], labels={CLUSTER_LABEL: "demo", **more})
    made_from = {**template(), "metadata": {"labels": {CLUSTER_LABEL: "demo", **labels}}}
    await world.set(0, selector=EVERYTHING, template=made_from)
    await world.settled()
    assert [each.name for each in await world.machines() if not each.metadata.deleting] == left


async def test_a_set_whose_selector_no_webhook_has_filled_in_adopts_what_comes_later():
    async with World(admission=()).running() as world:
        await world.cluster()
        await world.templates()
        await world.set(1)
        await world.settled()
        (own,) = await world.machines()
        stays = {
            "finalizers": ["example.com/stays"],
            "labels": own.metadata.labels,
        }  # though it is one too many
        await world.make(MACHINE, "later", template()["spec"], **stays)
        await world.settled()
        later = await world.client.get(MACHINE, Key(NS, "later"))
        assert [each.kind for each in later.metadata.owner_references] == ["MachineSet"]
