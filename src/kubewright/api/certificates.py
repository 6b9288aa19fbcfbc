"""Requests for certificates (certificates.k8s.io/v1): the kind, and the names that its users share.

Theory.      A program that has a key asks for a certificate of a user, of a signer that it names. A user with
             the right to it approves or denies that, and the signer signs what is approved. A kubelet asks so
             for the user ``system:node:<name>`` in the group ``system:nodes`` when it joins, and again before
             each end.
Invariants.  Who asks stands in ``username`` and ``groups``, by the server's word; what is asked for is in
             ``request``, by the word of who asks.
Called by    ``builtin``, which approves and signs; simulated machines, which ask.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Time, Value, doc, whole_seconds
from kubewright.wire.gvk import Resource

KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
CLIENT = "kubernetes.io/kube-apiserver-client"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
NODES = "system:nodes"
NODE_PREFIX = "system:node:"


class SigningRequestSpec(Value, frozen=True, kw_only=True):
    """What is asked for, by whom, and of which signer."""

    request: Annotated[bytes, doc("The request, in PEM.")] = b""
    signer_name: Annotated[str, doc("Who is to sign it.")] = ""
    usages: Annotated[tuple[str, ...], doc("What the certificate is to be used for.")] = ()
    expiration_seconds: Annotated[int | None, doc("How long it is to be valid; no word: as usual.")] = None
    username: Annotated[str, doc("Who made the request, by the server's word.")] = ""
    uid: Annotated[str, doc("The uid of that user.")] = ""
    groups: Annotated[tuple[str, ...], doc("The groups of that user.")] = ()
    extra: Annotated[Mapping[str, tuple[str, ...]], doc("What else is known of that user.")] = field(
        default_factory=dict
    )


class SigningRequestCondition(Value, frozen=True, kw_only=True):
    """A decision on a request, or what came of it."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: Time | None = None
    last_transition_time: Time | None = None

    def __post_init__(self) -> None:
        whole_seconds(self, "last_update_time", "last_transition_time")


class SigningRequestStatus(Value, frozen=True, kw_only=True):
    """Decisions, and the certificate."""

    conditions: tuple[SigningRequestCondition, ...] = ()
    certificate: bytes = b""


class SigningRequest(KubeObject, frozen=True, kw_only=True):
    """A request for a certificate."""

    spec: SigningRequestSpec = field(default_factory=SigningRequestSpec)
    status: SigningRequestStatus = field(default_factory=SigningRequestStatus)

    def condition(self, kind: str) -> SigningRequestCondition | None:
        """The condition of this type."""
        return next((each for each in self.status.conditions if each.type == kind), None)


SIGNING_REQUEST = Kind(
    Resource(
        "certificates.k8s.io",
        "v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        namespaced=False,
        short_names=("csr",),
    ),
    SigningRequest,
)
