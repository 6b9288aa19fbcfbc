"""Stories of one machine that is deleted: what holds it, and what is skipped.

Theory.      Each rule of the deletion of a Machine is a story. A worker is deleted, its set makes another,
             and the story looks meanwhile: whether the VM waits for what it must wait for, and does not wait
             for what is excluded or took too long.
Source       S0-25 to S0-28.
Called by    ``stories``.
"""

from collections.abc import Callable
from typing import Any

from kubewright.api.apps import REPLICA_SET
from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE_DEPLOYMENT
from kubewright.api.core import PDB, POD
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.wire.gvk import Key
from simulation import resources
from simulation.clusterapi.provider import FINALIZER
from simulation.clusterapi.whole import acts, setup
from simulation.clusterapi.whole.acts import (
    cluster,
    nothing_left,
    replaced,
    running,
    story,
)
from simulation.clusterapi.whole.origins import managed_elsewhere
from simulation.person import Person
from simulation.resources import FOO_PLANE
from simulation.rules.facts import name_of, uid_of
from simulation.story import SLOW_PODS, End, Part, Story, expect, patch, remove, then, until, wait

DEFAULT = "default"
GRACE_SECONDS = 30
HELD_SECONDS = 60.0
"""How long a story looks whether a machine is held."""
UNSEEN_SECONDS = 400.0
"""After so long without its API server it is said of the Nodes of a cluster that they are unknown."""


def has_vm(person: Person) -> bool:
    """The victim has its VM."""
    return person.victim in {vm.name for vm in person.vms}


async def choose(person: Person) -> None:
    """The first worker is the victim."""
    acts.choose_victim(person)


delete = then(lambda person: acts.delete_machine(person.victim)(person))
"""Delete the victim."""


def node_of(person: Person) -> str:
    """The name of the victim's Node."""
    return next(vm.node_name for vm in person.vms if vm.name == person.victim)


async def in_cluster(person: Person, act: Callable[[Any], Any]) -> None:
    """A write of a user in the workload cluster."""
    await act(acts.plane(person).informers.client)


async def run_pod(person: Person) -> None:
    """A pod on the victim's Node takes all of its grace to end."""
    spec = {
        "nodeName": node_of(person),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "containers": [{"name": "main", "image": "busybox"}],
    }
    meta = {"name": "web", "namespace": DEFAULT, "labels": {"app": "web"}}

    async def act(client: Any) -> None:
        owner = await client.create(REPLICA_SET, {"metadata": meta, "spec": _SET})
        ref = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": owner.metadata.uid,
            "controller": True,
        }
        await client.create(POD, {"metadata": {**meta, "ownerReferences": [ref]}, "spec": spec})

    await in_cluster(person, act)
    await person.wait(3.0)


_SET = {
    "replicas": 1,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    },
}
"""The set that the pod belongs to: whose owner is not there, the garbage collector deletes."""


async def guard_pod(person: Person) -> None:
    """A budget never lets the pod go."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "web", "namespace": DEFAULT}
    await in_cluster(person, lambda client: client.create(PDB, {"metadata": meta, "spec": spec}))


async def attach_volume(person: Person) -> None:
    """A volume is attached to the victim's Node."""
    spec = {"attacher": "csi", "nodeName": node_of(person), "source": {"persistentVolumeName": "data"}}
    body = {"metadata": {"name": "data"}, "spec": spec}
    await in_cluster(person, lambda client: client.create(VOLUME_ATTACHMENT, body))


def annotated(annotation: str) -> Part:
    """The victim has this annotation."""

    return lambda person: acts.annotate(person.victim, annotation)(person)


def with_timeouts(**timeouts: str) -> Part:
    """All workers have these time-outs: a set writes those of its template onto its machines, in place."""

    return then(
        patch(MACHINE_DEPLOYMENT, "md", {"spec": {"template": {"spec": timeouts}}}),
        wait(3.0),
    )


# ---------------------------------------------------------------- what holds a machine


def hold_by(annotation: str) -> Part:
    """An annotation holds the machine until a user takes it off."""

    async def act(person: Person) -> None:
        await delete(person)
        await person.wait(HELD_SECONDS)
        expect(person, has_vm(person), "a hook holds the VM")
        await acts.annotate(person.victim, annotation, None)(person)

    return act


async def delete_with_pod(person: Person) -> None:
    """The pod gets its grace."""
    await delete(person)
    await person.wait(GRACE_SECONDS - 5.0)
    expect(person, has_vm(person), "the VM waits for the pod on it")


async def delete_with_volume(person: Person) -> None:
    """The volume is detached before the VM goes."""
    await delete(person)
    await person.wait(HELD_SECONDS)
    expect(person, has_vm(person), "the VM waits for its volume")
    await in_cluster(person, lambda client: client.delete(VOLUME_ATTACHMENT, Key("", "data")))


def delete_held(seconds: float, what: str) -> Part:
    """What holds the machine does so for as long as its time-out says, and no longer."""

    async def act(person: Person) -> None:
        await delete(person)
        await person.wait(seconds / 2)
        expect(person, has_vm(person), f"the VM waits for {what}")

    return act


async def delete_and_shorten(person: Person) -> None:
    """A drain that would last for ever ends when a user gives it a time-out: the deployment hands it on."""
    await delete(person)
    await person.wait(HELD_SECONDS)
    expect(person, has_vm(person), "the VM waits for the drain")
    await with_timeouts(nodeDrainTimeout="5s")(person)


# ---------------------------------------------------------------- what does not


def expect_no_wait(seconds: float = 15.0) -> Part:
    """Nothing holds the machine."""

    async def act(person: Person) -> None:
        await delete(person)
        await person.wait(seconds)
        if not person.world.counts.faults and not person.world.counts.kills:
            expect(person, not has_vm(person), "nothing holds the VM")

    return act


async def delete_before_its_node(person: Person) -> None:
    """A machine that never became a Node: not even a hook before the drain holds it."""
    before = {name_of(each) for each in acts.workers(person)}
    await acts.scale(3)(person)
    await person.until(lambda: len(acts.workers(person)) > 2, "a third worker")
    person.victim = next(name_of(each) for each in acts.workers(person) if name_of(each) not in before)
    await acts.annotate(person.victim, f"{names.PRE_DRAIN_HOOK_PREFIX}/held")(person)
    await delete(person)


async def delete_last_plane(person: Person) -> None:
    """The only machine of the control plane: its Node does not matter any more, so no pod is waited for."""
    person.victim = "cp"
    await run_pod(person)
    await acts.delete_machine("cp")(person)
    await person.wait(UNSEEN_SECONDS)


def without_plane(person: Person) -> bool:
    """The machine of the control plane is gone, and the workers are not."""
    found = [name_of(each) for each in acts.machines(person)]
    return len(found) == len(person.world.journal.vms) == 2 and "cp" not in found and not person.broken


async def delete_one_of_two_planes(person: Person) -> None:
    """Another machine of the control plane is there: the Node matters."""
    await acts.make_plane("cp-2")(person)
    await person.until(
        lambda: running(2, planes=2)(person), "two of the control plane", seconds=acts.PATIENCE
    )
    person.victim = "cp-2"
    await run_pod(person)
    await delete_with_pod(person)


_PLAIN = {"externalManagedControlPlane": False}


def _replaced_elsewhere(person: Person) -> bool:
    """Two workers run, the victim has no VM, and there is no machine of a control plane."""
    return running(2, planes=0)(person) and not has_vm(person)


delete_while_the_plane_is_deleted = then(
    patch(FOO_PLANE, "demo", {"metadata": {"finalizers": [FINALIZER]}, "status": _PLAIN}),
    patch(FOO_PLANE, "demo", {"status": _PLAIN}, "status"),
    remove(FOO_PLANE, "demo"),
    wait(2.0),
    expect_no_wait(),
    until(_replaced_elsewhere, "another worker", acts.PATIENCE),
    patch(FOO_PLANE, "demo", {"metadata": {"finalizers": None}}),
)
"""The control plane is being deleted, so nothing of a Node is waited for."""


async def delete_without_its_cluster(person: Person) -> None:
    """The workload cluster is away: drain, volumes and Node take as long as the machine says."""
    networks = person.world.part(setup.Networks)
    networks.refuse()
    await person.wait(60.0)
    await delete(person)
    await person.wait(HELD_SECONDS / 2)
    expect(person, has_vm(person), "the VM waits for the drain")
    await person.until(
        lambda: person.victim not in map(name_of, acts.machines(person)), "its end", seconds=acts.PATIENCE
    )
    networks.admit()


async def leave_and_delete_cluster(person: Person) -> None:
    """A user deletes the deployment and keeps its sets and machines; they go with the Cluster."""
    (deployment,) = person.world.journal.objects[resources.CLUSTER_DEPLOYMENTS].values()
    person.deleted.add(uid_of(deployment))
    await person.remove(MACHINE_DEPLOYMENT, "md", propagation="Orphan")
    await person.wait(20.0)
    expect(person, len(acts.workers(person)) == 2, "the workers stay")
    await person.remove(CLUSTER, "demo")


async def delete_cluster(person: Person) -> None:
    """All goes with the Cluster, and no pod is waited for."""
    await person.remove(CLUSTER, "demo")
    await person.wait(15.0)
    if not person.world.counts.faults and not person.world.counts.kills:
        expect(person, not person.vms, "no VM waits for pods")


# ---------------------------------------------------------------- the table

PRE_DRAIN = f"{names.PRE_DRAIN_HOOK_PREFIX}/backup"
PRE_TERMINATE = f"{names.PRE_TERMINATE_HOOK_PREFIX}/backup"


TWO = replaced(2)


def _story(name: str, act: Part, *before: Part, end: End = TWO) -> Story:
    begin = cluster(2, choose, *before)
    return story(name, act, end, begin, SLOW_PODS)


_before_elsewhere = then(managed_elsewhere, choose, run_pod)


STORIES = (
    _story("hook-before-drain", hold_by(PRE_DRAIN), annotated(PRE_DRAIN)),
    _story("hook-before-termination", hold_by(PRE_TERMINATE), annotated(PRE_TERMINATE)),
    _story("drained", delete_with_pod, run_pod),
    _story("drain-excluded", expect_no_wait(), run_pod, annotated(names.EXCLUDE_NODE_DRAINING_ANNOTATION)),
    _story(
        "drain-in-vain",
        delete_held(60.0, "the drain"),
        run_pod,
        guard_pod,
        with_timeouts(nodeDrainTimeout="60s"),
    ),
    _story("drain-shortened", delete_and_shorten, run_pod, guard_pod),
    _story("gone-when-left", leave_and_delete_cluster, end=nothing_left),
    _story("detached", delete_with_volume, attach_volume),
    _story(
        "detaching-excluded",
        expect_no_wait(),
        attach_volume,
        annotated(names.EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH_ANNOTATION),
    ),
    _story(
        "detached-in-vain",
        delete_held(60.0, "its volume"),
        attach_volume,
        with_timeouts(nodeVolumeDetachTimeout="60s"),
    ),
    _story("deleted-unborn", delete_before_its_node, end=replaced(3)),
    _story("last-plane-deleted", delete_last_plane, end=without_plane),
    _story("one-plane-deleted", delete_one_of_two_planes),
    _story(
        "deleted-out-of-reach",
        delete_without_its_cluster,
        with_timeouts(nodeDrainTimeout="60s", nodeVolumeDetachTimeout="10s", nodeDeletionTimeout="10s"),
    ),
    _story("gone-with-pods", delete_cluster, run_pod, end=nothing_left),
    story(
        "drained-elsewhere",
        delete_with_pod,
        _replaced_elsewhere,
        _before_elsewhere,
        SLOW_PODS,
    ),
    story(
        "plane-ends",
        delete_while_the_plane_is_deleted,
        _replaced_elsewhere,
        _before_elsewhere,
        SLOW_PODS,
    ),
)
