"""What there should be: the certificates and kubeconfigs of a control plane, as values. Pure.

Theory.      Names, subjects and uses are those that Cluster API, kubeadm and k0smotron agree on, so that
             their tools find them. Each lies in a Secret ``<cluster>-<purpose>``, of the type and with the
             label of Cluster API's contract. A Secret that we did not make is a user's: it is used, and
             never written.
Source       nested.md A6 (the recommended set), A7; S3-24, S3-25, S3-27 to S3-29.
Called by    the policies of components; ``certificates.decide``.
"""

from dataclasses import dataclass
from datetime import timedelta

from kubewright.runtime.credentials.values import LIFETIME
from kubewright.wire.http import User


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed authority: Secret ``<cluster>-ca``, ``-etcd`` or ``-proxy``.

    ``external_without_key``  a user's Secret may lack the key: another program signs
    """

    secret: str
    common_name: str
    external_without_key: bool = False


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The keys by which tokens of service accounts are signed: Secret ``<cluster>-sa``."""

    secret: str


@dataclass(frozen=True, slots=True)
class Signer:
    """The one certificate of an authority that signs, and its key: a copy of both.

    kube-controller-manager signs with a file that holds one certificate, and an authority that is being
    replaced has two.
    """

    secret: str
    authority: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate that one of the authorities signs.

    ``authority``  the name of the Secret of the authority
    ``names``      host names and addresses of a server; empty for a client
    ``client``     whether it is good for a client too, as that of a member of etcd must be
    """

    secret: str
    authority: str
    subject: User
    names: frozenset[str] = frozenset()
    client: bool = True


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A kubeconfig with a client certificate in it: Secret ``<cluster>-kubeconfig``, key ``value``.

    ``server``  URL of the API server
    ``user``    the name and groups of the certificate
    ``entry``   the name of the user's entry, such as ``demo-admin``
    ``lifetime``  of the certificate
    """

    secret: str
    authority: str
    server: str
    user: User
    cluster: str
    entry: str
    lifetime: timedelta = LIFETIME


Signed = Leaf | Kubeconfig | Signer
"""What is made with the key of an authority."""
Wanted = Authority | KeyPair | Signed
