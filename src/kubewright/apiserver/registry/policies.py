"""The policy that the committed roles and bindings define, and the escalation check of RBAC writes.

Theory.      Every request needs the policy, and it changes rarely. So it is made again only when a request
             needs it and a role or binding was written since; each version of an object is decoded once.
             The right to write roles is not the right to grant what is in them. That check needs the
             object as it would be stored, so it is a guard that ``writing`` calls before the store.
             Writes by members of ``system:masters`` have no such guard. A request for a certificate has one,
             too: the right to write its decision or its certificate is not the right to decide or to sign for
             its signer. A node writes what is its own (``authorization.nodes``). Other writes have none.
Invariants.  A write is effective for every request that begins after its response.
Called by    ``http.app`` for requests, ``http.resources`` for writes, ``http.subresources`` for reviews.
Continues    in ``authorization``.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import orjson

from kubewright.api.certificates import CLIENT as CLIENTS
from kubewright.api.certificates import KUBELET_CLIENT, KUBELET_SERVING, SIGNING_REQUEST
from kubewright.api.core import NODE
from kubewright.apiserver.authorization import nodes
from kubewright.apiserver.authorization.defaults import NODE_ROLE, RULES
from kubewright.apiserver.authorization.nodes import NodeRights
from kubewright.apiserver.authorization.policy import (
    CLUSTER_ROLE,
    GROUP,
    KINDS_OF_ROLES,
    MASTERS,
    Attributes,
    Binding,
    MissingRole,
    Policy,
    RoleKey,
    Rule,
    Subject,
    fault_of_binding,
    fault_of_role,
    rules_in,
)
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.admission import PODS
from kubewright.apiserver.registry.builtin import ROWS, served
from kubewright.apiserver.registry.kind import Guard, ServedKind, Target
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Having, Record, Store
from kubewright.pki.requests import Asked, asked_in
from kubewright.wire.gvk import Resource
from kubewright.wire.http import User

CLUSTER_ROLES = Resource(GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
ROLES = Resource(GROUP, "v1", "roles", "Role")
CLUSTER_ROLE_BINDINGS = Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
ROLE_BINDINGS = Resource(GROUP, "v1", "rolebindings", "RoleBinding")

REQUESTS, NODES = SIGNING_REQUEST.resource, NODE.resource

OF_KUBELETS = (KUBELET_CLIENT, KUBELET_SERVING)
"""Of these a node asks for itself only."""

_KINDS = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)
_Read = tuple[Rule, ...] | Binding


class Policies:
    """``current`` is the policy of this moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._nodes = NodeRights(RULES[NODE_ROLE], _Objects(store))
        self._collections = tuple(str(kind) for kind in _KINDS)
        self._made_from: tuple[int, ...] = ()
        self._policy = Policy({}, ())
        self._read: dict[tuple[str, str], tuple[int, _Read]] = {}

    @property
    def current(self) -> Policy:
        stamp = tuple(self._store.revision(name) for name in self._collections)
        if stamp != self._made_from:
            self._policy, self._made_from = self._make(), stamp
        return self._policy

    def node_uid(self, name: str) -> str:
        """The uid of a Node; empty: it is not there."""
        record = self._store.get(str(NODES), name)
        return "" if record is None else record.uid

    def _make(self) -> Policy:
        fresh: dict[tuple[str, str], tuple[int, _Read]] = {}
        roles: dict[RoleKey, tuple[Rule, ...]] = {}
        bindings: list[Binding] = []
        for collection, record in self._records():
            known = self._read.get((collection, record.key))
            read = known[1] if known is not None and known[0] == record.version else _read(collection, record)
            fresh[collection, record.key] = (record.version, read)
            if isinstance(read, Binding):
                bindings.append(read)
            else:
                namespace, _, name = record.key.rpartition("/")
                roles[namespace, name] = read
        self._read = fresh
        return Policy(roles, bindings, self._nodes.allows)

    def _records(self) -> Iterator[tuple[str, Record]]:
        return ((name, record) for name in self._collections for record in self._store.scan(name))


def guard_of(policies: Policies, user: User, target: Target, subresource: str = "") -> Guard | None:
    """The guard of a write by ``user`` to ``target``, which asks the current policy; None when it needs none.

    The guard raises Forbidden, or NotFound for a binding to a role that does not exist.
    """
    resource = target.kind.resource
    if target.collection == str(REQUESTS):
        return _guard_of_request(policies, user, subresource)
    if MASTERS in user.groups:
        return None
    if resource.group != GROUP:
        node = restricted_node(user)
        return _guard_of_node(policies, node, target) if node and not target.kind.custom else None
    writing = Attributes(
        user, "", GROUP, resource.plural, namespace=target.namespace, name=target.name
    )  # escalation fills in the verb
    judge = fault_of_role if resource.plural in KINDS_OF_ROLES else fault_of_binding

    def guard(new: Object, old: Object | None) -> None:
        try:
            why = judge(policies.current, writing, new, old)
        except MissingRole as missing:
            raise refusals.not_found(resource, str(missing)) from None
        if why:
            raise refusals.forbidden(resource, new["metadata"].get("name", ""), why)

    return guard


def restricted_node(user: User) -> str:
    """The node that a user is, if what it writes is restricted for that; else empty."""
    return "" if MASTERS in user.groups else nodes.node_of(Attributes(user, ""))


_NODE_NAME = "spec.nodeName"
_PLACES = {
    "pods": str(PODS),
    "resourceslices": "resourceslices.resource.k8s.io",
    "volumeattachments": "volumeattachments.storage.k8s.io",
}


@cache
def _pod() -> ServedKind:
    return served(next(row for row in ROWS if row.definition == "core.v1.Pod"))


class _Objects:
    """As ``nodes.Objects``, in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def pods_on(self, node: str) -> Iterator[Object]:
        having = Having(_NODE_NAME, (node,), partial(_pod().field_of, _NODE_NAME), kept=True)
        pods = self._store.scan_at(self._store.version, str(PODS), having=(having,))
        return (orjson.loads(record.data) for record in pods)

    def volume_of(self, namespace: str, claim: str) -> Object:
        """A claim may name any volume; a volume is for the claim that it names itself."""
        name = self._field("persistentvolumeclaims", f"{namespace}/{claim}", "volumeName")
        record = self._store.get("persistentvolumes", name) if name else None
        volume: Object = {} if record is None else orjson.loads(record.data)
        of = (volume.get("spec") or {}).get("claimRef") or {}
        return volume if (of.get("namespace"), of.get("name")) == (namespace, claim) else {}

    def node_of(self, resource: str, name: str, namespace: str = "") -> str:
        return self._field(_PLACES[resource], f"{namespace}/{name}" if namespace else name, "nodeName")

    def _field(self, collection: str, key: str, name: str) -> str:
        record = self._store.get(collection, key)
        return "" if record is None else str((orjson.loads(record.data).get("spec") or {}).get(name) or "")


def _guard_of_node(policies: Policies, node: str, target: Target) -> Guard:
    """As the admission plugin NodeRestriction: what a node writes is its own."""
    resource = target.kind.resource

    def guard(new: Object, old: Object | None) -> None:
        if why := nodes.wrong_write(node, resource.kind, new, old, policies.node_uid(node)):
            raise refusals.forbidden(resource, new["metadata"].get("name", ""), why)

    return guard


def _guard_of_request(policies: Policies, user: User, subresource: str) -> Guard:
    """As the admission plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction; and
    a node asks for itself."""

    def guard(new: Object, old: Object | None) -> None:
        name, signer = (
            new["metadata"].get("name", ""),
            str(((old or new).get("spec") or {}).get("signerName")),
        )
        if old is None and (why := _wrong_request(user, signer, _asked(new))):
            raise refusals.forbidden(REQUESTS, name, why)
        before, after = ((each or {}).get("status") or {} for each in (old, new))
        signs = any(before.get(field) != after.get(field) for field in ("certificate", "conditions"))
        verb = {"approval": "approve", "status": "sign" if signs else ""}.get(subresource, "")
        if verb and not _may(policies, user, verb, signer):
            raise refusals.forbidden(
                REQUESTS, name, f'user not permitted to {verb} requests with signerName "{signer}"'
            )

    return guard


def _may(policies: Policies, user: User, verb: str, signer: str) -> bool:
    """Whether a user may do this for a signer, or for all signers of its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    return MASTERS in user.groups or any(
        policies.current.decide(Attributes(user, verb, REQUESTS.group, "signers", name=name)).allowed
        for name in names
    )


def _asked(request: Object) -> Asked:
    """What is asked for; nothing where it cannot be read, which validation refuses."""
    try:
        return asked_in(b64decode((request.get("spec") or {}).get("request") or ""))
    except ValueError:
        return Asked("")


def _wrong_request(user: User, signer: str, asked: Asked) -> str:
    """Why a user may not ask this signer for this; empty: the user may."""
    if signer == CLIENTS and MASTERS in asked.organizations:
        return f"use of {CLIENTS} signer with {MASTERS} group is not allowed"
    own = not nodes.node_of(Attributes(user, "")) or asked.common_name == user.name
    return "" if own or signer not in OF_KUBELETS else f"can only create a node CSR with CN={user.name}"


def _read(collection: str, record: Record) -> _Read:
    obj: Mapping[str, Any] = orjson.loads(record.data)
    if collection in (str(CLUSTER_ROLES), str(ROLES)):
        return rules_in(obj)
    namespace, _, name = record.key.rpartition("/")
    ref = obj.get("roleRef") or {}
    subjects = tuple(_subject(each, namespace) for each in obj.get("subjects") or ())
    return Binding(namespace, name, str(ref.get("kind", CLUSTER_ROLE)), str(ref.get("name", "")), subjects)


def _subject(written: Mapping[str, Any], namespace: str) -> Subject:
    kind, name = str(written.get("kind", "")), str(written.get("name", ""))
    if kind != "ServiceAccount":
        return Subject(kind, name)
    return Subject(kind, name, str(written.get("namespace") or namespace))
