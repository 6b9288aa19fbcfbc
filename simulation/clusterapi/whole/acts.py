"""What users do with whole clusters: make one, and change it; and how a cluster must look in the end.

Theory.      The clusters of all stories are made here: some machines of a control plane, and workers of one
             MachineDeployment ``md``, on VMs of one kind. Names say which is which: machines of the control
             plane begin with ``cp``.
Called by    the stories beside this module, and tests.
"""

from typing import Any

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE, MACHINE_DEPLOYMENT
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.kinds import Kind
from kubewright.compose.api_servers import Planes
from kubewright.providers.sim import manifests
from kubewright.providers.sim.spec import KubeletSettings
from kubewright.providers.sim.tls_bootstrap import ControlPlane
from simulation import resources
from simulation.clusterapi.whole.setup import REALM
from simulation.journal import NAMESPACE_NAME, Object
from simulation.person import PACE, Person
from simulation.rules.facts import name_of, runs
from simulation.story import End, Part, Realm, Story, make, nothing, patch, then

VM = {"providerSpec": manifests.machine_class("small", NAMESPACE_NAME, pace=PACE)["providerSpec"]}
"""The VMs of clusters have the tags that those of MachineClasses have."""
OLD, NEW = "v1.34.0", "v1.34.1"
BELONGS = {names.CLUSTER_NAME_LABEL: "demo"}
PLANE_LABELS = {names.CONTROL_PLANE_LABEL: "", **BELONGS}
PATIENCE = 900.0
"""Seconds in which what a story waits for on its way must come: a fault may last for minutes."""


def ref(kind: Kind[Any], name: str) -> dict[str, str]:
    """A reference to an object."""
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "name": name}


def machine_spec(bootstrap: Kind[Any], infra: Kind[Any], name: str, version: str = OLD) -> dict[str, Any]:
    """The spec of a machine, or of what it is cloned from."""
    return {
        "clusterName": "demo",
        "version": version,
        "bootstrap": {"configRef": ref(bootstrap, name)},
        "infrastructureRef": ref(infra, name),
    }


# ---------------------------------------------------------------- making


def create(workers: int = 2, **deployment: Any) -> Part:
    """One machine of the control plane and some workers; ``deployment`` adds to the spec of theirs."""
    return then(create_without_plane(workers, **deployment), make_plane("cp"))


def create_without_plane(workers: int = 2, **deployment: Any) -> Part:
    """Only the workers: they cannot join anything yet."""
    return then(
        make(KUBEWRIGHT_CLUSTER, "demo", spec={}),
        make(CLUSTER, "demo", spec={"infrastructureRef": ref(KUBEWRIGHT_CLUSTER, "demo")}),
        make_workers(workers, **deployment),
    )


def make_workers(workers: int, **deployment: Any) -> Part:
    """A MachineDeployment and its templates."""

    async def part(person: Person) -> None:
        await person.make(
            KUBEADM_CONFIG_TEMPLATE, "md", spec={"template": {"spec": {"joinConfiguration": {}}}}
        )
        await person.make(KUBEWRIGHT_MACHINE_TEMPLATE, "md", spec={"template": {"spec": VM}})
        template = {"spec": machine_spec(KUBEADM_CONFIG_TEMPLATE, KUBEWRIGHT_MACHINE_TEMPLATE, "md")}
        spec = {"clusterName": "demo", "replicas": workers, "selector": {}, "template": template}
        await person.make(MACHINE_DEPLOYMENT, "md", spec={**spec, **deployment})

    return part


def make_plane(name: str) -> Part:
    """A machine of the control plane."""

    async def part(person: Person) -> None:
        both: dict[str, Any] = {"initConfiguration": {}, "joinConfiguration": {"controlPlane": {}}}
        await person.make(KUBEWRIGHT_MACHINE, name, spec=VM)
        await person.make(KUBEADM_CONFIG, name, spec=both)
        meta = {"name": name, "namespace": NAMESPACE_NAME, "labels": PLANE_LABELS}
        await person.make(
            MACHINE, name, metadata=meta, spec=machine_spec(KUBEADM_CONFIG, KUBEWRIGHT_MACHINE, name)
        )

    return part


def make_worker(name: str) -> Part:
    """A worker that no set controls."""
    return then(
        make(KUBEWRIGHT_MACHINE, name, spec=VM),
        make(KUBEADM_CONFIG, name, spec={"joinConfiguration": {}}),
        make(MACHINE, name, spec=machine_spec(KUBEADM_CONFIG, KUBEWRIGHT_MACHINE, name)),
    )


def cluster(workers: int = 2, *more: Part, **deployment: Any) -> Part:
    """What a story begins with: a cluster that is up, and then ``more``."""

    async def before(person: Person) -> None:
        await create(workers, **deployment)(person)
        await person.until(lambda: running(workers)(person), "a cluster", seconds=300)
        for each in more:
            await each(person)

    return before


# ---------------------------------------------------------------- changing


def scale(replicas: int) -> Part:
    """Another number of workers."""
    return patch(MACHINE_DEPLOYMENT, "md", {"spec": {"replicas": replicas}})


roll = patch(MACHINE_DEPLOYMENT, "md", {"spec": {"template": {"spec": {"version": NEW}}}})
"""Another version of all workers."""


def pause(*, paused: bool) -> Part:
    """Pause the cluster, or end the pause."""
    return patch(CLUSTER, "demo", {"spec": {"paused": paused}})


def delete_machine(name: str) -> Part:
    """Delete a machine; its set makes another."""

    async def part(person: Person) -> None:
        person.deleted.add(name)
        await person.remove(MACHINE, name)

    return part


def annotate(name: str, annotation: str, value: str | None = "") -> Part:
    """Annotate a machine; None takes the annotation off."""
    return patch(MACHINE, name, {"metadata": {"annotations": {annotation: value}}})


def story(
    name: str,
    act: Part,
    end: End,
    before: Part = nothing,
    kubelets: KubeletSettings | None = None,
    *,
    realm: Realm = REALM,
) -> Story:
    """A story of whole clusters."""
    return Story(f"whole-cluster-{name}", act, end, before, kubelets, realm=realm)


# ---------------------------------------------------------------- seeing


def machines(person: Person) -> list[Object]:
    """All machines of clusters, by name."""
    found = person.world.journal.objects[resources.CLUSTER_MACHINES]
    return [found[key] for key in sorted(found)]


def workers(person: Person) -> list[Object]:
    """Those that are none of the control plane."""
    return [each for each in machines(person) if not name_of(each).startswith("cp")]


def choose_victim(person: Person) -> str:
    """Let the story be about the first worker; its name."""
    person.victim = name_of(workers(person)[0])
    return person.victim


def plane(person: Person) -> ControlPlane:
    """The API server of the cluster.

    Raises:
        KeyError: there is none now.
    """
    spec = person.world.journal.objects[resources.CLUSTERS][f"{NAMESPACE_NAME}/demo"]["spec"]
    found = person.world.part(Planes).find("{host}:{port}".format(**spec["controlPlaneEndpoint"]))
    if found is None:
        raise KeyError("the control plane does not serve")
    return found


# ---------------------------------------------------------------- ends


def running(wanted: int, version: str = OLD, *, planes: int = 1) -> End:
    """So many workers of this version and their control plane, all Running, and no machine or VM more."""

    def end(person: Person) -> bool:
        found, world = machines(person), person.world.journal
        right = [each for each in workers(person) if runs(each) and each["spec"]["version"] == version]
        vms = [vm for vm in world.vms.values() if vm.bootstrap is not None]
        sizes = {len(found), sum(map(runs, found)), len(world.objects[resources.INFRA_MACHINES]), len(vms)}
        return sizes == {wanted + planes} and len(right) == wanted and not person.broken

    return end


def replaced(wanted: int) -> End:
    """So many workers run, and the victim is none of them."""
    return lambda person: running(wanted)(person) and person.victim not in map(name_of, machines(person))


def nothing_left(person: Person) -> bool:
    """Neither objects nor VMs."""
    journal = person.world.journal
    return (
        all(person.empty(each) for each in resources.CLUSTER_OBJECTS)
        and not journal.vms
        and not person.broken
    )
