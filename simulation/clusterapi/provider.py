"""A small provider of infrastructure and control planes that follows Cluster API's contract.

Theory.      Its objects do nothing until they name a Cluster as their controller. Then they get the
             provider's finalizer, and are ready a moment later; one that is deleted takes a moment too. So
             does the end of a MachineDeployment, which has a finalizer here, and no other controller.
Source       S0-34 to S0-37, S2-11, S2-12.
Called by    ``setup``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubewright.api.cluster.names import CONTRACT_LABEL
from kubewright.api.cluster.v1beta1 import MACHINE_DEPLOYMENT
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import Json
from kubewright.base.clock import parse_rfc3339
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from simulation.resources import FOO_CLUSTER, FOO_PLANE

DEPLOYMENT = dynamic(MACHINE_DEPLOYMENT.resource)
FINALIZER = "example.com/foo"
MAKING_SECONDS = ENDING_SECONDS = 2.0
WHEN_READY: Mapping[Kind[dict[str, Any]], tuple[Json, Json]] = {
    FOO_CLUSTER: ({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}, {"ready": True}),
    FOO_PLANE: ({"replicas": 1}, {"ready": True, "initialized": True}),
}
"""Spec and status of an object when the provider has done its part."""


def definitions(kinds: Iterable[Kind[Any]] = tuple(WHEN_READY)) -> Iterator[Mapping[str, Any]]:
    """The CustomResourceDefinitions of these kinds, by default of the two."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind in kinds:
        resource = kind.resource
        names = {"kind": resource.kind, "plural": resource.plural, "listKind": f"{resource.kind}List"}
        version = {"name": resource.version, "served": True, "storage": True, "schema": schema}
        yield {
            "metadata": {"name": str(resource), "labels": {CONTRACT_LABEL: resource.version}},
            "spec": {
                "group": resource.group,
                "scope": "Namespaced",
                "names": {**names, "singular": resource.kind.lower()},
                "versions": [{**version, "subresources": {"status": {}}}],
            },
        }


def wire(environment: Environment) -> list[Controller]:
    """A controller for each kind."""
    client, caches, clock = environment.control.client, environment.control.caches, environment.clock
    made = []
    for kind in (*WHEN_READY, DEPLOYMENT):
        informer = caches.get(kind)
        made.append(
            Controller(kind.resource.kind.lower(), Provider(client, informer), clock).watches(informer)
        )
    return made


class Provider:
    """The reconciler of one kind."""

    def __init__(self, client: Client, objects: Informer[dict[str, Any]]) -> None:
        self._client = client
        self._objects = objects

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        found = self._objects.get(key)
        if found is None:
            return Result.done()
        meta = found["metadata"]
        try:
            if meta.get("deletionTimestamp"):
                return await self._end(key, meta)
            if self._objects.kind in WHEN_READY and any(
                each.get("controller") for each in meta.get("ownerReferences", ())
            ):
                return await self._make(key, found)
        except NotFound:
            pass
        return Result.done()

    async def _make(self, key: Key, found: Mapping[str, Any]) -> Result:
        meta, (spec, status) = found["metadata"], WHEN_READY[self._objects.kind]
        if FINALIZER not in meta.get("finalizers", ()):
            await self._write(
                key, meta, {"metadata": {"finalizers": [*meta.get("finalizers", ()), FINALIZER]}}
            )
            return Result.later(MAKING_SECONDS)
        if found.get("spec") != spec:
            await self._write(key, meta, {"spec": spec})
        elif found.get("status") != status:
            await self._write(key, meta, {"status": status}, "status")
        return Result.done()

    async def _end(self, key: Key, meta: Mapping[str, Any]) -> Result:
        began = parse_rfc3339(meta["deletionTimestamp"])
        left = ENDING_SECONDS - (self._client.clock.now() - began).total_seconds()
        if left > 0:
            return Result.later(left)
        kept = [each for each in meta.get("finalizers", ()) if each != FINALIZER]
        await self._write(key, meta, {"metadata": {"finalizers": kept or None}})
        return Result.done()

    async def _write(self, key: Key, seen: Mapping[str, Any], body: dict[str, Any], part: str = "") -> None:
        version = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
        whole = {**body, "metadata": {**body.get("metadata", {}), **version}}
        await self._client.patch(self._objects.kind, key, whole, subresource=part)
