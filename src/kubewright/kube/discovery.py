"""Which kinds a server serves, in two requests; and of what it holds, the metadata alone.

Theory.      Aggregated discovery tells every group, version, resource and verb at once. Of a resource
             in several versions the preferred one is taken, so that no object is counted twice.
             A reader that needs only to know that an object exists, who owns it or how it is labelled asks
             for ``PartialObjectMetadata``: the server leaves spec and status out, which may be a hundred
             times as large (a CustomResourceDefinition with its schemas is).
Invariants.  ``MetadataOnly`` changes reads alone. A server that does not know the form answers whole objects,
             whose metadata reads the same.
Called by    ``builtin.garbage`` (what may own and be owned; metadata of every kind), ``builtin.namespaces``
             (what may be inside) and ``runtime.references`` (which resource a kind is; metadata of
             CustomResourceDefinitions).
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kubewright.kube.client import Client
from kubewright.kube.errors import BadAnswer
from kubewright.kube.transport import Transport
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response

ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

EVENTS = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Events come and go in numbers, own nothing and expire by themselves."""


@dataclass(frozen=True, slots=True)
class Served:
    """A resource and what can be done with it."""

    resource: Resource
    verbs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Discovery:
    """Everything that is served, subresources left out. Of the ``stale`` group versions the server
    knows only what an extension server served some time ago: there may be more."""

    served: tuple[Served, ...]
    stale: tuple[str, ...] = ()


async def discover(client: Client) -> Discovery:
    """Ask what the server serves.

    Raises:
        ApiError, TransportError: no complete answer; a partial one is never returned.
    """
    return read([await _ask(client, path) for path in ("/api", "/apis")])


def read(documents: Iterable[Mapping[str, Any]]) -> Discovery:
    """The resources of ``APIGroupDiscoveryList`` documents, each in its preferred version."""
    versions = [
        (group.get("metadata", {}).get("name", ""), version)
        for document in documents
        for group in document["items"]
        for version in group.get("versions", ())
    ]
    stale = [f"{name}/{each['version']}" for name, each in versions if each.get("freshness") == "Stale"]
    return Discovery(tuple(_preferred(versions)), tuple(stale))


def _preferred(versions: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Served]:
    seen: set[tuple[str, str]] = set()
    for group, version in versions:
        for item in version.get("resources", ()):
            if (group, item["resource"]) not in seen:
                seen.add((group, item["resource"]))
                yield _served(group, version["version"], item)


def _served(group: str, version: str, item: Mapping[str, Any]) -> Served:
    kind = item.get("responseKind") or {}
    resource = Resource(
        group, version, item["resource"], kind.get("kind", ""), namespaced=item["scope"] == "Namespaced"
    )
    return Served(resource, frozenset(item.get("verbs", ())))


async def _ask(client: Client, path: str) -> Mapping[str, Any]:
    request = client.request("GET", path)
    request = replace(request, headers={**request.headers, "accept": ACCEPT})
    response = await client.send(request, safe=True)
    document = msgspec.json.decode(response.body)
    if not isinstance(document, dict) or "items" not in document:
        raise BadAnswer(f"{path} did not answer with aggregated discovery; the server is too old")
    return document


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
