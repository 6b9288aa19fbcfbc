"""A small API server for the tests of the client: one history, any kind, lists in pages, watches."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from kubewright.base.clock import LoopClock
from kubewright.wire import watch
from kubewright.wire.errors import ApiError, Conflict, Gone, NotFound, to_status
from kubewright.wire.http import Request, Response
from kubewright.wire.patch.merge import apply

Object = dict[str, Any]


class Toy:
    """Just enough of an API server: namespaced or not, it looks only at paths."""

    def __init__(self, clock: LoopClock) -> None:
        self.clock = clock
        self.objects: dict[str, Object] = {}
        self.history: list[tuple[int, str, str, Object]] = []
        self.version = 100
        self.births = 0
        self.forgotten = 0
        self.served: Callable[[str], bool] = lambda path: True
        self.stirred = asyncio.Event()

    async def handle(self, request: Request) -> Response:
        try:
            return self.answer(request)
        except ApiError as error:
            return Response(error.code, json.dumps(to_status(error)).encode())

    def answer(self, request: Request) -> Response:
        path = request.path.removesuffix("/status")
        if not self.served(path):
            return Response(404, b"404 page not found\n", "text/plain")
        if request.method == "GET" and request.param("watch"):
            since = int(request.param("resourceVersion"))
            if since < self.forgotten:
                raise Gone("too old resource version")
            return Response(200, stream=self.watch(path, since, float(request.param("timeoutSeconds"))))
        if request.method == "GET" and path in self.objects:
            return ok(self.objects[path])
        if request.method == "GET":
            return self.list(path, request)
        if request.method == "POST":
            body = json.loads(request.body)
            return ok(self.put(f"{path}/{body['metadata']['name']}", body))
        if path not in self.objects:
            raise NotFound(f"{path} not found")
        if request.method == "DELETE":
            uid = self.objects[path]["metadata"]["uid"]
            self.remove(path)
            return ok({"kind": "Status", "status": "Success", "details": {"uid": uid}})
        patch = json.loads(request.body)
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != self.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified")
        return ok(self.put(path, apply(self.objects[path], patch)))

    def put(self, path: str, body: Object) -> Object:
        self.version += 1
        known = path in self.objects
        self.births += not known
        uid = self.objects[path]["metadata"]["uid"] if known else f"uid-{self.births}"
        meta = {**body.get("metadata", {}), "uid": uid, "resourceVersion": str(self.version)}
        parts = path.split("/")
        meta.update({"name": parts[-1], "namespace": parts[parts.index("namespaces") + 1]})
        self.objects[path] = {**body, "metadata": meta}
        self.record(watch.MODIFIED if known else watch.ADDED, path, self.objects[path])
        return self.objects[path]

    def remove(self, path: str) -> None:
        self.version += 1
        last = self.objects.pop(path)
        meta = {**last["metadata"], "resourceVersion": str(self.version)}
        self.record(watch.DELETED, path, {**last, "metadata": meta})

    def record(self, kind: str, path: str, body: Object) -> None:
        self.history.append((self.version, kind, path, body))
        stirred, self.stirred = self.stirred, asyncio.Event()
        stirred.set()

    def forget(self) -> None:
        """Compaction: watches from before now answer 410."""
        self.forgotten = self.version

    def list(self, path: str, request: Request) -> Response:
        found = sorted(place for place in self.objects if inside(place, path))
        at, limit = int(request.param("continue", "0")), int(request.param("limit", "0")) or len(found) + 1
        meta = {"resourceVersion": str(self.version)}
        if at + limit < len(found):
            meta["continue"] = str(at + limit)
        return ok(
            {
                "kind": "List",
                "metadata": meta,
                "items": [self.objects[place] for place in found[at : at + limit]],
            }
        )

    async def watch(self, path: str, since: int, seconds: float) -> AsyncGenerator[bytes, None]:
        deadline = self.clock.monotonic() + seconds
        at = sum(version <= since for version, *_ in self.history)
        while True:
            stirred = self.stirred
            while at < len(self.history):
                _, kind, place, body = self.history[at]
                at += 1
                if inside(place, path):
                    yield watch.encode(kind, json.dumps(body).encode())
            try:
                async with asyncio.timeout(min(60.0, deadline - self.clock.monotonic())):
                    await stirred.wait()
            except TimeoutError:
                if self.clock.monotonic() >= deadline:
                    return
                mark = {"kind": "Thing", "metadata": {"resourceVersion": str(self.version)}}
                yield watch.encode(watch.BOOKMARK, json.dumps(mark).encode())


def ok(body: Object) -> Response:
    return Response(200, json.dumps(body).encode())


def inside(place: str, collection: str) -> bool:
    """Whether an object's path belongs to a collection's, that of all namespaces included."""
    head, _, plural = collection.rpartition("/")
    owner = place.rsplit("/", 1)[0]
    if "/namespaces/" in collection:
        return owner == collection
    return owner.startswith(f"{head}/namespaces/") and owner.endswith(f"/{plural}")


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def toy(clock: LoopClock) -> Toy:
    return Toy(clock)
