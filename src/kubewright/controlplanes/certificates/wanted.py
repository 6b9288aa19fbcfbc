"""The certificates and kubeconfigs that there should be, as values. Pure.

Theory.      Names, subjects and uses are those of Cluster API, kubeadm and k0smotron, so that their tools
             find what they expect. Each is in a Secret ``<cluster>-<purpose>`` with the type and the label of
             Cluster API's contract.
Source       nested.md A6 (the recommended set), A7; S3-24, S3-25, S3-27 to S3-29.
Called by    ``sets`` and ``users``, which make the values; ``decide``, ``reasons``, ``act``, ``keeper``.
"""

from dataclasses import dataclass
from datetime import timedelta

from kubewright.runtime.credentials.values import LIFETIME
from kubewright.wire.http import User


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed authority: Secret ``<cluster>-ca``, ``-etcd`` or ``-proxy``.

    ``external_without_key``  whether the Secret may lack the key, because another program signs
    """

    secret: str
    common_name: str
    external_without_key: bool = False


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The keys that sign the tokens of service accounts: Secret ``<cluster>-sa``."""

    secret: str


@dataclass(frozen=True, slots=True)
class Signer:
    """A copy of the certificate of an authority that signs, and of its key.

    kube-controller-manager accepts only a file with one certificate to sign with, and ``tls.crt`` of an
    authority that is being replaced has two.
    """

    secret: str
    authority: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """A certificate that one of the authorities signs.

    ``authority``  the name of the Secret of the authority
    ``names``      host names and addresses of a server; empty for a client
    ``client``     whether a client may present it too, as a member of etcd does
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
