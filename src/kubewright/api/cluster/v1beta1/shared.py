"""What several kinds have: the group, conditions, references to other objects, what a kubelet says.

Invariants.  An ``ObjectReference`` names an object by kind and name in the namespace of the object that
             has it; its version and namespace may be missing or out of date, so readers go by group, kind
             and name. A ``Condition`` is not ``metav1.Condition``: it has a severity, which says how bad a
             False is, and no generation; its time has whole seconds.
Source       capi.md §2.1, §2.2.
Called by    the other modules here, ``api.bootstrap`` and ``api.infra``.
"""

from typing import Annotated

from msgspec import Meta, field

from kubewright.api.cluster import names
from kubewright.api.meta import ATOMIC_MAP, Time, Value, doc, whole_seconds
from kubewright.wire.gvk import Resource, split_api_version

GROUP = "cluster.x-k8s.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORIES = ("cluster-api",)
CONTRACT_VERSIONS = {names.CONTRACT_LABEL: VERSION}
"""The label of CRDs that says which of their versions follow the contract."""

FAILURE_REASON = "Why the object has failed, as one word; providers write it."
FAILURE_MESSAGE = "Why the object has failed, in a sentence for people; providers write it."
OBSERVED_GENERATION = "The generation of the spec that this status is about."
CONDITIONS = "What is so and what is not, with reasons."


def resource(plural: str, kind: str, *short_names: str) -> Resource:
    """One kind of the group, as the API server serves it."""
    return Resource(GROUP, VERSION, plural, kind, short_names=short_names)


class Condition(Value, frozen=True, kw_only=True):
    """One thing that is so, is not so, or is not known."""

    type: Annotated[
        str, doc("What the condition is about, in CamelCase; Ready sums up the others.", required=True)
    ] = ""
    status: Annotated[str, doc("True, False or Unknown.", required=True)] = ""
    severity: Annotated[
        str, doc("How bad it is that the status is False: Error, Warning or Info. Empty for other statuses.")
    ] = ""
    last_transition_time: Annotated[
        Time | None,
        doc("When status, severity, reason or message last changed.", required=True),
    ] = None
    reason: Annotated[str, doc("Why the condition has this status, as one word in CamelCase.")] = ""
    message: Annotated[str, doc("Why the condition has this status, in a sentence for people.")] = ""

    def __post_init__(self) -> None:
        whole_seconds(self, "last_transition_time")


class ObjectReference(Value, frozen=True, kw_only=True):
    """Another object, by kind and name."""

    api_version: Annotated[str, doc("The group and version of the object.")] = ""
    kind: Annotated[str, doc("The kind of the object.")] = ""
    namespace: Annotated[str, doc("The namespace of the object.")] = ""
    name: Annotated[str, doc("The name of the object.")] = ""
    uid: Annotated[str, doc("The uid of the object.")] = ""
    resource_version: Annotated[str, doc("The version of the object that is meant; not used.")] = ""
    field_path: Annotated[str, doc("The part of the object that is meant; not used.")] = ""

    @property
    def group(self) -> str:
        """The API group of the object."""
        return split_api_version(self.api_version)[0]

    @property
    def group_kind(self) -> str:
        """``Kind.group``, as an annotation of a clone names its template."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def reference(text: str, *, required: bool = False) -> Meta:
    """``doc`` of a field that holds an ``ObjectReference``."""
    return doc(text, required=required, **ATOMIC_MAP)


class NodeSystemInfo(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What a kubelet says about its machine, as it stands in the status of the Node.

    All fields are required, so those that the kubelet leaves empty are written too.
    """

    machine_id: Annotated[str, doc("The id of the machine, from /etc/machine-id.", required=True)] = field(
        default="", name="machineID"
    )
    system_uuid: Annotated[str, doc("The UUID that the firmware reports.", required=True)] = field(
        default="", name="systemUUID"
    )
    boot_id: Annotated[str, doc("The id of the current boot.", required=True)] = field(
        default="", name="bootID"
    )
    kernel_version: Annotated[str, doc("The version of the kernel.", required=True)] = ""
    os_image: Annotated[str, doc("The operating system and its version, for people.", required=True)] = ""
    container_runtime_version: Annotated[
        str, doc("The name and version of the container runtime.", required=True)
    ] = ""
    kubelet_version: Annotated[str, doc("The version of the kubelet.", required=True)] = ""
    kube_proxy_version: Annotated[str, doc("The version of kube-proxy.", required=True)] = ""
    operating_system: Annotated[str, doc("The operating system, such as linux.", required=True)] = ""
    architecture: Annotated[str, doc("The architecture, such as amd64.", required=True)] = ""
