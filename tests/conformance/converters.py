"""A kind with several versions and the webhook that converts between them: for tests on any server.

Theory.      ``Gate`` is served as ``v1`` and ``v2``. In ``v1`` it has ``spec.size`` (a number with its unit, ``3m``),
             in ``v2`` ``spec.length`` and ``spec.unit``. What ``v1`` cannot hold (``spec.color``) is kept in an
             annotation, as conversions of Cluster API do it.
             The webhook listens in a thread of its own, so that neither server waits for a loop that waits for it.
Invariants.  ``Webhook.answers`` are used up one by one; without any, it converts.
"""

import base64
import itertools
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubewright.pki import tls
from kubewright.pki.certificates import Identity, new_authority, new_server
from kubewright.testing.api import Answer, Api, Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KEPT = "example.io/kept"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_numbers = itertools.count(1)


def converted(obj: Object, to: str) -> Object:
    """A Gate in a version. An apply asks for parts of objects, too, which may be without metadata."""
    obj = json.loads(json.dumps(obj))
    if obj["apiVersion"] == to:
        return obj
    spec, metadata = obj.get("spec"), obj.setdefault("metadata", {})
    if isinstance(spec, dict) and to.endswith("/v2"):
        if (size := spec.pop("size", None)) is not None:
            spec["length"], spec["unit"] = int(size.rstrip("acdmk")), size.lstrip("0123456789")
        if (kept := metadata.get("annotations", {}).pop(KEPT, None)) is not None:
            spec["color"] = kept
        if not metadata.get("annotations"):
            metadata.pop("annotations", None)
    elif isinstance(spec, dict):
        length, unit = spec.pop("length", None), spec.pop("unit", "")
        if length is not None:
            spec["size"] = f"{length}{unit}"
        if (color := spec.pop("color", None)) is not None:
            metadata.setdefault("annotations", {})[KEPT] = color
    return {**obj, "apiVersion": to}


Change = Callable[[Object], Any]
"""What becomes of the right answer; what is no dict is sent as bytes."""


class Webhook:
    """A conversion webhook at ``url``; ``asked`` are the requests that it got."""

    def __init__(self, authority: Identity, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}/convert"
        self.bundle = base64.b64encode(authority.certificate).decode()
        self.answers: list[Change] = []
        self.asked: list[Object] = []
        self.gate = threading.Event()
        self.gate.set()

    @property
    def config(self) -> Object:
        return {"url": self.url, "caBundle": self.bundle}

    def answer(self, review: Object) -> Any:
        self.gate.wait(20)
        request = review["request"]
        self.asked.append(request)
        objects = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        return self.answers.pop(0)(answer) if self.answers else answer


@contextmanager
def webhook() -> Iterator[Webhook]:
    now, lifetime = datetime.now(UTC), timedelta(days=1)
    authority = new_authority("converters", now, lifetime)
    context = tls.server()
    new_server(authority, ["127.0.0.1", "localhost"], now, lifetime).load_into(context)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = found.answer(json.loads(body))
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A client that goes away is no matter here."""

    server = Server(("127.0.0.1", 0), Handler)
    server.socket = _wrapped(context, server)
    found = Webhook(authority, server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        found.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _wrapped(context: ssl.SSLContext, server: ThreadingHTTPServer) -> ssl.SSLSocket:
    return context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)


def version(name: str, spec: Object, *, storage: bool = False, **more: Any) -> Object:
    status = {"type": "object", "properties": {"replicas": WHOLE, "said": TEXT}}
    properties = {"spec": {"type": "object", "properties": {"replicas": WHOLE, **spec}}, "status": status}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {"status": {}, "scale": SCALE},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        **more,
    }


V1 = {"size": TEXT}
V2 = {"length": WHOLE, "unit": TEXT, "color": TEXT}


class Gates:
    """The kind ``Gate`` in a group of its own."""

    def __init__(self, api: Api, group: str = "") -> None:
        self.api, self.group = api, group or f"g{next(_numbers)}.{api.namespace}.example.io"
        self.crd = f"{CRDS}/gates.{self.group}"

    def path(self, version: str, name: str = "") -> str:
        return self.api.at("gates", name, group=self.group, version=version)

    async def define(self, versions: list[Object], hook: Webhook | None = None) -> Object:
        names = {"plural": "gates", "singular": "gate", "kind": "Gate", "listKind": "GateList"}
        spec: Object = {"group": self.group, "scope": "Namespaced", "names": names, "versions": versions}
        if hook is not None:
            spec["conversion"] = conversion(hook)
        made = (await self.api.post(CRDS, {"metadata": {"name": f"gates.{self.group}"}, "spec": spec})).ok()
        for each in versions:
            if each["served"]:
                await self.served(each["name"])
        return made

    async def served(self, version: str) -> None:
        async def answers() -> bool:
            return (await self.api.get(self.path(version))).code == 200

        await self.api.eventually(answers, f"{version} is served")

    def gate(self, version: str, name: str, spec: Object, **metadata: Any) -> Object:
        kind = {"apiVersion": f"{self.group}/{version}", "kind": "Gate"}
        return {**kind, "metadata": {"name": name, **metadata}, "spec": spec}

    async def post(self, version: str, name: str, spec: Object, **metadata: Any) -> Answer:
        return await self.api.post(self.path(version), self.gate(version, name, spec, **metadata))

    async def get(self, version: str, name: str) -> Object:
        return (await self.api.get(self.path(version, name))).ok()


def conversion(hook: Webhook) -> Object:
    told = {"clientConfig": hook.config, "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": told}
