"""A kind of a test's own: its definition, whose schema may change, and its objects."""

import itertools
from typing import Any

from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.http import APPLY_PATCH, JSON

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COUNTS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_numbers = itertools.count(1)


class OwnKind:
    """``Thing`` in a group of its own, with a status and a scale."""

    def __init__(self, api: Api, group: str = "") -> None:
        """``group``: of a definition that several tests of one server share."""
        self.api = api
        self.group = group or f"t{next(_numbers)}.{api.namespace}.example.io"
        self.crd = f"{CRDS}/things.{self.group}"
        self.path = api.at("things", group=self.group)

    async def define(self, spec: Object, *, root: Object | None = None, status: Object | None = None) -> None:
        """Serve the kind; ``spec`` and ``status`` are the properties of these, ``root`` is more of the root."""
        names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
        versions = [self.version(spec, root or {}, status or {})]
        body = {"group": self.group, "scope": "Namespaced", "names": names, "versions": versions}
        (await self.api.post(CRDS, {"metadata": {"name": f"things.{self.group}"}, "spec": body})).ok()

        async def served() -> bool:
            return (await self.api.get(self.path)).code == 200

        await self.api.eventually(served, "the new kind is served")

    async def redefine(
        self, spec: Object, *, root: Object | None = None, status: Object | None = None
    ) -> None:
        """Serve the kind with another schema, and wait until the server works with it."""
        mark = f"m{next(_numbers)}"
        versions = [self.version({**spec, mark: {"type": "string"}}, root or {}, status or {})]
        (await self.api.patch(self.crd, {"spec": {"versions": versions}})).ok()

        async def in_force() -> bool:
            tried = await self.post("probe", {mark: "x"}, dryRun="All")
            return mark not in str(tried.headers.get("warning", ""))

        await self.api.eventually(in_force, "the new schema is in force")

    @staticmethod
    def version(spec: Object, root: Object, status: Object) -> Object:
        properties = {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, **status}},
        }
        schema = {"type": "object", **root, "properties": properties}
        return {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}, "scale": COUNTS},
            "schema": {"openAPIV3Schema": schema},
        }

    def thing(self, name: str, spec: Object | None = None, **members: Any) -> Object:
        kind = {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": {"name": name}}
        return {**kind, **({} if spec is None else {"spec": spec}), **members}

    def raw(self, name: str, spec: str) -> bytes:
        """A body whose spec is written out, number by number."""
        head = f'"apiVersion":"{self.group}/v1","kind":"Thing","metadata":{{"name":"{name}"}}'
        return f'{{{head},"spec":{spec}}}'.encode()

    async def post(self, name: str, spec: Object | str, *, content_type: str = JSON, **query: str) -> Answer:
        body = self.raw(name, spec) if isinstance(spec, str) else self.thing(name, spec)
        return await self.api.call("POST", self.path, body, query=query, content_type=content_type)

    async def get(self, name: str) -> Object:
        return (await self.api.get(f"{self.path}/{name}")).ok()

    async def apply(self, name: str, spec: Object | str, **query: str) -> Answer:
        body = self.raw(name, spec) if isinstance(spec, str) else self.thing(name, spec)
        asked = {"fieldManager": "m", "force": "true", **query}
        return await self.api.patch(f"{self.path}/{name}", body, content_type=APPLY_PATCH, **asked)
