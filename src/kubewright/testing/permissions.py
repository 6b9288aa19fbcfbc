"""What a client asks of an API server as RBAC counts it, and what roles grant: to compare the two.

Theory.      A request is one or more permissions: a verb on a resource, in a namespace or everywhere.
             ``asked`` reads them off the request alone. One of them is no request of its own: an
             owner reference that holds its owner needs ``update`` on the owner's ``finalizers``,
             where the admission plugin OwnerReferencesPermissionEnforcement looks. ``granted`` reads
             the permissions off manifests. ``PermissionLog`` is a transport that writes down what
             passes through it, and what the server forbade.
Invariants.  Pure but for ``PermissionLog``, which changes nothing that passes. A path that is no resource
             (health, discovery) needs no permission here: every authenticated user may see those.
             Server-side apply, which may also create, is not understood: our controllers never use it.
Called by    tests/conformance/test_access.py, and tests of the roles of clusters.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.apiserver.http.requests import ResourcePath, parse_path
from kubewright.apiserver.http.resources import verb_of
from kubewright.kube.transport import Transport
from kubewright.wire.errors import Forbidden
from kubewright.wire.gvk import split_api_version
from kubewright.wire.http import Request, Response

OWNERS = {kind.resource.kind: kind for kind in (MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET)}
"""The kinds whose references are counted: those of the machines' API."""

FORBIDDEN = 403


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """``resource`` with its subresource (``pods/eviction``); ``namespace`` empty means all of them."""

    group: str
    resource: str
    verb: str
    namespace: str = ""

    def covers(self, need: "Permission") -> bool:
        """Whether it is enough for ``need``. ``*`` stands for all resources, with their subresources."""
        same = (self.group, self.verb) == (need.group, need.verb)
        return same and self.namespace in ("", need.namespace) and self.resource in ("*", need.resource)

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}" + (f" in {self.namespace}" if self.namespace else "")


def asked(request: Request) -> frozenset[Permission]:
    """What the sender of ``request`` must be allowed."""
    path = parse_path(request.path)
    if path is None:
        return frozenset()
    resource = f"{path.plural}/{path.subresource}" if path.subresource else path.plural
    own = Permission(path.group, resource, verb_of(request, path), path.namespace)
    return frozenset({own, *_holding(request, path)})


def granted(manifests: Iterable[Mapping[str, Any]]) -> frozenset[Permission]:
    """What the Roles and ClusterRoles among ``manifests`` allow, wildcards and names left as they are."""
    return frozenset(
        Permission(group, resource, verb, role["metadata"].get("namespace", ""))
        for role in manifests
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def missing(needs: Iterable[Permission], grants: Iterable[Permission]) -> list[Permission]:
    """The needs that no grant covers."""
    grants = tuple(grants)
    return sorted(need for need in needs if not any(grant.covers(need) for grant in grants))


def unused(needs: Iterable[Permission], grants: Iterable[Permission]) -> list[Permission]:
    """The grants that no need called for."""
    needs = tuple(needs)
    return sorted(grant for grant in grants if not any(grant.covers(need) for need in needs))


class PermissionLog:
    """``inner``; ``needs`` is what its requests must be allowed, ``refusals`` what the server forbade."""

    def __init__(self, inner: Transport) -> None:
        self.needs: set[Permission] = set()
        self.refusals: list[str] = []
        self._inner = inner

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        self.needs |= asked(request)
        response = await self._inner.request(request, timeout=timeout)
        if response.status == FORBIDDEN:
            self.refusals.append(f"{request.method} {request.path}: {response.body.decode(errors='replace')}")
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        return self._stream(request)

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self.needs |= asked(request)
        try:
            async with self._inner.stream(request) as chunks:
                yield chunks
        except Forbidden as error:
            self.refusals.append(f"{request.method} {request.path}: {error}")
            raise


def _holding(request: Request, path: ResourcePath) -> Iterator[Permission]:
    """The owners that a written object's references hold."""
    if request.method not in ("POST", "PUT", "PATCH") or path.subresource:
        return
    try:
        body = msgspec.json.decode(request.body)
        references = body["metadata"]["ownerReferences"] or ()
    except (msgspec.DecodeError, LookupError, TypeError):
        return
    for each in references:
        if each.get("blockOwnerDeletion") and (owner := OWNERS.get(each["kind"])):
            group, _ = split_api_version(each["apiVersion"])
            yield Permission(group, f"{owner.resource.plural}/finalizers", "update", path.namespace)
