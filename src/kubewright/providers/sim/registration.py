"""What a hollow kubelet writes: its Node, its conditions, its Lease. Pure.

Source    the shapes are those that kubelets of Kubernetes 1.34 and later send; ``kubectl get nodes -o wide``
          and ``kubectl describe node`` find every field that they print.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

import msgspec

from kubewright.api.conditions import condition_of, dated
from kubewright.api.core import NodeCondition
from kubewright.base.clock import rfc3339_micro
from kubewright.providers.sim.vm import NOT_READY, Vm

LEASE_NAMESPACE = "kube-node-lease"
FAULT_ANNOTATION = "sim.kubewright.dev/fault"
"""On a Node: the faults that its VM is to have (``vm.orders_in``)."""

_GOOD: Mapping[str, tuple[str, str]] = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
"""Conditions that every kubelet reports, beside Ready."""
_BAD: Mapping[str, tuple[str, str]] = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    "NetworkUnavailable": ("NoRouteCreated", "the simulated network is down"),
    "KernelDeadlock": ("DockerHung", "the simulated kernel is stuck"),
    "ReadonlyFilesystem": ("FilesystemIsReadOnly", "the simulated file system is read-only"),
}
_FINE = ("SimulatedFaultEnded", "the simulated fault is over")
READY = "Ready"


def statuses(bad: AbstractSet[str], known: AbstractSet[str]) -> dict[str, str]:
    """The conditions that a kubelet reports now: status by type.

    ``known`` are the types that its Node already has: one that was bad and no longer is turns False
    instead of going away. Conditions that others write are not among ours and stay as they are.
    """
    ours = _GOOD.keys() | (bad - {NOT_READY}) | (known & _BAD.keys())
    return {
        READY: "False" if NOT_READY in bad else "True",
        **{kind: "True" if kind in bad else "False" for kind in sorted(ours)},
    }


def conditions(
    wanted: Mapping[str, str], before: Sequence[NodeCondition], now: datetime
) -> list[dict[str, Any]]:
    """The conditions to report; the time of the last change is kept where nothing changed."""
    now, report = now.replace(microsecond=0), []
    for kind, status in wanted.items():
        reason, message = _words(kind, status)
        found = NodeCondition(
            type=kind,
            status=status,
            last_heartbeat_time=now,
            last_transition_time=now,
            reason=reason,
            message=message,
        )
        report.append(msgspec.to_builtins(dated(found, condition_of(before, kind))))
    return report


NOTHING_LISTENS: Mapping[str, Any] = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}}
"""In the status of a Node: by this an API server knows that there is no kubelet that could be asked. Earlier
releases wrote a port, so it is a part of each report too."""


def node(vm: Vm, wanted: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """The Node that a VM's kubelet registers, status included."""
    spec, name = vm.spec, vm.node_name
    taints = (*spec.taints, *(vm.bootstrap.taints if vm.bootstrap is not None else ()))
    capacity = {resource: str(amount) for resource, amount in spec.capacity.items()}
    return {
        "metadata": {"name": name, "labels": _labels(vm), "annotations": dict(spec.annotations)},
        "spec": {
            "providerID": vm.provider_id,
            **({"taints": [msgspec.to_builtins(taint) for taint in taints]} if taints else {}),
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": conditions(wanted, (), now),
            "addresses": [
                {"type": "InternalIP", "address": vm.address},
                {"type": "Hostname", "address": name},
            ],
            **NOTHING_LISTENS,
            "nodeInfo": _node_info(vm),
        },
    }


def lease(vm: Vm, node_uid: str, seconds: float, now: datetime) -> dict[str, Any]:
    """A node's Lease; the Node owns it, so it goes when the Node goes."""
    return {
        "metadata": {
            "name": vm.node_name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": vm.node_name, "uid": node_uid}],
        },
        **renewal(vm, seconds, now),
    }


def renewal(vm: Vm, seconds: float, now: datetime) -> dict[str, Any]:
    """The merge patch that renews a Lease."""
    return {
        "spec": {
            "holderIdentity": vm.node_name,
            "leaseDurationSeconds": max(1, round(seconds)),
            "renewTime": rfc3339_micro(now),
        }
    }


def _labels(vm: Vm) -> dict[str, str]:
    spec = vm.spec
    return {
        "kubernetes.io/hostname": vm.node_name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": spec.architecture,
        "node.kubernetes.io/instance-type": spec.instance_type,
        "topology.kubernetes.io/region": spec.region,
        "topology.kubernetes.io/zone": spec.zone,
        **spec.labels,
        **(vm.bootstrap.labels if vm.bootstrap is not None else {}),
    }


def _node_info(vm: Vm) -> dict[str, str]:
    """All members are required by the API, so the machine must have some kernel."""
    machine_id = f"{vm.serial:032x}"
    return {
        "machineID": machine_id,
        "systemUUID": machine_id,
        "bootID": f"{machine_id}-{vm.boot}",
        "kernelVersion": "6.12.0-sim",
        "osImage": "Simulated Linux",
        "containerRuntimeVersion": "hollow://1.0",
        "kubeletVersion": vm.spec.kubelet_version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": vm.spec.architecture,
    }


def _words(kind: str, status: str) -> tuple[str, str]:
    """Reason and message of a condition."""
    if kind == READY:
        ready = ("KubeletReady", "kubelet is posting ready status")
        return ready if status == "True" else ("KubeletNotReady", "the simulated container runtime is down")
    if status == "True":
        return _BAD.get(kind, ("SimulatedFault", "a simulated fault"))
    return _GOOD.get(kind, _FINE)
