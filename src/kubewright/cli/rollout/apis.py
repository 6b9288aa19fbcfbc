"""The two kinds of MachineDeployment, and how a user names one: ``mcd/NAME``, ``md/NAME``, as with kubectl.

Theory.      The two kinds have the same fields of spec and status. They differ in the names of annotations,
             and in how a user asks for an earlier template and for new machines of the same one.
Called by    ``command`` and ``decide``.
"""

from dataclasses import dataclass
from typing import Any

from kubewright.api.cluster import names as of_clusters
from kubewright.api.cluster.v1beta1 import MACHINE_DEPLOYMENT as CLUSTER_MACHINE_DEPLOYMENT
from kubewright.api.cluster.v1beta1 import MACHINE_SET as CLUSTER_MACHINE_SET
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine import names as of_machines
from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.base.errors import InvalidInput

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of deployment.

    ``deployment``, ``set``  its objects and their sets, as the server has them
    ``revision``             annotation of a set: the number of its template
    ``template_hash``        label of a set and of its template, which a deployment's template does not have
    ``rolls_back``           the kind has ``spec.rollbackTo``: its controller restores an earlier template
    ``restarts_at``          the kind has ``spec.rolloutAfter``: machines older than that are replaced
    """

    deployment: Kind[JsonObject]
    set: Kind[JsonObject]
    revision: str
    template_hash: str
    rolls_back: bool = False
    restarts_at: bool = False

    @property
    def kind(self) -> str:
        """The kind with its group, as kubectl prints it."""
        resource = self.deployment.resource
        return f"{resource.kind.lower()}.{resource.group}"

    @property
    def words(self) -> tuple[str, ...]:
        """What a user may call it."""
        resource = self.deployment.resource
        return (*resource.short_names, self.kind, f"{resource.plural}.{resource.group}")


MACHINES = Api(
    dynamic(MACHINE_DEPLOYMENT.resource),
    dynamic(MACHINE_SET.resource),
    of_machines.REVISION_ANNOTATION,
    of_machines.TEMPLATE_HASH_LABEL,
    rolls_back=True,
)
CLUSTERS = Api(
    dynamic(CLUSTER_MACHINE_DEPLOYMENT.resource),
    dynamic(CLUSTER_MACHINE_SET.resource),
    of_clusters.REVISION_ANNOTATION,
    of_clusters.TEMPLATE_HASH_LABEL,
    restarts_at=True,
)


def named(text: str) -> tuple[Api, str]:
    """The kind and the name in ``mcd/NAME`` or ``md/NAME``.

    Raises:
        InvalidInput: it is no such pair.
    """
    word, slash, name = text.partition("/")
    found = next((each for each in (MACHINES, CLUSTERS) if word.lower() in each.words), None)
    if not slash or not name or found is None:
        known = f"mcd/NAME for {MACHINES.kind}, md/NAME for {CLUSTERS.kind}"
        raise InvalidInput(f"{text!r} names no deployment of machines; write {known}")
    return found, name
