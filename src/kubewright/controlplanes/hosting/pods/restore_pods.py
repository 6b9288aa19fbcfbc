"""The pods that put a snapshot into the volumes of an etcd that is stopped, one for each member. Pure.

Theory.      A pod runs three containers, one after another. ``receive`` is this program: it takes the
             snapshot from us over TLS, on the port and with the certificate of the etcd, and writes it into
             the volume. ``restore`` is ``etcdutl`` from the etcd's own image: it makes the new data.
             ``place`` is this program again: two renames put the new data in the place of the former. A pod
             that has succeeded stays, and says that its member is done, until the etcd starts again.
Invariants.  A pod has the volumes, the user, the node selection and the image of the pods that it stands for,
             and no token of an account. It has the mark of one restore; a pod with another mark is deleted.
Source       decision 0041.
Called by    ``restoring``, ``host``.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs, to_builtins

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import CLIENT_PORTS, RESTORING_ANNOTATION, ROLE_LABEL
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.pods.objects import ComponentPod, selector
from kubewright.controlplanes.hosting.pods.reading import trouble
from kubewright.controlplanes.members import ETCDUTL, etcdutl_arguments, former_name, peer_url
from kubewright.controlplanes.templates.render import DATA_FOLDER

Seen = Mapping[str, Any]
SUFFIX = "-restore"
ROLE = "etcd-restore"
"""The role of these pods, by which no Service and no StatefulSet selects them."""
DONE, FAILED = "Succeeded", "Failed"
PARENT = DATA_FOLDER.rpartition("/")[0]
FOLDER = f"{PARENT}/restoring"
SNAPSHOT, NEW = f"{FOLDER}/snapshot", f"{FOLDER}/data"
"""In a container: where the snapshot and the new data are, in the volume of the data."""
MADE_ANEW = timedelta(seconds=60)
"""How long a pod that has failed is left for a user to look at."""
LONGEST = 1800
"""Seconds after which a pod is ended that is not done."""
TLS = ("cert-file", "key-file", "trusted-ca-file")
"""The flags of etcd that ``receive`` has too."""
OF_POD = (
    "affinity",
    "dnsConfig",
    "dnsPolicy",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "serviceAccountName",
    "tolerations",
    "volumes",
)
"""The fields of a pod's spec that are taken over from the StatefulSet's template."""


def name_of(identity: WorkloadIdentity, ordinal: int) -> str:
    """The name of the pod for one member."""
    return f"{identity.instance(ordinal)}{SUFFIX}"


def claims_of(stateful_set: Seen, identity: WorkloadIdentity, ordinal: int) -> dict[str, str]:
    """The claims of one member, by the name of their volume."""
    templates = stateful_set["spec"].get("volumeClaimTemplates", ())
    names = [each["metadata"]["name"] for each in templates]
    return {each: f"{each}-{identity.instance(ordinal)}" for each in names}


def kept(identity: WorkloadIdentity, claims: Iterable[str]) -> int:
    """How many members an etcd had, by the names of the claims that are left of it."""
    return max((each + 1 for each in ordinals(identity, claims)), default=0)


def ordinals(identity: WorkloadIdentity, claims: Iterable[str]) -> frozenset[int]:
    """The members of an etcd that have a claim, by the names of the claims."""
    known = f"-{identity.workload}-"
    found = (last for name in claims for _, is_its, last in [name.rpartition(known)] if is_its)
    return frozenset(int(each) for each in found if each.isdigit())


def with_data(
    stateful_set: Seen, identity: WorkloadIdentity, claims: Collection[str]
) -> frozenset[int] | None:
    """The ordinals all of whose claims are there; None: its instances have no claims."""
    if not stateful_set["spec"].get("volumeClaimTemplates"):
        return None
    return frozenset(
        each
        for each in ordinals(identity, claims)
        if set(claims_of(stateful_set, identity, each).values()) <= {*claims}
    )


def claim_manifests(stateful_set: Seen, identity: WorkloadIdentity, ordinal: int) -> list[dict[str, Any]]:
    """The claims of one member, as the controller of StatefulSets makes them."""
    names, spec = claims_of(stateful_set, identity, ordinal), stateful_set["spec"]
    selected = spec["selector"]["matchLabels"]
    return [
        {
            "metadata": {
                "name": names[each["metadata"]["name"]],
                "namespace": identity.namespace,
                "labels": {**each["metadata"].get("labels", {}), **selected},
            },
            "spec": each["spec"],
        }
        for each in spec.get("volumeClaimTemplates", ())
    ]


def unfit(stateful_set: Seen) -> str:
    """Why the data in these pods cannot be replaced, a sentence; empty: it can."""
    container = stateful_set["spec"]["template"]["spec"]["containers"][0]
    claimed = {each["metadata"]["name"] for each in stateful_set["spec"].get("volumeClaimTemplates", ())}
    mounted = [each["mountPath"] for each in container.get("volumeMounts", ()) if each["name"] in claimed]
    if PARENT not in mounted:
        return f"its template mounts no volume claim at {PARENT}, so its data cannot be replaced"
    if missing := [flag for flag in TLS if not _flag(container, flag)]:
        return f"its template has no flag {missing[0]}, so nothing can be sent to its pods"
    return ""


@dataclass(frozen=True, slots=True)
class Task:
    """The replacement of the data of one of ``members``. ``image``: of this program."""

    identity: WorkloadIdentity
    ordinal: int
    members: int
    mark: str
    image: str


def pod_of(stateful_set: Seen, task: Task) -> dict[str, Any]:
    """The pod for one member."""
    identity, ordinal, template = task.identity, task.ordinal, stateful_set["spec"]["template"]["spec"]
    owner = structs.replace(identity.object, controller=True, block_owner_deletion=True)
    claims = claims_of(stateful_set, identity, ordinal)
    volumes = [each for each in template.get("volumes", ()) if each["name"] not in claims]
    bound = [{"name": name, "persistentVolumeClaim": {"claimName": each}} for name, each in claims.items()]
    receive, restore, put = _containers(template, task)
    return {
        "metadata": {
            "name": name_of(identity, ordinal),
            "namespace": identity.namespace,
            "labels": {**selector(identity), ROLE_LABEL: ROLE, CLUSTER_NAME_LABEL: identity.cluster},
            "annotations": {RESTORING_ANNOTATION: task.mark},
            "ownerReferences": [to_builtins(owner)],
        },
        "spec": {
            **{name: template[name] for name in OF_POD if name in template},
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST,
            "terminationGracePeriodSeconds": 5,
            "initContainers": [receive, restore],
            "containers": [put],
            "volumes": [*volumes, *bound],
        },
    }


def host_of(identity: WorkloadIdentity, ordinal: int) -> str:
    """The name in the certificate of a member."""
    return f"{identity.instance(ordinal)}.{identity.workload}.{identity.namespace}.svc"


def told_of(identity: WorkloadIdentity, mark: str) -> str:
    """Where the former data of the first member is kept."""
    return f"{former_name(mark)}, in the volumes of {identity.workload}"


def is_of(pod: ComponentPod, mark: str) -> bool:
    """Whether a pod belongs to the restore with this mark."""
    return pod.metadata.annotations.get(RESTORING_ANNOTATION) == mark


def is_over(pod: ComponentPod, mark: str, now: datetime) -> bool:
    """Whether a pod is to be deleted: it is that of another restore, or has failed a while ago."""
    made = pod.metadata.creation_timestamp
    late = made is None or now >= made + MADE_ANEW
    return not is_of(pod, mark) or (pod.status.phase == FAILED and late)


def waits_for(pod: ComponentPod) -> str:
    """What a pod that is not done waits for, a clause."""
    return f"{pod.name}: {trouble(pod) or 'it is at work'}"


def _containers(template: Seen, task: Task) -> tuple[Seen, Seen, Seen]:
    identity, first, name = task.identity, template["containers"][0], task.identity.instance(task.ordinal)
    peers = {identity.instance(n): peer_url(host_of(identity, n)) for n in range(task.members)}
    fixed = {"name": "INSTANCE", "value": name}
    environment = [fixed if each["name"] == "INSTANCE" else each for each in first.get("env", ())]
    shared = {
        "env": environment,
        "volumeMounts": first.get("volumeMounts", ()),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if "resources" in first:
        shared["resources"] = first["resources"]
    ours = {**shared, "image": task.image, "securityContext": _as_etcd(template, first)}
    tls = [f"--{flag}={_flag(first, flag)}" for flag in TLS]
    listen = f"--listen=$(ADDRESS):{CLIENT_PORTS[identity.component]}"
    receive = ["restore-member", "receive", listen, *tls, f"--folder={FOLDER}"]
    put = ["restore-member", "place", f"--folder={FOLDER}", f"--data={DATA_FOLDER}", f"--mark={task.mark}"]
    etcdutl = {
        "image": first["image"],
        "command": [ETCDUTL],
        "args": etcdutl_arguments(SNAPSHOT, NEW, name, peers, task.mark),
        **({"securityContext": first["securityContext"]} if "securityContext" in first else {}),
    }
    return (
        {**ours, "name": "receive", "args": receive},
        {**shared, **etcdutl, "name": "restore"},
        {**ours, "name": "place", "args": put},
    )


def _as_etcd(template: Seen, container: Seen) -> dict[str, Any]:
    """The user of our own containers: that of the etcd, which owns the volume; its image says root."""
    own = dict(container.get("securityContext", {}))
    if "runAsUser" not in own and "runAsUser" not in template.get("securityContext", {}):
        own["runAsUser"] = 0
    return own


def _flag(container: Seen, name: str) -> str:
    """The value of a flag of a container; empty if it has none."""
    start = f"--{name}="
    given = [*container.get("command", ()), *container.get("args", ())]
    return next((str(each).removeprefix(start) for each in given if str(each).startswith(start)), "")
