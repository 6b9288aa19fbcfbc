"""What Kubernetes does with built-in kinds beyond what its OpenAPI says: defaults and allowed values.

Theory.      kube-apiserver sets defaults in Go code, not by schema. The constant ones are
             here, by definition and field; the others are small functions in
             ``registry.builtin.prepare``. The same for fields with a fixed set of values.
Called by    ``builtin.definition``.
"""

from collections.abc import Mapping
from typing import Any

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL = ("Always", "IfNotPresent", "Never")
_RESTART = ("Always", "OnFailure", "Never")

ENUMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "core.v1.Container": {
        "imagePullPolicy": _PULL,
        "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    },
    "core.v1.ContainerPort": {"protocol": _PROTOCOLS},
    "core.v1.PodSpec": {
        "restartPolicy": _RESTART,
        "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    },
    "core.v1.ServiceSpec": {
        "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "sessionAffinity": ("ClientIP", "None"),
    },
    "core.v1.ServicePort": {"protocol": _PROTOCOLS},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain")},
    "apps.v1.DeploymentStrategy": {"type": ("Recreate", "RollingUpdate")},
    "apps.v1.DaemonSetUpdateStrategy": {"type": ("OnDelete", "RollingUpdate")},
    "apps.v1.StatefulSetUpdateStrategy": {"type": ("OnDelete", "RollingUpdate")},
    "batch.v1.CronJobSpec": {"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
    "discovery.v1.EndpointSlice": {"addressType": ("FQDN", "IPv4", "IPv6")},
    "autoscaling.v2.MetricSpec": {"type": ("ContainerResource", "External", "Object", "Pods", "Resource")},
    "policy.v1.PodDisruptionBudgetSpec": {"unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget")},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": ("PreemptLowerPriority", "Never")},
}

_CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
_MODE: Mapping[str, Any] = {"defaultMode": 420}

_SPEC: Mapping[str, Any] = {"spec": {}}
"""In Go a struct is never absent, so its required fields are always checked."""

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(
        (
            "apps.v1.DaemonSet",
            "apps.v1.Deployment",
            "apps.v1.ReplicaSet",
            "apps.v1.StatefulSet",
            "autoscaling.v1.HorizontalPodAutoscaler",
            "autoscaling.v2.HorizontalPodAutoscaler",
            "batch.v1.CronJob",
            "batch.v1.Job",
            "batch.v1.JobTemplateSpec",
            "certificates.v1.CertificateSigningRequest",
            "core.v1.PersistentVolume",
            "core.v1.PersistentVolumeClaim",
            "core.v1.Pod",
            "core.v1.PodTemplateSpec",
            "core.v1.ReplicationController",
            "core.v1.ResourceQuota",
            "core.v1.Service",
            "networking.v1.Ingress",
            "networking.v1.IngressClass",
            "resource.v1.DeviceClass",
            "resource.v1.ResourceClaim",
            "resource.v1.ResourceClaimTemplate",
            "resource.v1.ResourceSlice",
            "storage.v1.CSIDriver",
            "storage.v1.CSINode",
        ),
        _SPEC,
    ),
    "core.v1.Container": _CONTAINER,
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.SecretVolumeSource": _MODE,
    "core.v1.ConfigMapVolumeSource": _MODE,
    "core.v1.DownwardAPIVolumeSource": _MODE,
    "core.v1.ProjectedVolumeSource": _MODE,
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"},
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.ServiceSpec": {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    },
    "core.v1.ServicePort": {"protocol": "TCP"},
    "autoscaling.v1.HorizontalPodAutoscalerSpec": {"maxReplicas": 0, "scaleTargetRef": {}},
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"maxReplicas": 0, "scaleTargetRef": {}},
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "networking.v1.HTTPIngressPath": {"pathType": ""},
    "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
    "networking.v1.NetworkPolicy": {"spec": {}},
    "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
    "networking.v1.NetworkPolicySpec": {"podSelector": {}},
    "resource.v1.ResourceClaimTemplateSpec": {"metadata": {}, "spec": {}},
    "resource.v1.ResourceClaimSpec": {"devices": {}},
    "resource.v1.ResourcePool": {"name": "", "generation": 0, "resourceSliceCount": 0},
    "resource.v1.ResourceSliceSpec": {"driver": "", "pool": {}},
    "apps.v1.DeploymentSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {},
        "template": {},
    },
    "apps.v1.ReplicaSetSpec": {"replicas": 1, "template": {}},
    "apps.v1.StatefulSetSpec": {
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "podManagementPolicy": "OrderedReady",
        "template": {},
        "updateStrategy": {},
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    },
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10, "updateStrategy": {}, "template": {}},
    "apps.v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps.v1.RollingUpdateDeployment": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "apps.v1.RollingUpdateDaemonSet": {"maxSurge": 0, "maxUnavailable": 1},
    "apps.v1.RollingUpdateStatefulSetStrategy": {"partition": 0},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "core.v1.EndpointPort": {"protocol": "TCP"},
    "discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "apiextensions.v1.CustomResourceConversion": {"strategy": "None"},
    "apiextensions.v1.CustomResourceDefinitionSpec": {"conversion": {"strategy": "None"}},
}

LENIENT = frozenset(
    (
        "AttachedVolume", "Condition", "ConfigMapNodeConfigSource", "ContainerState",
        "ContainerStateTerminated", "ControllerRevision", "CSINodeSpec", "CustomResourceColumnDefinition",
        "CustomResourceConversion", "CustomResourceDefinitionCondition", "CustomResourceDefinitionNames",
        "CustomResourceDefinitionSpec", "CustomResourceDefinitionVersion",
        "CustomResourceSubresourceScale", "DaemonEndpoint", "DaemonSetCondition", "DeploymentCondition",
        "Event", "EventSeries", "JobCondition", "LabelSelectorRequirement", "LimitRangeSpec",
        "NamespaceCondition", "NodeAddress", "NodeCondition", "NodeSystemInfo", "OwnerReference",
        "PersistentVolumeClaimCondition", "PodCondition", "PolicyRule", "ReplicaSetCondition", "Scale",
        "SelectableField", "StatefulSetCondition", "Subject", "Taint", "TokenRequest",
        "VolumeAttachmentSource",
    )
)  # fmt: skip
"""Structs whose ``required`` marks kube-apiserver does not check: parts of statuses, which controllers
write, and those that ``registry.builtin.check`` validates with other messages."""

MAY_BE_EMPTY = frozenset(
    (
        "core.v1.HTTPHeader.value", "core.v1.Sysctl.value", "core.v1.HostIP.ip", "core.v1.PodIP.ip",
        "core.v1.ResourceHealth.resourceID", "authentication.v1.TokenReviewSpec.token",
        "authorization.v1.NonResourceRule.verbs", "authorization.v1.ResourceRule.verbs",
        "batch.v1.PodFailurePolicy.rules", "resource.v1.DeviceAllocationConfiguration.source",
    )
)  # fmt: skip
"""Texts and lists that are marked as required and may be empty, and so may be left out: in Go the two are the
same. Of all others an empty one is as good as none."""
