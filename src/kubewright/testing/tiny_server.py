"""A very small API server: just enough to try a client and its caches against faults.

Theory.      One history, any kind, and none of the rules of Kubernetes: objects are what was put, a merge
             patch is applied, a delete removes. Lists come in pages, watches resume, send bookmarks
             and forget. Whatever is about semantics belongs on the real ``apiserver`` instead.
Invariants.  Versions grow with every change; an object's uid is never used again. A handler of
             ``wire.http``, so it works in process and behind ``fault_server``.
Called by    tests of ``kube``.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from kubewright.base.clock import Clock
from kubewright.wire import watch
from kubewright.wire.errors import ApiError, Conflict, Gone, NotFound, to_status
from kubewright.wire.http import Request, Response
from kubewright.wire.patch import apply_merge

Object = dict[str, Any]

BOOKMARK_SECONDS = 60.0
INSTANT = 0.001
"""Less than this is over: virtual time has a resolution."""


class TinyServer:
    """The server. Tests may change its world with ``put`` and ``remove`` behind the client's back."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.objects: dict[str, Object] = {}
        self.history: list[tuple[int, str, str, Object]] = []
        self.version = 100
        self.births = 0
        self.forgotten = 0
        self.served: Callable[[str], bool] = lambda path: True
        self.stirred = asyncio.Event()

    async def handle(self, request: Request) -> Response:
        """The ``Handler``."""
        try:
            return self._answer(request)
        except ApiError as error:
            return Response(error.code, msgspec.json.encode(to_status(error)))

    def _answer(self, request: Request) -> Response:
        path = request.path.removesuffix("/status")
        if not self.served(path):
            return Response(404, b"404 page not found\n", "text/plain")
        if request.method == "GET" and request.param("watch"):
            since = int(request.param("resourceVersion"))
            if since < self.forgotten:
                raise Gone("too old resource version")
            return Response(200, stream=self._watch(path, since, float(request.param("timeoutSeconds"))))
        if request.method == "GET" and path.partition("/namespaces/")[2].count("/") < 2:
            return self._list(path, request)
        if request.method == "POST":
            body = msgspec.json.decode(request.body)
            return _ok(self.put(f"{path}/{body['metadata']['name']}", body))
        if path not in self.objects:
            raise NotFound(f"{path} not found")
        if request.method == "GET":
            return _ok(self.objects[path])
        if request.method == "DELETE":
            uid = self.objects[path]["metadata"]["uid"]
            self.remove(path)
            return _ok({"kind": "Status", "status": "Success", "details": {"uid": uid}})
        patch = msgspec.json.decode(request.body)
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != self.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        return _ok(self.put(path, apply_merge(self.objects[path], patch)))

    def put(self, path: str, body: Object) -> Object:
        """Create or replace the object at a path; answers it with its metadata."""
        self.version += 1
        known = path in self.objects
        self.births += not known
        uid = self.objects[path]["metadata"]["uid"] if known else f"uid-{self.births}"
        meta = {**body.get("metadata", {}), "uid": uid, "resourceVersion": str(self.version)}
        parts = path.split("/")
        meta.update({"name": parts[-1], "namespace": parts[parts.index("namespaces") + 1]})
        self.objects[path] = {**body, "metadata": meta}
        self._record(watch.MODIFIED if known else watch.ADDED, path, self.objects[path])
        return self.objects[path]

    def remove(self, path: str) -> None:
        """Delete the object at a path."""
        self.version += 1
        last = self.objects.pop(path)
        meta = {**last["metadata"], "resourceVersion": str(self.version)}
        self._record(watch.DELETED, path, {**last, "metadata": meta})

    def _record(self, kind: str, path: str, body: Object) -> None:
        self.history.append((self.version, kind, path, body))
        stirred, self.stirred = self.stirred, asyncio.Event()
        stirred.set()

    def forget(self) -> None:
        """Compaction: watches from before now answer 410."""
        self.forgotten = self.version

    def _list(self, path: str, request: Request) -> Response:
        found = sorted(place for place in self.objects if _inside(place, path))
        at, limit = int(request.param("continue", "0")), int(request.param("limit", "0")) or len(found) + 1
        meta = {"resourceVersion": str(self.version)}
        if at + limit < len(found):
            meta["continue"] = str(at + limit)
        return _ok(
            {
                "kind": "List",
                "metadata": meta,
                "items": [self.objects[place] for place in found[at : at + limit]],
            }
        )

    async def _watch(self, path: str, since: int, seconds: float) -> AsyncGenerator[bytes, None]:
        deadline = self.clock.monotonic() + seconds
        at = sum(version <= since for version, *_ in self.history)
        while True:
            stirred = self.stirred
            while at < len(self.history):
                _, kind, place, body = self.history[at]
                at += 1
                if _inside(place, path):
                    yield watch.encode(kind, msgspec.json.encode(body))
            remaining = deadline - self.clock.monotonic()
            if remaining < INSTANT:
                return
            try:
                async with asyncio.timeout(min(BOOKMARK_SECONDS, remaining)):
                    await stirred.wait()
            except TimeoutError:
                mark = {"kind": "Thing", "metadata": {"resourceVersion": str(self.version)}}
                yield watch.encode(watch.BOOKMARK, msgspec.json.encode(mark))


def _ok(body: Object) -> Response:
    return Response(200, msgspec.json.encode(body))


def _inside(place: str, collection: str) -> bool:
    """Whether an object's path belongs to a collection's, that of all namespaces included."""
    head, _, plural = collection.rpartition("/")
    owner = place.rsplit("/", 1)[0]
    if "/namespaces/" in collection:
        return owner == collection
    return owner.startswith(f"{head}/namespaces/") and owner.endswith(f"/{plural}")
