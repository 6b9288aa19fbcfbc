"""Which columns ``kubectl get`` shows of built-in kinds: names, priorities and cells.

Theory.      The columns of priority 0 are always shown, those of priority 1 with ``-o wide``. Names
             equal kube-apiserver's, since scripts cut columns by them. ``Name`` comes first and
             needs no mention, except where it stands elsewhere (Events) or says more.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from kubewright.apiserver.registry.builtin.cells import (
    NONE,
    Cell,
    access_modes,
    age,
    binding_role,
    binding_subjects,
    claim_state,
    class_name,
    class_parameters,
    count,
    endpoint_addresses,
    event_message,
    event_source,
    field,
    first_seen,
    if_bound,
    ingress_addresses,
    ingress_hosts,
    ingress_ports,
    involved_object,
    job_completions,
    job_duration,
    job_status,
    labels,
    last_seen,
    least_pods,
    names,
    node_address,
    node_kernel,
    node_roles,
    node_status,
    number,
    pod_ip,
    pod_ready,
    pod_restarts,
    pod_status,
    ratio,
    readiness_gates,
    request_state,
    requested_duration,
    resources_used,
    revision_controller,
    scale_target,
    scaler_metrics,
    selector,
    service_cluster_ip,
    service_external_ip,
    service_ports,
    slice_endpoints,
    slice_ports,
    storage_class,
    text,
    times_seen,
    unless_deleting,
    volume_claim,
)
from kubewright.apiserver.registry.builtin.conversion import to_core_event, to_newer
from kubewright.apiserver.registry.kind import Column
from kubewright.apiserver.schema.node import Object


def _column(name: str, cell: Cell, type: str = "string", *, priority: int = 0, format: str = "") -> Column:
    return Column(name, type, format, priority=priority, cell=cell)


def _wide(name: str, cell: Cell) -> Column:
    return _column(name, cell, priority=1)


def _int(name: str, cell: Cell) -> Column:
    return _column(name, cell, "integer")


def _bool(name: str, cell: Cell) -> Column:
    return _column(name, cell, "boolean")


AGE = _column("Age", age())
_CREATED = (_column("Created At", field("metadata.creationTimestamp"), "date"),)


def _template(path: str = "spec.template", chosen: str = "spec.selector") -> tuple[Column, ...]:
    """Containers, images and selector of a workload."""
    containers = f"{path}.spec.containers"
    return (
        _wide("Containers", names(containers, "name")),
        _wide("Images", names(containers, "image")),
        _wide("Selector", selector(chosen)),
    )


_EVENT = (
    _column("Last Seen", last_seen),
    _column("Type", field("type")),
    _column("Reason", field("reason")),
    _column("Object", involved_object),
    _wide("Subobject", field("involvedObject.fieldPath")),
    _wide("Source", event_source),
    _column("Message", event_message),
    _wide("First Seen", first_seen),
    _wide("Count", times_seen),
    _column("Name", field("metadata.name"), format="name", priority=1),
)


def _in_shape(column: Column, of: Callable[[Object], Object]) -> Column:
    """A column of one shape of a kind, for another shape of it."""
    cell = column.cell
    return replace(column, cell=cell and (lambda obj, now: cell(of(obj), now)))


_POD = (
    _column("Ready", pod_ready),
    _column("Status", pod_status),
    _column("Restarts", pod_restarts),
    AGE,
    _wide("IP", pod_ip),
    _wide("Node", text("spec.nodeName")),
    _wide("Nominated Node", text("status.nominatedNodeName")),
    _wide("Readiness Gates", readiness_gates),
)
_NODE = (
    _column("Status", node_status),
    _column("Roles", node_roles),
    AGE,
    _column("Version", field("status.nodeInfo.kubeletVersion")),
    _wide("Internal-IP", node_address("InternalIP")),
    _wide("External-IP", node_address("ExternalIP")),
    _wide("OS-Image", text("status.nodeInfo.osImage", "<unknown>")),
    _wide("Kernel-Version", node_kernel),
    _wide("Container-Runtime", text("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
)
_SERVICE = (
    _column("Type", field("spec.type")),
    _column("Cluster-IP", service_cluster_ip),
    _column("External-IP", service_external_ip),
    _column("Port(s)", service_ports),
    AGE,
    _wide("Selector", labels("spec.selector")),
)
_REPLICAS = (
    _int("Desired", number("spec.replicas")),
    _int("Current", number("status.replicas")),
    _int("Ready", number("status.readyReplicas")),
    AGE,
    *_template(),
)
_DAEMONS = (
    _int("Desired", number("status.desiredNumberScheduled")),
    _int("Current", number("status.currentNumberScheduled")),
    _int("Ready", number("status.numberReady")),
    _int("Up-to-date", number("status.updatedNumberScheduled")),
    _int("Available", number("status.numberAvailable")),
    _column("Node Selector", labels("spec.template.spec.nodeSelector")),
    AGE,
    *_template(),
)
_DEPLOYMENT = (
    _column("Ready", ratio("status.readyReplicas", "spec.replicas")),
    _column("Up-to-date", number("status.updatedReplicas")),
    _column("Available", number("status.availableReplicas")),
    AGE,
    *_template(),
)
_JOB = (
    _column("Status", job_status),
    _column("Completions", job_completions),
    _column("Duration", job_duration),
    AGE,
    *_template(),
)
_CRON_JOB = (
    _column("Schedule", field("spec.schedule")),
    _column("Timezone", field("spec.timeZone", NONE)),
    _bool("Suspend", lambda obj, now: str(field("spec.suspend", False)(obj, now))),
    _int("Active", count("status.active")),
    _column(
        "Last Schedule", lambda obj, now: age("status.lastScheduleTime")(obj, now).replace("<unknown>", NONE)
    ),
    AGE,
    *_template("spec.jobTemplate.spec.template", "spec.jobTemplate.spec.selector"),
)
_CLAIM = (
    _column("Status", unless_deleting("status.phase")),
    _column("Volume", field("spec.volumeName")),
    _column("Capacity", if_bound(field("status.capacity.storage", "0"))),
    _column("Access Modes", if_bound(access_modes("status.accessModes"))),
    _column("StorageClass", storage_class),
    _column("VolumeAttributesClass", field("spec.volumeAttributesClassName", "<unset>")),
    AGE,
    _wide("VolumeMode", field("spec.volumeMode", "<unset>")),
)
_VOLUME = (
    _column("Capacity", field("spec.capacity.storage", "0")),
    _column("Access Modes", access_modes("spec.accessModes")),
    _column("Reclaim Policy", field("spec.persistentVolumeReclaimPolicy")),
    _column("Status", unless_deleting("status.phase")),
    _column("Claim", volume_claim),
    _column("StorageClass", storage_class),
    _column("VolumeAttributesClass", field("spec.volumeAttributesClassName", "<unset>")),
    _column("Reason", field("status.reason")),
    AGE,
    _wide("VolumeMode", field("spec.volumeMode", "<unset>")),
)
_BINDING = (
    _column("Role", binding_role),
    AGE,
    _wide("Users", binding_subjects("User")),
    _wide("Groups", binding_subjects("Group")),
    _wide("ServiceAccounts", binding_subjects("ServiceAccount")),
)
_CSI_DRIVER = (
    _bool("AttachRequired", field("spec.attachRequired", True)),
    _bool("PodInfoOnMount", field("spec.podInfoOnMount", False)),
    _bool("StorageCapacity", field("spec.storageCapacity", False)),
    _column("TokenRequests", lambda obj, now: names("spec.tokenRequests", "audience")(obj, now) or "<unset>"),
    _bool("RequiresRepublish", field("spec.requiresRepublish", False)),
    _column("Modes", lambda obj, now: ",".join(field("spec.volumeLifecycleModes", ())(obj, now)) or NONE),
    AGE,
)

_AUTOSCALER = (
    _column("Reference", scale_target),
    _column("Targets", scaler_metrics),
    _column("MinPods", least_pods),
    _column("MaxPods", number("spec.maxReplicas")),
    _column("Replicas", number("status.currentReplicas")),
    AGE,
)
_INGRESS = (
    _column("Class", text("spec.ingressClassName")),
    _column("Hosts", ingress_hosts),
    _column("Address", ingress_addresses),
    _column("Ports", ingress_ports),
    AGE,
)

_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "core.v1.ConfigMap": (_column("Data", count("data", "binaryData")), AGE),
    "core.v1.Endpoints": (_column("Endpoints", endpoint_addresses), AGE),
    "core.v1.Event": _EVENT,
    "events.v1.Event": tuple(_in_shape(column, to_core_event) for column in _EVENT),
    "core.v1.LimitRange": _CREATED,
    "core.v1.Namespace": (_column("Status", field("status.phase")), AGE),
    "core.v1.Node": _NODE,
    "core.v1.PersistentVolumeClaim": _CLAIM,
    "core.v1.PersistentVolume": _VOLUME,
    "core.v1.Pod": _POD,
    "core.v1.ReplicationController": (
        *_REPLICAS[:4],
        *_template()[:2],
        _wide("Selector", labels("spec.selector")),
    ),
    "core.v1.ResourceQuota": (
        _column("Request", resources_used(limits=False)),
        _column("Limit", resources_used(limits=True)),
        AGE,
    ),
    "core.v1.Secret": (_column("Type", field("type")), _column("Data", count("data")), AGE),
    "core.v1.ServiceAccount": (AGE,),
    "core.v1.Service": _SERVICE,
    "apps.v1.ControllerRevision": (
        _column("Controller", revision_controller),
        _column("Revision", number("revision")),
        AGE,
    ),
    "apps.v1.DaemonSet": _DAEMONS,
    "apps.v1.Deployment": _DEPLOYMENT,
    "apps.v1.ReplicaSet": _REPLICAS,
    "apps.v1.StatefulSet": (
        _column("Ready", ratio("status.readyReplicas", "spec.replicas")),
        AGE,
        *_template()[:2],
    ),
    "autoscaling.v1.HorizontalPodAutoscaler": tuple(_in_shape(column, to_newer) for column in _AUTOSCALER),
    "autoscaling.v2.HorizontalPodAutoscaler": _AUTOSCALER,
    "batch.v1.CronJob": _CRON_JOB,
    "batch.v1.Job": _JOB,
    "certificates.v1.CertificateSigningRequest": (
        AGE,
        _column("SignerName", field("spec.signerName", NONE)),
        _column("Requestor", field("spec.username")),
        _column("RequestedDuration", requested_duration),
        _column("Condition", request_state),
    ),
    "coordination.v1.Lease": (_column("Holder", field("spec.holderIdentity")), AGE),
    "discovery.v1.EndpointSlice": (
        _column("AddressType", field("addressType")),
        _column("Ports", slice_ports),
        _column("Endpoints", slice_endpoints),
        AGE,
    ),
    "networking.v1.Ingress": _INGRESS,
    "networking.v1.IngressClass": (
        _column("Controller", field("spec.controller")),
        _column("Parameters", class_parameters),
        AGE,
    ),
    "networking.v1.NetworkPolicy": (_column("Pod-Selector", selector("spec.podSelector")), AGE),
    "node.v1.RuntimeClass": (_column("Handler", field("handler")), AGE),
    "policy.v1.PodDisruptionBudget": (
        _column("Min Available", lambda obj, now: str(field("spec.minAvailable", "N/A")(obj, now))),
        _column("Max Unavailable", lambda obj, now: str(field("spec.maxUnavailable", "N/A")(obj, now))),
        _int("Allowed Disruptions", number("status.disruptionsAllowed")),
        AGE,
    ),
    "rbac.v1.ClusterRoleBinding": _BINDING,
    "rbac.v1.RoleBinding": _BINDING,
    "rbac.v1.ClusterRole": _CREATED,
    "rbac.v1.Role": _CREATED,
    "resource.v1.DeviceClass": (AGE,),
    "resource.v1.ResourceClaim": (_column("State", claim_state), AGE),
    "resource.v1.ResourceClaimTemplate": (AGE,),
    "resource.v1.ResourceSlice": (
        _column("Node", field("spec.nodeName", "<unset>")),
        _column("Driver", field("spec.driver")),
        _column("Pool", field("spec.pool.name")),
        AGE,
    ),
    "scheduling.v1.PriorityClass": (
        _int("Value", number("value")),
        _bool("Global-Default", field("globalDefault", False)),
        AGE,
        _column("PreemptionPolicy", field("preemptionPolicy")),
    ),
    "storage.v1.CSIDriver": _CSI_DRIVER,
    "storage.v1.CSINode": (_int("Drivers", count("spec.drivers")), AGE),
    "storage.v1.CSIStorageCapacity": _CREATED,
    "storage.v1.StorageClass": (
        _column("Name", class_name, format="name"),
        _column("Provisioner", field("provisioner")),
        _column("ReclaimPolicy", field("reclaimPolicy", "Delete")),
        _column("VolumeBindingMode", field("volumeBindingMode", "Immediate")),
        _column("AllowVolumeExpansion", field("allowVolumeExpansion", False)),
        AGE,
    ),
    "storage.v1.VolumeAttachment": (
        _column("Attacher", field("spec.attacher"), format="name"),
        _column("PV", field("spec.source.persistentVolumeName")),
        _column("Node", field("spec.nodeName")),
        _bool("Attached", field("status.attached", False)),
        AGE,
    ),
    "apiextensions.v1.CustomResourceDefinition": _CREATED,
}


def of(definition: str) -> tuple[Column, ...]:
    """The columns of a built-in kind; empty for kinds that are only ever created."""
    return _COLUMNS.get(definition, ())
