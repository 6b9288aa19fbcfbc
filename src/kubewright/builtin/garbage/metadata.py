"""Objects as the collector sees them: metadata, and of that only what collection is about.

Called by    ``feeds``.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import msgspec
from msgspec import Struct

from kubewright.builtin.garbage.decide import FOREGROUND, ORPHAN
from kubewright.builtin.garbage.graph import Node, Owner
from kubewright.kube.header import Header
from kubewright.kube.transport import Transport
from kubewright.wire.gvk import Resource, split_api_version
from kubewright.wire.http import Request, Response

METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"


class MetadataOnly:
    """A transport for feeds: its lists and watches bring the metadata of objects only."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``; every GET is taken for a list."""
        return await self._inner.request(_for_metadata(request, "List"), timeout=timeout)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        return self._inner.stream(_for_metadata(request, ""))

    async def close(self) -> None:
        """Nothing to close: the inner transport is somebody else's."""


def _for_metadata(request: Request, suffix: str) -> Request:
    if request.method != "GET":
        return request
    return replace(request, headers={**request.headers, "accept": METADATA.format(suffix)})


class _Reference(Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    block_owner_deletion: bool | None = None


class _Metadata(Struct, rename="camel", gc=False):
    owner_references: list[_Reference] | None = None
    finalizers: list[str] | None = None


class _Object(Struct, gc=False):
    metadata: _Metadata


_objects = msgspec.json.Decoder(_Object)


def node_of(resource: Resource, header: Header) -> Node:
    """The node for an object of which we have at least the metadata."""
    metadata = _objects.decode(header.data).metadata
    finalizers = metadata.finalizers or ()
    return Node(
        uid=header.uid,
        resource=resource,
        key=header.key,
        version=str(header.version),
        owners=tuple(
            Owner(
                ref.uid,
                split_api_version(ref.api_version)[0],
                ref.kind,
                ref.name,
                bool(ref.block_owner_deletion),
            )
            for ref in metadata.owner_references or ()
        ),
        deleting=header.deleting,
        orphans=ORPHAN in finalizers,
        foreground=FOREGROUND in finalizers,
    )
