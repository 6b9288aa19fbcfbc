"""The four objects of a control plane, as stories and rules name them, and what one sees of them.

Theory.      The stories have one control plane, ``demo``, and its components have the names of their
             workloads: ``demo-etcd``, ``demo-apiserver``, ``demo-controller-manager``. "The four" are these
             objects.
Called by    ``acts``, the stories and the rules.
"""

from typing import Any

from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.kinds import Kind
from kubewright.controlplanes.family import KINDS
from simulation.controlplanes import health
from simulation.controlplanes.machine import HostMachine
from simulation.journal import NAMESPACE_NAME, Journal, Object
from simulation.resources import COMPONENTS, PLANES, SECRETS

PLANE = "plane"
ETCD, SERVER, MANAGER = Component
ORDER = (PLANE, *Component)
"""The four objects, as stories name them."""
FIELDS = {ETCD: "etcd", SERVER: "apiserver", MANAGER: "controllerManager"}
CLUSTER = "demo"


def name_of_part(which: str) -> str:
    """The name of one of the four objects."""
    return CLUSTER if which == PLANE else f"{CLUSTER}-{which}"


def kind_of(which: str) -> Kind[Any]:
    """The kind of one of the four objects."""
    return NESTED_CONTROL_PLANE if which == PLANE else KINDS[Component(which)]


def secret(name: str) -> str:
    """What stands for a Secret in ``Person.deleted``."""
    return f"secrets/{name}"


def find(journal: Journal, which: str) -> Object | None:
    """One of the four objects, as it is now."""
    resource = PLANES if which == PLANE else COMPONENTS[Component(which)]
    return journal.objects[resource].get(f"{NAMESPACE_NAME}/{name_of_part(which)}")


def ready(found: Object | None) -> bool:
    """Whether one of the four says that it is ready."""
    return found is not None and bool(found.get("status", {}).get("ready"))


def clients_get_in(journal: Journal, machine: HostMachine) -> bool:
    """Whether a client with the control plane's kubeconfig gets into an API server of it, at the endpoint."""
    held = journal.objects[SECRETS].get(f"{NAMESPACE_NAME}/{CLUSTER}-kubeconfig")
    found = find(journal, PLANE) or {}
    endpoint = found.get("spec", {}).get("controlPlaneEndpoint") or {}
    if held is None:
        return False
    text = health.value_of(held)
    access = health.access(text)
    servers = machine.instances(NAMESPACE_NAME, name_of_part(SERVER))
    right = access is not None and access.server == "https://{host}:{port}".format(**endpoint)
    workloads = [each.workload for each in servers if machine.serves(each)]
    return right and any(health.gets_in(text, each, machine.now()) for each in workloads)
