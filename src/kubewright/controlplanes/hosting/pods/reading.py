"""From the objects that exist to what the contract answers. Pure.

Theory.      An instance is a pod that the StatefulSet of the component controls, or controlled: the owner
             reference outlives the owner. Its kubelet says whether it is ready. What is wrong with it follows
             from the states of its containers, in the order in which a user would ask: is it ending, does it
             have a node, can it be started, why did it end.
Invariants.  The end of a container's log, which a kubelet may put into a status, is in no message.
Source       S3-19; E-03.
Called by    ``host``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubewright.api.conditions import find_true_condition
from kubewright.api.controlplane.names import (
    CLIENT_PORTS,
    FINGERPRINT_ANNOTATION,
    VERSION_ANNOTATION,
    Component,
)
from kubewright.api.core import POD
from kubewright.api.meta import KubeObject
from kubewright.base.clock import stamp
from kubewright.controlplanes.hosting.contract import Instance, Running, WorkloadAddresses, WorkloadIdentity
from kubewright.controlplanes.hosting.pods.objects import FINISHED, WORKLOAD, ComponentPod, ContainerStatus

LONGEST_MESSAGE = 300
POD_KIND = POD.resource.kind

Seen = Mapping[str, Any]


def addresses(
    identity: WorkloadIdentity, replicas: int, service: Seen | None, domain: str
) -> WorkloadAddresses:
    """The addresses of a workload. ``domain``: the DNS domain of Services in the control cluster."""
    within = f"{identity.namespace}.svc"
    hosts = tuple(f"{identity.instance(each)}.{identity.workload}.{within}" for each in range(replicas))
    if identity.component is Component.CONTROLLER_MANAGER:  # it has no clients
        return WorkloadAddresses(hosts)
    names = [each.removesuffix(".svc") for each in hosts] + [f"{each}.{domain}" for each in hosts]
    names += [identity.workload, f"{identity.workload}.{identity.namespace}"]
    names += [f"{identity.workload}.{within}", f"{identity.workload}.{within}.{domain}"]
    endpoint = _endpoint(identity, service)
    waits = f"the load balancer of Service {identity.workload} has no address yet" if endpoint is None else ""
    return WorkloadAddresses(hosts, endpoint, (*names, *_addresses(service)), waits=waits)


def running(
    identity: WorkloadIdentity,
    stateful_set: Seen | None,
    pods: Iterable[ComponentPod],
    services: Iterable[Seen],
) -> Running:
    """What runs of a workload. ``services``: those that the component object controls."""
    instances = tuple(sorted((_instance(identity, each) for each in pods), key=lambda each: each.ordinal))
    names = [each["metadata"]["name"] for each in services]
    service = identity.workload if identity.workload in names else min(names, default="")
    if stateful_set is None:
        return Running(instances, exists=bool(instances or names), service=service)
    spec = stateful_set["spec"]
    annotations = spec["template"].get("metadata", {}).get("annotations", {})
    ending = stateful_set["metadata"].get("deletionTimestamp")
    applied = "" if ending else annotations.get(FINGERPRINT_ANNOTATION, "")
    replicas = 0 if ending else spec.get("replicas", 1)
    variables = _variables(spec["template"])
    return Running(instances, applied, replicas, exists=True, service=service, variables=variables)


def _variables(template: Seen) -> dict[str, str]:
    """The variables that are known before a pod starts."""
    containers = template.get("spec", {}).get("containers", ())
    found = [entry for container in containers[:1] for entry in container.get("env", ())]
    return {entry["name"]: entry["value"] for entry in found if "value" in entry}


def workload_of(pod: ComponentPod) -> str:
    """The name of the StatefulSet that controls a pod, or controlled it; empty if none did."""
    owner = pod.metadata.controller
    return owner.name if owner is not None and owner.kind == WORKLOAD.resource.kind else ""


def ordinal_of(pod: ComponentPod) -> int | None:
    """Which instance a pod is; None if its name does not say so."""
    last = pod.name.rpartition("-")[2]
    return int(last) if last.isascii() and last.isdigit() else None


def leaving(stateful_set: Seen, pods: Iterable[ComponentPod], claims: Iterable[KubeObject]) -> str:
    """What a smaller number of instances has ended and not removed yet: a clause; empty: nothing.

    Only then may the number grow. The controller of StatefulSets makes no pod whose claim still belongs to
    the pod before it, or is being deleted; and it does not look again when such a claim is gone.

    ``pods``, ``claims``: those of the instances that are to be added
    """
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy", {})
    if policy.get("whenScaled") == "Delete":
        for pod in pods:
            return f"the pod {pod.name} of a larger number before ends first"
    for claim in claims:
        if claim.metadata.deleting or any(each.kind == POD_KIND for each in claim.metadata.owner_references):
            return f"the volume claim {claim.name} of a larger number before is deleted first"
    return ""


def observed(stateful_set: Seen) -> bool:
    """Whether the StatefulSet's controller has seen what was written last."""
    wanted: int = stateful_set["metadata"].get("generation", 0)
    seen: int = stateful_set.get("status", {}).get("observedGeneration", 0)
    return seen >= wanted


def _endpoint(identity: WorkloadIdentity, service: Seen | None) -> tuple[str, int] | None:
    spec = {} if service is None else service.get("spec", {})
    ports = spec.get("ports") or [{}]
    port = ports[0].get("port", CLIENT_PORTS[identity.component])
    if spec.get("type") != "LoadBalancer":
        return f"{identity.workload}.{identity.namespace}.svc", port
    outside = _outside(service)
    return (outside[0], port) if outside else None


def _addresses(service: Seen | None) -> list[str]:
    """The addresses of a Service: its own, and those of its load balancer."""
    spec = {} if service is None else service.get("spec", {})
    own = spec.get("clusterIPs") or [spec.get("clusterIP")]
    found = [*own, *spec.get("externalIPs", ()), *_outside(service)]
    return [each for each in found if each and each != "None"]


def _outside(service: Seen | None) -> list[str]:
    status = {} if service is None else service.get("status", {})
    entries = status.get("loadBalancer", {}).get("ingress") or ()
    return [found for each in entries if (found := each.get("hostname") or each.get("ip"))]


def _instance(identity: WorkloadIdentity, pod: ComponentPod) -> Instance:
    ordinal = ordinal_of(pod) or 0
    meta, containers = pod.metadata, pod.status.container_statuses
    is_ready = find_true_condition(pod.status.conditions, "Ready") is not None
    started = [each.state.running.started_at for each in containers if each.state.running is not None]
    return Instance(
        ordinal,
        pod.name,
        f"{pod.name}.{identity.workload}.{identity.namespace}.svc",
        pod.status.pod_ip,
        fingerprint=meta.annotations.get(FINGERPRINT_ANNOTATION, ""),
        version=meta.annotations.get(VERSION_ANNOTATION, ""),
        ready=is_ready and not meta.deleting and pod.status.phase not in FINISHED,
        ending=meta.deleting,
        since=max((stamp(each) or 0.0 for each in started), default=0.0),
        restarts=sum(each.restart_count for each in containers),
        message=_message(pod, is_ready)[:LONGEST_MESSAGE],
    )


def trouble(pod: ComponentPod) -> str:
    """What is wrong with a pod, or what its end was, a clause; empty if nothing is known."""
    status = pod.status
    if pod.metadata.deleting:
        return "it is ending"
    containers = (*status.init_container_statuses, *status.container_statuses)
    told = next((found for each in containers if (found := _of_container(each))), "")
    if status.phase in FINISHED:
        ended = f"it ended: {status.reason or status.phase}"
        return f"{ended}; {told}" if told and status.phase == "Failed" else ended
    unplaced = next((each for each in status.conditions if each.type == "PodScheduled"), None)
    if unplaced is not None and unplaced.status == "False":
        return f"it has no node: {unplaced.message or unplaced.reason}"
    return told


def _message(pod: ComponentPod, is_ready: bool) -> str:
    status = pod.status
    if told := trouble(pod):
        return told
    if is_ready:
        return ""
    return "it runs and is not ready" if status.phase == "Running" else "it is being started"


def _of_container(container: ContainerStatus) -> str:
    waiting, ended = container.state.waiting, container.state.terminated or container.last_state.terminated
    told = ""
    if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
        told = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    if ended is not None and not container.ready and (ended.exit_code or container.state.terminated is None):
        how = f"it ended with exit code {ended.exit_code}" + (f" ({ended.reason})" if ended.reason else "")
        told = f"{told}; {how}" if told else how
    return told
