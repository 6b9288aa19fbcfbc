"""The policy of ReplicaSets: what ``replicas.set`` has to know to keep as many Pods as a set says.

Called by    ``builtin``.
Source       kube-controller-manager's replicaset-controller.
"""

from msgspec import structs, to_builtins

from kubewright.api.apps import (
    DEPLOYMENT,
    DESIRED_REPLICAS,
    REPLICA_SET,
    ReplicaSet,
    ReplicaSetStatus,
)
from kubewright.api.core import POD, Pod
from kubewright.api.meta import Condition
from kubewright.builtin.apps.pods import PodMember, ranking
from kubewright.kube.client import Client
from kubewright.replicas.objects import reference
from kubewright.replicas.set.policy import Failure, SetPolicy, Words, counted, with_failure
from kubewright.replicas.set.seen import Seen
from kubewright.wire.errors import AlreadyExists, ApiError

ONE_BY_ONE = 1_000
"""Each Pod of a pass gets an event; the recorder combines those that are too many."""

SetSeen = Seen[ReplicaSet, PodMember]


async def create(client: Client, replica_set: ReplicaSet, name: str) -> None:
    """Create the Pod of this name.

    Raises:
        ApiError: the server refuses it. In its message the Pod's name is replaced by the prefix that all
            Pods of the set share (``generateName``): each attempt has another name, and a message that
            differs each time would be an event each time.
    """
    template, prefix = replica_set.spec.template, f"{replica_set.name}-"
    meta = template.metadata
    metadata = {
        "name": name,
        "generateName": prefix,
        "namespace": replica_set.namespace,
        "labels": dict(meta.labels),
        "annotations": dict(meta.annotations),
        "finalizers": list(meta.finalizers),
        "ownerReferences": [to_builtins(reference(replica_set, REPLICA_SET))],
    }
    body = {"metadata": {key: value for key, value in metadata.items() if value}, "spec": template.spec}
    try:
        await client.create(POD, body)
    except AlreadyExists:
        raise
    except ApiError as error:
        error.message = error.message.replace(f'"{name}"', f'"{prefix}"')
        error.args = (error.message,)
        raise


def set_status(seen: SetSeen, failure: Failure | None) -> ReplicaSetStatus:
    """The status to write; ``failure``: what kept this pass from creating or deleting Pods."""
    found, pods = seen.set, seen.alive
    return structs.replace(
        found.status,
        **counted(seen, pods),
        terminating_replicas=len(seen.members) - len(pods),
        observed_generation=found.metadata.generation,
        conditions=with_failure(found.status.conditions, failure, Condition, seen.wall),
    )


REPLICA_SETS: SetPolicy[ReplicaSet, PodMember, Pod] = SetPolicy(
    name="replicaset",
    component="replicaset-controller",
    words=Words("pod", "pods", "Created pod: {}", "Deleted pod: {}", one_by_one=ONE_BY_ONE),
    kind=REPLICA_SET,
    member_kind=POD,
    validate=lambda _replica_set: "",  # the server has done it
    status=set_status,
    ranking=lambda _replica_set, _wall, _living: ranking,
    create=create,
    owner=DEPLOYMENT,
    desired_annotation=DESIRED_REPLICAS,
)
