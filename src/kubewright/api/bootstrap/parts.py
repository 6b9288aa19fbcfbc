"""Values of which a KubeadmConfig is made, the same in v1beta1 and v1beta2.

Theory.      Environment variables of static pods, a kubeconfig that is made for a joining machine, the
             partitions of a disk; and what never changed. Each is declared once, with upstream's bounds.
Invariants.  Fields stand in the order of upstream's types: ``conversion`` writes them in that order. What may
             hold a secret is not shown by ``repr``.
Continues    in ``v1beta1`` and ``v1beta2``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.meta import (
    ATOMIC_MAP,
    Int32,
    Quantity,
    Value,
    doc,
    extra_schema,
    rules,
    text,
    written,
)


class FieldSource(Value, frozen=True, kw_only=True):
    """A field of the pod."""

    api_version: Annotated[str, doc("The version in which the path is read; v1 if empty.")] = ""
    field_path: Annotated[str, doc("The path of the field, such as metadata.name.", required=True)] = ""


class ResourceSource(Value, frozen=True, kw_only=True):
    """A resource of a container."""

    container_name: Annotated[str, doc("The container; the variable's own if empty.")] = ""
    resource: Annotated[str, doc("The resource, such as limits.cpu.", required=True)] = ""
    divisor: Annotated[
        Quantity | None,
        doc("What one unit is; 1 when unset."),
        written("0"),
    ] = None


class ObjectKey(Value, frozen=True, kw_only=True):
    """A key of a ConfigMap or Secret."""

    name: Annotated[str, doc("The name of the object.", default="")] = ""
    key: Annotated[str, doc("The key in its data.", required=True)] = ""
    optional: Annotated[bool | None, doc("Whether the object or its key may be missing.")] = None


class FileKey(Value, frozen=True, kw_only=True):
    """A key of a file with variables."""

    volume_name: Annotated[str, doc("The volume with the file.", required=True)] = ""
    path: Annotated[str, doc("The path of the file in the volume.", required=True)] = ""
    key: Annotated[str, doc("The key in the file.", required=True)] = ""
    optional: Annotated[bool | None, doc("Whether the file or its key may be missing.", default=False)] = None


class ValueSource(Value, frozen=True, kw_only=True):
    """Where the value of a variable comes from; one of them."""

    field_ref: Annotated[FieldSource | None, doc("A field of the pod.", **ATOMIC_MAP)] = None
    resource_field_ref: Annotated[ResourceSource | None, doc("A resource of a container.", **ATOMIC_MAP)] = (
        None
    )
    config_map_key_ref: Annotated[ObjectKey | None, doc("A key of a ConfigMap.", **ATOMIC_MAP)] = None
    secret_key_ref: Annotated[ObjectKey | None, doc("A key of a Secret.", **ATOMIC_MAP)] = None
    file_key_ref: Annotated[FileKey | None, doc("A key of a file in a volume.", **ATOMIC_MAP)] = None


class EnvVar(Value, frozen=True, kw_only=True):
    """An environment variable of a container."""

    name: Annotated[str, doc("The name of the variable.", required=True)] = ""
    value: Annotated[str, doc("Its value; $(NAME) stands for the value of another.")] = ""
    value_from: Annotated[ValueSource | None, doc("Where its value comes from instead.")] = None


class KubeconfigCluster(Value, frozen=True, kw_only=True):
    """How the cluster is reached; what is empty comes from the Cluster."""

    server: Annotated[str, text("The URL of the API server.", 512)] = ""
    tls_server_name: Annotated[str, text("The name that its certificate must have.", 512)] = ""
    insecure_skip_tlsverify: Annotated[bool | None, doc("Whether its certificate is not checked at all.")] = (
        field(default=None, name="insecureSkipTLSVerify")
    )
    certificate_authority_data: Annotated[
        str, text("The authorities of its certificate, PEM in base64.", 51200, format="byte")
    ] = ""
    proxy_url: Annotated[str, text("The URL of a proxy.", 512)] = field(default="", name="proxyURL")


class AuthProvider(Value, frozen=True, kw_only=True):
    """A plugin of the client by which the machine says who it is."""

    name: Annotated[str, text("The name of the plugin.", 256, required=True)] = ""
    config: Annotated[Mapping[str, str], doc("The settings of the plugin.")] = field(default_factory=dict)


class ExecVariable(Value, frozen=True, kw_only=True):
    """An environment variable of a program."""

    name: Annotated[str, text("The name of the variable.", 512, required=True)] = ""
    value: Annotated[str, text("Its value.", 512, required=True)] = ""


class ExecPlugin(Value, frozen=True, kw_only=True):
    """A program on the machine by which the machine says who it is."""

    command: Annotated[str, text("The program.", 1024, required=True)] = ""
    args: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=512, minLength=1)], ...],
        doc("Its arguments.", maxItems=100),
    ] = ()
    env: Annotated[
        tuple[ExecVariable, ...],
        doc("Its environment variables beside those that are there.", maxItems=100),
    ] = ()
    api_version: Annotated[
        str, text("The version in which its answer is read; client.authentication.k8s.io/v1 if empty.", 512)
    ] = ""
    provide_cluster_info: Annotated[bool | None, doc("Whether it is told about the cluster.")] = None


class KubeconfigUser(Value, frozen=True, kw_only=True):
    """Who the machine says that it is; one of them."""

    auth_provider: Annotated[AuthProvider, doc("A plugin of the client.")] = AuthProvider()
    exec: Annotated[ExecPlugin, doc("A program on the machine.")] = ExecPlugin()

    def __repr__(self) -> str:
        return "KubeconfigUser(...)"


class Kubeconfig(Value, frozen=True, kw_only=True):
    """A kubeconfig that is made and written to kubeConfigPath."""

    cluster: Annotated[KubeconfigCluster, doc("How the cluster is reached.")] = KubeconfigCluster()
    user: Annotated[KubeconfigUser, doc("Who the machine says that it is.", required=True)] = KubeconfigUser()


_TYPES = ("Linux", "LinuxSwap", "LinuxRAID", "LVM", "Fat32", "NTFS", "LinuxExtended")
KNOWN_PARTITION = (
    f"self.matches('^({'|'.join(_TYPES)}|[0-9A-Fa-f]{{8}}(-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}})$')",
    f"partitionType must be one of {', '.join(_TYPES)} or a full GPT partition GUID",
)


class DiskPartition(Value, frozen=True, kw_only=True):
    """One partition of a disk."""

    percentage: Annotated[
        Int32, doc("How much of the disk it takes.", required=True, maximum=100, minimum=1)
    ] = 0
    partition_type: Annotated[
        str,
        text(
            "Its type: Linux, LinuxSwap, another known name, or a GUID of GPT.",
            36,
            **rules(KNOWN_PARTITION),
        ),
    ] = ""


class SecretKey(Value, frozen=True, kw_only=True):
    """One key of a Secret in the namespace of the KubeadmConfig."""

    name: Annotated[str, text("The name of the Secret.", 253, required=True)] = ""
    key: Annotated[str, text("The key in its data.", 256, required=True)] = ""


class SecretSource(Value, frozen=True, kw_only=True):
    """Where a value is read from: a key of a Secret."""

    secret: Annotated[SecretKey, doc("Where it is.", required=True)] = SecretKey()


class Patches(Value, frozen=True, kw_only=True):
    """Patches of kubeadm's static pods."""

    directory: Annotated[
        str, text("A folder on the machine with files such as kube-apiserver0+merge.yaml.", 512)
    ] = ""
