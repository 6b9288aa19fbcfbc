"""The group metrics.k8s.io: what ``kubectl top`` reads, served beside the kinds that are stored.

Theory.      On other clusters an aggregated API server (metrics-server) serves it. Here there is nothing to
             install: each answer is computed from what kubelets have measured (``kubelets.usage``). The
             objects are read-only and cannot be watched. Rules of authorization apply as to any resource.
             A get or a list looks at the stored nodes and pods first, by the selectors of the request, and
             asks the kubelets of these only.
Called by    ``app``; ``discovery`` lists what is served.
"""

from collections.abc import Iterable
from dataclasses import replace

from kubewright.apiserver.http.answers import Form, form, plain
from kubewright.apiserver.http.discovery import MEASURED, MEASURED_VERBS
from kubewright.apiserver.http.kubelets import Kubelets
from kubewright.apiserver.http.paths import ResourcePath
from kubewright.apiserver.kubelets.usage import Usage, of_node, of_pods
from kubewright.apiserver.kubelets.where import kubelet_of
from kubewright.apiserver.registry import codec, filters, refusals
from kubewright.apiserver.registry.kind import Catalog, Object, ServedKind
from kubewright.apiserver.registry.reading import ListOptions, Reading
from kubewright.apiserver.registry.target import Target
from kubewright.base.clock import Clock
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response

KINDS = {each.plural: each for each in MEASURED}
GROUP, _VERSION = MEASURED[0].group, MEASURED[0].version


class Measurements:
    """Answers requests for metrics.k8s.io."""

    def __init__(self, reading: Reading, catalog: Catalog, kubelets: Kubelets, clock: Clock) -> None:
        self._reading, self._catalog, self._kubelets = reading, catalog, kubelets
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
        wanted = form(request.headers.get("accept", ""))
        found = await self._measured(resource, self._stored(request, path))
        if path.name:
            if not found:
                name = f"{path.namespace}/{path.name}" if path.namespace else path.name
                named = replace(resource, plural=resource.kind.lower())  # as metrics-server calls it
                raise refusals.not_found(named, name)
            return plain(found[0], _unshaped(wanted))
        items = [{key: each[key] for key in each if key not in ("kind", "apiVersion")} for each in found]
        body = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {},
            "items": items,
        }
        return plain(body, _unshaped(wanted))

    def _stored(self, request: Request, path: ResourcePath) -> list[Object]:
        """The nodes or pods that the request is about."""
        kind = self._kind(path.plural)
        if path.name:
            found = self._kubelets.look(Target(kind, path.namespace, path.name))
            return [] if found is None else [found]
        matches = filters.parse(kind, request.param("labelSelector"), request.param("fieldSelector"))
        page = self._reading.list(Target(kind, path.namespace, ""), matches, ListOptions())
        return [codec.decode(kind, record) for record in page.records]

    async def _measured(self, resource: Resource, stored: list[Object]) -> list[Object]:
        nodes = stored if not resource.namespaced else self._nodes_of(stored)
        found = {
            node["metadata"]["name"]: kubelet for node in nodes if (kubelet := kubelet_of(node)) is not None
        }
        dialer = self._kubelets.dialer
        summaries = {} if dialer is None or not found else await self._usage.of(found.values(), dialer)
        if resource.namespaced:
            return list(of_pods(stored, summaries))
        measured = (
            of_node(node, summary)
            for node in nodes
            if (summary := summaries.get(node["metadata"]["name"])) is not None
        )
        return [each for each in measured if each is not None]

    def _nodes_of(self, pods: Iterable[Object]) -> list[Object]:
        kind = self._kind("nodes")
        names = dict.fromkeys(name for pod in pods if (name := pod["spec"].get("nodeName")))
        found = (self._kubelets.look(Target(kind, "", name)) for name in names)
        return [node for node in found if node is not None]

    def _kind(self, plural: str) -> ServedKind:
        kind = self._catalog.find("", "v1", plural)
        assert kind is not None
        return kind


def _unshaped(wanted: Form) -> Form:
    """There are no Tables of these; kubectl makes its own of the objects."""
    return Form() if wanted.shape else wanted
