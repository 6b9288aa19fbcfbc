"""The data of a machine, from all that was seen: what is filled into the spec, and the text.

Theory.      Two steps. First the spec is completed: for a first machine by what Cluster and Machine say,
             for the others by how they find the cluster. That is written back, as upstream does, before the
             data, so that a crash in between makes the same data. Then the text is made of that spec.
Invariants.  Pure. What a user set is never changed. The taint of workers stands in the text only.
Source       S1-28, S1-29.
Called by    ``decide``.
"""

from dataclasses import replace

from msgspec import structs

from kubewright.api.bootstrap.names import Format
from kubewright.api.bootstrap.parts import SecretSource
from kubewright.api.bootstrap.v1beta1 import (
    BootstrapTokenDiscovery,
    ClusterConfiguration,
    Discovery,
    File,
    InitConfiguration,
    JoinConfiguration,
    JoinControlPlane,
    KubeadmConfigSpec,
    Networking,
    User,
)
from kubewright.api.bootstrap.validate import defaulted
from kubewright.api.cluster.names import UNINITIALIZED_TAINT
from kubewright.api.cluster.v1beta1 import Cluster, Machine, NetworkRanges
from kubewright.api.core import Taint
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap import certificates
from kubewright.bootstrap.certificates import Certificate
from kubewright.bootstrap.cloudinit import cloud_config
from kubewright.bootstrap.documents import api_of, init_documents, join_document, release_of
from kubewright.bootstrap.ignition import ignition
from kubewright.bootstrap.seen import Seen
from kubewright.bootstrap.userdata import Role, UserData

UNINITIALIZED = Taint(key=UNINITIALIZED_TAINT, effect="NoSchedule")


def completed(seen: Seen) -> KubeadmConfigSpec:
    """The spec that the server has, with everything filled in that kubeadm needs and no user set."""
    assert seen.machine is not None
    assert seen.cluster is not None
    spec = seen.config.spec
    if seen.role is Role.INIT:
        given = spec.cluster_configuration or ClusterConfiguration()
        return structs.replace(
            spec,
            init_configuration=spec.init_configuration or InitConfiguration(),
            cluster_configuration=with_cluster(given, seen.cluster, seen.machine),
        )
    join = spec.join_configuration or JoinConfiguration()
    if seen.control_plane and join.control_plane is None:
        join = structs.replace(join, control_plane=JoinControlPlane())
    return structs.replace(
        spec, join_configuration=structs.replace(join, discovery=with_discovery(join.discovery, seen))
    )


def with_cluster(given: ClusterConfiguration, cluster: Cluster, machine: Machine) -> ClusterConfiguration:
    """The configuration, with what Cluster and Machine know where a user said nothing."""
    endpoint, network = cluster.spec.control_plane_endpoint, cluster.spec.cluster_network
    found = given.networking
    if network is not None:
        found = Networking(
            service_subnet=found.service_subnet or _ranges(network.services),
            pod_subnet=found.pod_subnet or _ranges(network.pods),
            dns_domain=found.dns_domain or network.service_domain,
        )
    return structs.replace(
        given,
        control_plane_endpoint=given.control_plane_endpoint
        or (str(endpoint) if endpoint is not None and endpoint.valid else ""),
        cluster_name=given.cluster_name or cluster.metadata.name,
        networking=found,
        kubernetes_version=given.kubernetes_version or machine.spec.version or "",
    )


def _ranges(ranges: NetworkRanges | None) -> str:
    return ",".join(ranges.cidr_blocks) if ranges is not None else ""


def with_discovery(given: Discovery, seen: Seen) -> Discovery:
    """How to find the cluster, complete; a file that a user names is left as it is."""
    if given.file is not None:
        return given
    assert seen.cluster is not None
    known = given.bootstrap_token or BootstrapTokenDiscovery()
    endpoint = seen.cluster.spec.control_plane_endpoint
    hashes = known.ca_cert_hashes or certificates.hashes(seen.pairs)
    token = BootstrapTokenDiscovery(
        token=known.token or (seen.new_token.text if seen.new_token is not None else ""),
        api_server_endpoint=known.api_server_endpoint or (str(endpoint) if endpoint is not None else ""),
        ca_cert_hashes=hashes,
        unsafe_skip_ca_verification=known.unsafe_skip_ca_verification or not hashes,
    )
    return structs.replace(given, bootstrap_token=token)


def wanted_certificates(seen: Seen) -> tuple[Certificate, ...]:
    """What the machine needs of its cluster's certificates."""
    join = seen.spec.join_configuration
    if seen.role is Role.JOIN_WORKER:
        return certificates.of_worker(join.ca_cert_path if join is not None else "")
    return certificates.of_control_plane(seen.spec.cluster_configuration)


def user_data(seen: Seen, spec: KubeadmConfigSpec) -> str:
    """The machine's data, made of the completed spec.

    Raises:
        InvalidInput: something in the spec cannot be written, or a Secret that it names is missing.
    """
    made = UserData(
        role=seen.role,
        minor=release_of(version_of(seen))[1],
        document=_document(seen, defaulted(spec)),
        spec=defaulted(spec),
        users=tuple(_user(seen, user) for user in spec.users),
    )
    files = tuple(_file(seen, file) for file in spec.files)
    if seen.role is not Role.JOIN_WORKER:
        files = (*certificates.as_files(wanted_certificates(seen), seen.pairs), *files)
    made = replace(made, files=files)
    return ignition(made) if made.spec.format == Format.IGNITION else cloud_config(made)


def version_of(seen: Seen) -> str:
    """The version of Kubernetes that the machine runs.

    Raises:
        InvalidInput: none is said.
    """
    assert seen.machine is not None
    given = seen.config.spec.cluster_configuration
    version = seen.machine.spec.version or (given.kubernetes_version if given is not None else "")
    if not version:
        raise InvalidInput(f"Machine {seen.machine.metadata.name} has no spec.version")
    return version


def _document(seen: Seen, spec: KubeadmConfigSpec) -> str:
    api, jinja = api_of(version_of(seen)), spec.format != Format.IGNITION
    if seen.role is Role.INIT:
        assert spec.cluster_configuration is not None
        assert spec.init_configuration is not None
        return init_documents(api, spec.cluster_configuration, spec.init_configuration, jinja=jinja)
    assert spec.join_configuration is not None
    join = spec.join_configuration
    if seen.role is Role.JOIN_WORKER:
        join = _tainted(join)
    return join_document(api, join, spec.cluster_configuration, jinja=jinja)


def _tainted(join: JoinConfiguration) -> JoinConfiguration:
    """With the taint that keeps pods away until the labels of the machine are on its node."""
    taints = join.node_registration.taints or ()
    if any((each.key, each.effect) == (UNINITIALIZED.key, UNINITIALIZED.effect) for each in taints):
        return join
    registration = structs.replace(join.node_registration, taints=(*taints, UNINITIALIZED))
    return structs.replace(join, node_registration=registration)


def _file(seen: Seen, file: File) -> File:
    if file.content_from is None:
        return file
    content = _read(seen, file.content_from, f"file {file.path}")
    return structs.replace(file, content=content, content_from=None)


def _user(seen: Seen, user: User) -> User:
    if user.passwd_from is None:
        return user
    return structs.replace(
        user, passwd=_read(seen, user.passwd_from, f"the password of user {user.name}"), passwd_from=None
    )


def _read(seen: Seen, source: SecretSource, purpose: str) -> str:
    name, key = source.secret.name, source.secret.key
    if (secret := seen.sources.get(name)) is None:
        raise InvalidInput(f"Secret {name} for {purpose} does not exist")
    if key not in secret.data:
        raise InvalidInput(f"Secret {name} for {purpose} has no key {key}")
    try:
        return secret.data[key].decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"Secret {name} for {purpose} is no text; encode it in base64") from None
