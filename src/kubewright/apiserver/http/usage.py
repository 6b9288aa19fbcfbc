"""The group metrics.k8s.io: what ``kubectl top`` reads, served beside the kinds that are stored.

Theory.      On other clusters an aggregated API server (metrics-server) serves it. Here there is nothing to
             install: each answer is computed from what kubelets have measured (``kubelets.usage``). The
             objects are read-only and cannot be watched. Rules of authorization apply as to any resource.
             A list looks at nodes with kubelets, and at the pods that these have measured: where most nodes
             are simulated, most pods are not read. A kubelet measures no pod of another node.
Called by    ``app``; ``discovery`` lists what is served.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kubewright.apiserver.http.answers import Form, form, plain
from kubewright.apiserver.http.discovery import MEASURED, MEASURED_VERBS
from kubewright.apiserver.http.kubelets import Kubelets
from kubewright.apiserver.http.requests import ResourcePath
from kubewright.apiserver.kubelets.usage import Summary, Usage, of_node, of_pods
from kubewright.apiserver.kubelets.where import kubelet_of
from kubewright.apiserver.registry import codec, refusals
from kubewright.apiserver.registry.kind import Catalog, ServedKind, Target
from kubewright.apiserver.registry.reading import Filter, filter_of
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Store
from kubewright.base.clock import Clock
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response

KINDS = {each.plural: each for each in MEASURED}
GROUP, _VERSION = MEASURED[0].group, MEASURED[0].version


MOST_AT_ONCE = 500
"""Nodes that are decoded before others are served; of ten thousand most may be simulated."""


class Measurements:
    """Answers requests for metrics.k8s.io."""

    def __init__(self, store: Store, catalog: Catalog, kubelets: Kubelets, clock: Clock) -> None:
        self._store, self._catalog, self._kubelets, self._clock = store, catalog, kubelets, clock
        self._usage = Usage(clock)
        self.close = self._usage.close

    async def serve(self, request: Request, path: ResourcePath, verb: str) -> Response:
        """The answer.

        Raises:
            NotFound, MethodNotAllowed, BadRequest
        """
        resource = KINDS.get(path.plural)
        if resource is None or path.version != _VERSION or path.subresource:
            raise refusals.no_such_path()
        if path.namespace and not resource.namespaced:
            raise refusals.no_such_path()
        if verb not in MEASURED_VERBS:
            raise refusals.not_allowed()
        wanted = _unshaped(form(request.headers.get("accept", "")))
        if path.name:
            return plain(await self._one(resource, path), wanted)
        kind = self._kind(path.plural)
        matches = filter_of(kind, request.param("labelSelector"), request.param("fieldSelector"))
        found = await (self._pods(path.namespace, matches) if resource.namespaced else self._nodes(matches))
        items = [{key: each[key] for key in each if key not in ("kind", "apiVersion")} for each in found]
        kind_and_version = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return plain({**kind_and_version, "metadata": {}, "items": items}, wanted)

    async def _one(self, resource: Resource, path: ResourcePath) -> Object:
        stored = self._kubelets.look(Target(self._kind(path.plural), path.namespace, path.name))
        node = stored if stored is None or not resource.namespaced else self._node_of(stored)
        summaries = {} if node is None else await self._summaries([node])
        for found in () if stored is None or node is None else self._measured(resource, stored, summaries):
            return found
        named = replace(resource, plural=resource.kind.lower())  # as metrics-server calls it
        raise refusals.not_found(named, f"{path.namespace}/{path.name}" if path.namespace else path.name)

    def _measured(
        self, resource: Resource, stored: Object, summaries: Mapping[str, Summary]
    ) -> Iterable[Object]:
        if resource.namespaced:
            return of_pods([stored], summaries)
        return filter(None, (of_node(stored, each) for each in summaries.values()))

    async def _nodes(self, matches: Filter) -> list[Object]:
        nodes = await self._with_kubelets(matches)
        summaries = await self._summaries(nodes)
        measured = ((node, summaries.get(node["metadata"]["name"])) for node in nodes)
        found = (of_node(node, summary) for node, summary in measured if summary is not None)
        return [each for each in found if each is not None]

    async def _pods(self, namespace: str, matches: Filter) -> list[Object]:
        """Those that match of the pods that kubelets have measured; those on simulated nodes are not read."""
        everything = filter_of(self._kind("nodes"), "", "")
        summaries = await self._summaries(await self._with_kubelets(everything))
        kind = matches.kind
        references = {
            (each.pod_ref.namespace, each.pod_ref.name)
            for summary in summaries.values()
            for each in summary.pods
            if namespace in ("", each.pod_ref.namespace)
        }
        places = (Target(kind, where, name) for where, name in sorted(references))
        records = (self._store.get(place.collection, place.key) for place in places)
        pods = (codec.decode(kind, each) for each in records if each is not None and matches(each))
        return list(of_pods(pods, summaries))

    async def _with_kubelets(self, matches: Filter) -> list[Object]:
        """The nodes that match and have kubelets."""
        found = []
        for number, record in enumerate(tuple(self._store.scan(str(matches.kind.resource))), 1):
            if number % MOST_AT_ONCE == 0:
                await self._clock.sleep(0)  # others work
            if matches(record) and kubelet_of(node := codec.decode(matches.kind, record)) is not None:
                found.append(node)
        return found

    async def _summaries(self, nodes: Iterable[Object]) -> dict[str, Summary]:
        kubelets = [kubelet for node in nodes if (kubelet := kubelet_of(node)) is not None]
        dialer = self._kubelets.dialer
        return {} if dialer is None or not kubelets else await self._usage.of(kubelets, dialer)

    def _node_of(self, pod: Object) -> Object | None:
        name = pod["spec"].get("nodeName")
        return self._kubelets.look(Target(self._kind("nodes"), "", name)) if name else None

    def _kind(self, plural: str) -> ServedKind:
        kind = self._catalog.find("", "v1", plural)
        assert kind is not None
        return kind


def _unshaped(wanted: Form) -> Form:
    """There are no Tables of these; kubectl makes its own of the objects."""
    return Form() if wanted.shape else wanted
