"""A client that sees the metadata of objects and nothing else of them.

Theory.      A reader that needs only to know that an object exists, who owns it or how it is labelled asks
             for ``PartialObjectMetadata``: the server leaves spec and status out, which may be a hundred
             times as large (a CustomResourceDefinition with its schemas is).
Invariants.  Only reads are changed. A server that does not know the form answers whole objects, whose
             metadata reads the same.
Called by    ``builtin.garbage`` for every kind, ``runtime.references`` for CustomResourceDefinitions.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from kubewright.kube.client import Client
from kubewright.kube.transport import Transport
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
        """Nothing to close: the inner transport is the client's."""


def _for_metadata(request: Request, suffix: str) -> Request:
    if request.method != "GET":
        return request
    return replace(request, headers={**request.headers, "accept": METADATA.format(suffix)})


def metadata_client(client: Client) -> Client:
    """A client of the same server for lists and watches of metadata."""
    return Client(MetadataOnly(client.transport), client.clock, name=f"{client.name} metadata")
