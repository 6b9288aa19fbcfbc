"""Ready-to-use classes of the simulated cloud, and their Secret, as plain objects.

``sim-small`` is there from the first minute; ``sim-large`` is what a rolling update goes to. They
differ in what people see of a node: size, instance type and kubelet version.

Called by    ``compose`` (``kubewright up``), the demo, tests.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from kubewright.providers.sim.vm import SCHEME
from kubewright.wire.release import KUBERNETES

NAMESPACE = "default"
SECRET_NAME = "sim-secret"
USER_DATA = "#!/bin/sh\n# A simulated VM boots by itself; a real one would join with <<BOOTSTRAP_TOKEN>>.\n"
CLUSTER_TAGS = {"kubernetes.io/cluster/sim": "1", "kubernetes.io/role/node": "1"}
"""Tags by which the classes find their VMs again, orphans included."""

Object = dict[str, Any]


def objects(namespace: str = NAMESPACE, *, pace: float = 1.0) -> list[Object]:
    """The Secret and both classes, in the order in which they can be created.

    ``pace`` stretches or shrinks all delays; 0 makes a cloud that answers at once.
    """
    return [
        secret(namespace),
        machine_class("sim-small", namespace, pace=pace),
        machine_class("sim-large", namespace, pace=pace, cpu="8", memory="32Gi", kubelet_version="v1.35.0"),
    ]


def secret(namespace: str = NAMESPACE) -> Object:
    """The Secret that the classes refer to; it holds nothing secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME, "namespace": namespace},
        "type": "Opaque",
        "data": {"userData": b64encode(USER_DATA.encode()).decode()},
    }


def machine_class(
    name: str,
    namespace: str = NAMESPACE,
    *,
    pace: float = 1.0,
    cpu: str = "2",
    memory: str = "4Gi",
    kubelet_version: str = KUBERNETES,
    more: Mapping[str, Any] | None = None,
) -> Object:
    """A MachineClass of the simulated cloud; ``more`` adds to or replaces its providerSpec's fields."""
    region, zone, instance_type = "sim-1", "sim-1a", name.replace("-", ".")
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {"name": name, "namespace": namespace},
        "provider": SCHEME,
        "secretRef": {"name": SECRET_NAME, "namespace": namespace},
        "nodeTemplate": {
            "capacity": {"cpu": cpu, "gpu": "0", "memory": memory},
            "instanceType": instance_type,
            "region": region,
            "zone": zone,
        },
        "providerSpec": {
            "region": region,
            "zone": zone,
            "instanceType": instance_type,
            "tags": dict(CLUSTER_TAGS),
            "createSeconds": 0.5 * pace,
            "bootSeconds": 1.5 * pace,
            "deleteSeconds": 0.5 * pace,
            "kubeletVersion": kubelet_version,
            "capacity": {"cpu": cpu, "memory": memory, "ephemeral-storage": "20Gi", "pods": "110"},
            **(more or {}),
        },
    }
