"""Stories of clusters that are paused, moved, out of reach, or reached by another kubeconfig.

Theory.      A move is what ``clusterctl move`` does: the Cluster is paused, each object is made again
             elsewhere without its status and with owners of their new uids, the old ones go without their
             finalizers having an effect, and the pause ends. Here the other place is the same server, a
             moment later: what matters is that all uids are new and every status is lost.
Called by    ``stories``.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.names import kubeconfig_secret
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.kinds import Kind
from simulation.clusterapi.whole import acts, setup
from simulation.clusterapi.whole.acts import cluster, running, story
from simulation.clusterapi.whole.health import check
from simulation.journal import NAMESPACE_NAME, Object
from simulation.person import Person
from simulation.rules.facts import name_of
from simulation.story import expect, expected, remove, then, until, wait

HOUR = 3600.0
MOVED: tuple[Kind[Any], ...] = (
    CLUSTER,
    KUBEWRIGHT_CLUSTER,
    KUBEADM_CONFIG_TEMPLATE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MACHINE,
    KUBEADM_CONFIG,
    KUBEWRIGHT_MACHINE,
    SECRET,
)
"""Each after all that may own it."""
DROPPED = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")


# ---------------------------------------------------------------- pauses


pause = then(acts.pause(paused=True), wait(5), acts.scale(3), wait(60), acts.pause(paused=False))
"""What a user wants meanwhile is done later."""


pause_and_delete = then(
    acts.pause(paused=True),
    wait(5),
    lambda person: acts.delete_machine(name_of(acts.workers(person)[0]))(person),
    remove(CLUSTER, "demo"),
    wait(60),
    expected(lambda person: len(person.world.journal.vms) == 3, "a paused cluster keeps its VMs"),
    acts.pause(paused=False),
)
"""Machines and the Cluster itself are deleted while it is paused: all of it waits."""


# ---------------------------------------------------------------- moves


async def move(person: Person) -> None:
    """Nothing is made twice, and nothing is lost."""
    await acts.pause(paused=True)(person)
    await person.wait(5)
    vms = sorted(person.world.journal.vms)
    there = list(_listed(person))
    for kind, each in reversed(there):
        await _leave(person, kind, each)
    uids: dict[str, str] = {}
    for kind, each in there:
        await _arrive(person, kind, each, uids)
    await person.wait(5)
    await acts.pause(paused=False)(person)
    await person.until(lambda: running(2)(person), "the cluster as it was", seconds=acts.PATIENCE)
    expect(person, sorted(person.world.journal.vms) == vms, "the VMs are the same as before the move")
    await acts.scale(3)(person)


move_and_delete = then(
    move,
    until(running(3), "three workers", acts.PATIENCE),
    lambda person: acts.delete_machine(name_of(acts.workers(person)[0]))(person),
    wait(5),
    remove(CLUSTER, "demo"),
)
"""What was moved can be deleted: the VMs are found under their new owners."""


def _listed(person: Person) -> Iterator[tuple[Kind[Any], Object]]:
    for kind in MOVED:
        found = person.world.journal.objects[str(kind.resource)]
        yield from ((kind, found[key]) for key in sorted(found) if _moves(found[key]))


def _moves(found: Object) -> bool:
    """Secrets without an owner are none of the cluster's."""
    return "data" not in found or bool(found["metadata"].get("ownerReferences"))


async def _leave(person: Person, kind: Kind[Any], found: Object) -> None:
    """The object goes, whatever holds it."""
    name = name_of(found)
    person.deleted.add(str(found["metadata"]["uid"]))
    await person.patch(kind, name, {"metadata": {"finalizers": None}})
    await person.remove(kind, name)


async def _arrive(person: Person, kind: Kind[Any], found: Object, uids: dict[str, str]) -> None:
    """The same object without what a server gave it; ``uids`` has the new uids by the old ones."""
    meta = {key: value for key, value in found["metadata"].items() if key not in DROPPED}
    owners = meta.pop("ownerReferences", ())
    meta["ownerReferences"] = [{**each, "uid": uids[each["uid"]]} for each in owners]
    body = {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "status")}
    await person.make(kind, name_of(found), **{**body, "metadata": meta})
    arrived = person.world.journal.objects[str(kind.resource)][f"{NAMESPACE_NAME}/{name_of(found)}"]
    uids[str(found["metadata"]["uid"])] = str(arrived["metadata"]["uid"])


# ---------------------------------------------------------------- kubeconfigs


async def rotate_kubeconfig(person: Person) -> None:
    """Workers come while the kubeconfig goes, is wrong for a while, and is made anew."""
    secret = kubeconfig_secret("demo")
    await acts.scale(3)(person)
    await person.remove(SECRET, secret)
    await person.wait(2)
    await acts.scale(4)(person)
    await person.patch(SECRET, secret, {"stringData": {"value": "no kubeconfig"}})
    await person.until(lambda: running(4)(person), "four workers", seconds=acts.PATIENCE)
    await acts.scale(2)(person)


# ---------------------------------------------------------------- out of reach


async def cut_managers_off(person: Person) -> None:
    """For an hour no manager reaches the workload cluster, which is well: nothing is replaced."""
    await _wait_an_hour(
        person, person.world.part(setup.Networks).refuse, person.world.part(setup.Networks).admit
    )


async def stop_the_plane(person: Person) -> None:
    """For an hour the control plane has no power, so that no kubelet reaches it either."""
    (cp,) = (vm for vm in person.vms if vm.name == "cp")
    cloud = person.world.cloud
    await _wait_an_hour(person, lambda: cloud.kill(cp.id), lambda: cloud.restart(cp.id))


async def _wait_an_hour(person: Person, away: Callable[[], None], back: Callable[[], None]) -> None:
    vms = {vm.id for vm in person.vms}
    away()
    await person.wait(60)
    await acts.scale(3)(person)
    await person.wait(HOUR - 60)
    expect(person, vms <= {vm.id for vm in person.vms}, "no VM goes because its cluster is away")
    back()
    await person.until(lambda: running(3)(person), "three workers", seconds=acts.PATIENCE)
    expect(person, vms <= {vm.id for vm in person.vms}, "no VM goes because its cluster was away")


STORIES = (
    story("paused", pause, running(3), before=cluster()),
    story("paused-and-gone", pause_and_delete, acts.nothing_left, before=cluster()),
    story("moved", move, running(3), before=cluster()),
    story("moved-and-gone", move_and_delete, acts.nothing_left, before=cluster()),
    story("kubeconfig", rotate_kubeconfig, running(2), before=cluster()),
    story("out-of-sight", cut_managers_off, running(3), before=cluster(2, check())),
    story("without-power", stop_the_plane, running(3), before=cluster(2, check())),
)
