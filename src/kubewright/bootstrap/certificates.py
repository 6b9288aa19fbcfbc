"""Which certificates a machine needs, at which paths, and whether those of its cluster are there and good.

Theory.      A cluster's certificates are Secrets ``<cluster>-<purpose>`` with ``tls.crt`` and ``tls.key``. A
             machine of the control plane gets them as files; a worker needs the authority only, and only to
             know its hash. Those of an etcd elsewhere must be there; they are never made.
Invariants.  Pure. A Secret that is there is never replaced. Which Secret is wrong is said, and how; what is
             in it is not.
Called by    ``decide``, ``generation``, ``look``. What is wrong with a pair ``pki.credentials`` says;
             ``pki.clusters`` makes new ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.bootstrap.v1beta1 import ClusterConfiguration, File
from kubewright.pki.credentials import NO_KEY, Purpose, problem_of, secret_name
from kubewright.pki.facts import public_key_hashes
from kubewright.pki.keys import KeyPair

DEFAULT_FOLDER = "/etc/kubernetes/pki"


AUTHORITIES = (Purpose.CA, Purpose.ETCD, Purpose.FRONT_PROXY)
"""What signs certificates of the cluster. That of an etcd elsewhere is trusted only, whatever it is."""

Pairs = Mapping[Purpose, KeyPair]
"""The pairs of a cluster whose Secrets are there."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A pair that a machine needs, and the paths of its files there.

    ``external``  it is of an etcd that runs elsewhere: a user brings it, and we never make it
    """

    purpose: Purpose
    path: str
    key_path: str = ""
    external: bool = False


def of_control_plane(configuration: ClusterConfiguration | None) -> tuple[Certificate, ...]:
    """What a machine of the control plane needs, in the order of its files."""
    given = configuration or ClusterConfiguration()
    folder = given.certificates_dir.rstrip("/") or DEFAULT_FOLDER
    certificates = [
        Certificate(Purpose.CA, f"{folder}/ca.crt", f"{folder}/ca.key"),
        Certificate(Purpose.ETCD, f"{folder}/etcd/ca.crt", f"{folder}/etcd/ca.key"),
        Certificate(Purpose.FRONT_PROXY, f"{folder}/front-proxy-ca.crt", f"{folder}/front-proxy-ca.key"),
        Certificate(Purpose.SERVICE_ACCOUNT, f"{folder}/sa.pub", f"{folder}/sa.key"),
    ]
    if (etcd := given.etcd.external) is not None:
        certificates[1] = Certificate(Purpose.ETCD, etcd.ca_file, external=True)
        certificates.append(Certificate(Purpose.ETCD_CLIENT, etcd.cert_file, etcd.key_file, external=True))
    return tuple(certificates)


def of_worker(ca_path: str) -> tuple[Certificate, ...]:
    """What a worker needs to know: the authority of its cluster."""
    return (Certificate(Purpose.CA, ca_path or f"{DEFAULT_FOLDER}/ca.crt"),)


def missing(wanted: Iterable[Certificate], pairs: Pairs) -> tuple[Certificate, ...]:
    """Those whose Secret is not there."""
    return tuple(each for each in wanted if each.purpose not in pairs)


def problems(wanted: Iterable[Certificate], pairs: Pairs, cluster: str, now: datetime) -> list[str]:
    """What is wrong with the pairs that are there, a sentence for each."""
    found = []
    for each in wanted:
        pair = pairs.get(each.purpose)
        if pair is None:
            continue
        problem = problem_of(pair, now, signs=each.purpose in AUTHORITIES and not each.external)
        if not problem and each.key_path and not pair.key:
            problem = NO_KEY
        if problem:
            found.append(f"Secret {secret_name(cluster, each.purpose)} {problem}")
    return found


def as_files(wanted: Sequence[Certificate], pairs: Pairs) -> tuple[File, ...]:
    """The pairs as files of the machine: each certificate before its key."""
    files = []
    for each in wanted:
        pair = pairs[each.purpose]
        files.append(_file(each.path, "0640", pair.certificate))
        if each.key_path:
            files.append(_file(each.key_path, "0600", pair.key))
    return tuple(files)


def hashes(pairs: Pairs) -> tuple[str, ...]:
    """The hashes by which a machine trusts the cluster; the authority was found to be good before."""
    return public_key_hashes(pairs[Purpose.CA].certificate)


def _file(path: str, permissions: str, content: bytes) -> File:
    return File(path=path, owner="root:root", permissions=permissions, content=content.decode())
