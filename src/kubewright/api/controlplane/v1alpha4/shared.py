"""What the kinds of control planes have in common: groups, and the spec and the status of a component.

Theory.      A component is one of the three parts of a control plane: etcd, the API server, the controller
             manager. Its spec says which version, how many instances and which settings; apart from ``image``
             and ``binary`` it does not depend on where they run. ``version`` and ``channel`` choose a set of
             templates, the other fields change what is rendered from it.
Invariants.  Every field of a spec is optional. The CRD prunes nothing in a patch.
Source       seed 003, NestedComponentSpec; nested.md A2, A3. Fields that the seed does not have are ours.
Called by    the other modules here.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.v1beta1.shared import CONDITIONS, OBSERVED_GENERATION, Condition
from kubewright.api.meta import ATOMIC, PRESERVE, Int32, Int64, Json, Quantity, Value, doc, extra_schema
from kubewright.wire.gvk import Resource

GROUP = "controlplane.cluster.x-k8s.io"
INFRASTRUCTURE_GROUP = "infrastructure.cluster.x-k8s.io"
VERSION = "v1alpha4"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORIES = ("capi", "capn")

Patch = Annotated[Mapping[str, Json], extra_schema(**PRESERVE)]


def resource(kind: str, *short_names: str, group: str = GROUP) -> Resource:
    """One of the kinds, as the API server serves it."""
    return Resource(group, VERSION, f"{kind.lower()}s", kind, short_names=short_names)


class ResourceRequirements(Value, frozen=True, kw_only=True):
    """The computing resources of each instance."""

    limits: Annotated[Mapping[str, Quantity], doc("The most that an instance may use, by resource.")] = field(
        default_factory=dict
    )
    requests: Annotated[Mapping[str, Quantity], doc("What an instance is certain to get, by resource.")] = (
        field(default_factory=dict)
    )


class KeyReference(Value, frozen=True, kw_only=True):
    """One entry of a Secret or a ConfigMap in the namespace of the object that names it."""

    name: Annotated[str, doc("The name of the Secret or ConfigMap.", required=True)] = ""
    key: Annotated[str, doc("The key of the entry.", required=True)] = ""


class ExtraFile(Value, frozen=True, kw_only=True):
    """A file that the component's program can read."""

    path: Annotated[
        str,
        doc("The file's path below the folder that flags call $(FILES_DIR).", required=True),
    ] = ""
    secret: Annotated[KeyReference | None, doc("The entry of a Secret that the file holds.")] = None
    config_map: Annotated[KeyReference | None, doc("The entry of a ConfigMap that the file holds.")] = None


class ComponentSpec(Value, frozen=True, kw_only=True):
    """What a component should be."""

    version: Annotated[
        str, doc("The exact version, such as 1.36.3; it counts where a channel is set too.")
    ] = ""
    channel: Annotated[
        str, doc("A name that stands for a version, such as stable; that one when neither is set.")
    ] = ""
    patches: Annotated[
        tuple[Patch, ...],
        doc(
            "Changes of what is rendered, in order: parts of an object with its apiVersion, kind and "
            "name, or a target with a patch.",
            **ATOMIC,
        ),
    ] = ()
    resources: Annotated[ResourceRequirements | None, doc("The computing resources of each instance.")] = None
    replicas: Annotated[Int32 | None, doc("How many instances there should be; 1 when unset.")] = None
    extra_args: Annotated[
        Mapping[str, str], doc("Flags of the program by name, without the leading dashes.")
    ] = field(default_factory=dict)
    without_args: Annotated[
        tuple[str, ...], doc("Names of flags of the template that the program is not given.", **ATOMIC)
    ] = ()
    extra_files: Annotated[
        tuple[ExtraFile, ...], doc("Files from Secrets and ConfigMaps, for flags to name.", **ATOMIC)
    ] = ()
    image: Annotated[str, doc("The container image, where the component runs in pods.")] = ""
    binary: Annotated[
        str,
        doc("The name of the program, where the component runs as a process: one that is offered there."),
    ] = ""


class ComponentStatus(Value, frozen=True, kw_only=True):
    """What a component is. ``healthy`` and ``errors`` are those of upstream's CommonStatus."""

    ready: Annotated[
        bool, doc("Whether all instances are ready, so that what depends on them can go on.")
    ] = False
    phase: Annotated[str, doc("For people: what the component is doing.")] = ""
    healthy: Annotated[bool, doc("Whether no probe fails and nothing is wrong.")] = False
    errors: Annotated[tuple[str, ...], doc("What is wrong now, a sentence each.", **ATOMIC)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0
    version: Annotated[str, doc("The version that all instances have.")] = ""
    replicas: Annotated[Int32, doc("How many instances there are.")] = 0
    ready_replicas: Annotated[Int32, doc("How many instances are ready.")] = 0
    updated_replicas: Annotated[Int32, doc("How many instances are as the spec wants them.")] = 0
    selector: Annotated[str, doc("The label selector of the instances, for the scale subresource.")] = ""
    certificates: Annotated[
        Mapping[str, str],
        doc(
            "By names of Secrets: the first 16 digits of the SHA-256 of the tls.crt, or of the kubeconfig, "
            "with which all instances run."
        ),
    ] = field(default_factory=dict)
    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()


class Reported(Value, frozen=True, kw_only=True):
    """What the status says of every object that one controller carries out."""

    conditions: Annotated[tuple[Condition, ...], doc(CONDITIONS)] = ()
    observed_generation: Annotated[Int64, doc(OBSERVED_GENERATION)] = 0


class Address(Value, frozen=True, kw_only=True):
    """Where a component is reached."""

    ip: Annotated[str, doc("The IP address.")] = ""
    hostname: Annotated[str, doc("The host name.")] = ""
    port: Annotated[Int32, doc("The port.")] = 0
