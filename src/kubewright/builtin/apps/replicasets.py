"""The policy of ReplicaSets: what ``replicas.set`` has to know to keep as many Pods as a set says.

Called by    ``builtin``.
Source       kube-controller-manager's replicaset-controller.
"""

from collections.abc import Callable, Sequence

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
from kubewright.builtin.apps.pods import PodMember, rank
from kubewright.kube.client import Client
from kubewright.replicas.objects import reference
from kubewright.replicas.set.policy import Failure, SetPolicy, Words, counted, with_failure
from kubewright.replicas.set.seen import Seen
from kubewright.rollout.model import Rank
from kubewright.wire.errors import AlreadyExists, ApiError

ONE_BY_ONE = 1_000
"""Each Pod of a pass gets an event; the recorder combines those that are too many."""

SetSeen = Seen[ReplicaSet, PodMember]


class ReplicaSets(SetPolicy[ReplicaSet, PodMember, Pod]):
    """What ReplicaSets do. Defaults and validation are the server's."""

    name = "replicaset"
    component = "replicaset-controller"
    words = Words("pod", "pods", "Created pod: {}", "Deleted pod: {}", one_by_one=ONE_BY_ONE)
    kind = REPLICA_SET
    member_kind = POD
    owner = DEPLOYMENT
    desired_annotation = DESIRED_REPLICAS

    async def create(self, client: Client, owner: ReplicaSet, name: str) -> None:
        """Create the Pod of this name.

        Raises:
            ApiError: the server refuses it. In its message the Pod's name is replaced by the prefix that all
                Pods of the set share (``generateName``): each attempt has another name, and a message that
                differs each time would be an event each time.
        """
        template, prefix = owner.spec.template, f"{owner.name}-"
        meta = template.metadata
        metadata = {
            "name": name,
            "generateName": prefix,
            "namespace": owner.namespace,
            "labels": dict(meta.labels),
            "annotations": dict(meta.annotations),
            "finalizers": list(meta.finalizers),
            "ownerReferences": [to_builtins(reference(owner, REPLICA_SET))],
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

    def ranking(
        self, of: ReplicaSet, wall: float, living: Sequence[PodMember]
    ) -> Callable[[PodMember], Rank]:
        """As ``rank``: the same at all times."""
        return rank

    def status(self, seen: SetSeen, failure: Failure | None) -> ReplicaSetStatus:
        """The status to write; ``failure``: what kept this pass from creating or deleting Pods."""
        found, pods = seen.set, seen.alive
        return structs.replace(
            found.status,
            **counted(seen, pods),
            terminating_replicas=len(seen.members) - len(pods),
            observed_generation=found.metadata.generation,
            conditions=with_failure(found.status.conditions, failure, Condition, seen.wall),
        )


REPLICA_SETS = ReplicaSets()
