"""Scenes for looks: what stands in the caches and on the server, and what the value that is read must say.

Theory.      A look reads caches and servers into one frozen value, and decisions are tested with values that
             tests make. So nothing notices when the look puts the wrong thing into a field, unless each field
             is compared with what the scene holds. One value proves nothing: a field that is never read has
             its default. So each field must be seen with two values at least over the scenes of its look
             (``unproven``); a dataclass that the look fills part by part (``parts``) counts by its fields.
             ``Shelf`` is the server of a scene. What is ``put`` on it is in the caches at once, as a write of
             this process; what is ``laid`` there only a read of the server shows.
Invariants.  Nothing here waits. Versions grow with every change, and a uid stays with its name.
Called by    tests/unit/looks; authors of further looks.
"""

import ast
import base64
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.kinds import Kind
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.testing.clocks import ManualClock
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound, to_status
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH, Request, Response
from kubewright.wire.patch import apply_merge


@dataclass(frozen=True)
class Scene:
    """One picture. ``look`` sets it up and looks; ``shows``: what the value must say, by dotted path."""

    name: str
    look: Callable[[], Awaitable[object]]
    shows: Mapping[str, object]


@dataclass(frozen=True)
class Look:
    """A look and its scenes.

    ``module``  the module that looks, below kubewright: ``bootstrap.look``
    ``sees``    the dataclass that it fills
    ``parts``   fields whose value is a dataclass that it fills, too
    ``given``   fields that it does not read, each with the reason
    """

    module: str
    sees: type
    scenes: tuple[Scene, ...]
    parts: Mapping[str, type] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)


def shown(seen: object, path: str) -> object:
    """What the value says at a dotted path; None where something on the way is None."""
    for name in path.split("."):
        seen = getattr(seen, name) if seen is not None else None
    return seen


async def wrong(scene: Scene) -> list[str]:
    """Look, and say where the value differs from what the scene holds."""
    seen = await scene.look()
    found = {path: shown(seen, path) for path in scene.shows}
    return [
        f"{path} is {found[path]!r}, not {wanted!r}"
        for path, wanted in scene.shows.items()
        if found[path] != wanted
    ]


def unproven(look: Look) -> list[str]:
    """The fields of which the scenes show fewer than two values."""
    values: dict[str, set[str]] = {path: set() for path in _paths(look)}
    for scene in look.scenes:
        for path, value in scene.shows.items():
            for known, shown_of in values.items():
                if path == known or path.startswith(f"{known}."):
                    shown_of.add(f"{path[len(known) :]}={value!r}")
    return [path for path, found in values.items() if len(found) < 2]


def _paths(look: Look) -> Iterator[str]:
    for each in fields(look.sees):
        if each.name in look.given:
            continue
        part = look.parts.get(each.name)
        inner = () if part is None else fields(part)
        yield from (f"{each.name}.{one.name}" for one in inner) if inner else (each.name,)


def beside(test: str, package: str) -> tuple[Any, ...]:
    """The modules ``of_*`` in the folder of a test: each has scenes. ``test``: its ``__file__``."""
    names = sorted(each.stem for each in Path(test).parent.glob("of_*.py"))
    return tuple(import_module(f".{name}", package) for name in names)


def looking_modules(root: Path) -> set[str]:
    """The modules below ``root`` that fill a value: those named ``look``, those with a function ``look`` or
    ``_look`` that answers a ``Seen``, and those that make a ``Seen`` which another module defines. An ``act``
    without a ``Seen`` of its own hands on what a ``look`` beside it says."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in sorted(root.rglob("*.py"))
        if path.name == "look.py"
        or _looks(
            path.read_text("utf-8"), hands_on=path.name == "act.py" and path.with_name("look.py").exists()
        )
    }


def _looks(text: str, *, hands_on: bool) -> bool:
    if re.search(r"\bSeen\b", text) is None:
        return False
    nodes = list(ast.walk(ast.parse(text)))
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    own = any(isinstance(each, ast.ClassDef) and each.name == "Seen" for each in nodes)
    makes = any(isinstance(each, ast.Call) and ast.unparse(each.func) == "Seen" for each in nodes)
    return (makes and not own) or (not hands_on and any(map(_answers_seen, functions)))


def _answers_seen(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    told = ast.unparse(function.returns) if function.returns is not None else ""
    return function.name in ("look", "_look") and re.search(r"\bSeen\b", told) is not None


@dataclass(frozen=True)
class Named:
    """Equals each object of this name, and of ``uid`` if that is given, whatever it holds."""

    name: str
    uid: str = ""

    def __eq__(self, other: object) -> bool:
        meta = getattr(other, "metadata", None)
        return meta is not None and meta.name == self.name and self.uid in ("", meta.uid)

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True)
class Write:
    """A write that a server got; ``body`` as plain JSON, ``strategic`` if it is such a patch."""

    method: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)
    strategic: bool = False


_SETTING: ContextVar[bool] = ContextVar("setting", default=False)
"""Whether the stage is being set, in this task: what is sent then is no request of the code under test."""


@contextmanager
def _setting() -> Iterator[None]:
    token = _SETTING.set(True)
    try:
        yield
    finally:
        _SETTING.reset(token)


class Shelf:
    """A server of objects, and the caches of a client of it.

    ``answers``  what a path is answered instead of what is there: an error (one of transport is no answer);
                 ``PATCH /path`` for one method, and ``PATCH /path/status`` for the status alone
    ``asked``    method and path of each request that came, but for those that ``put`` sent
    ``writes``   those of them that write, with what they say
    ``generations``  whether an object's generation grows with its spec, by which a controller tells a change
                 of its status from others
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.objects: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, KubewrightError] = {}
        self.asked: list[str] = []
        self.writes: list[Write] = []
        self.version = 100
        self.client = Client(InProcess(self.handle), self.clock)
        self.caches = Informers(self.client)
        self.generations = False

    async def put(self, kind: Kind[Any], *objects: Any) -> None:
        """Objects that are there, and in the caches."""
        with _setting():
            for each in objects:
                await self.client.create(kind, each, namespace=each.metadata.namespace)

    @property
    def _putting(self) -> bool:
        return _SETTING.get()

    async def change(self, kind: Kind[Any], key: Key, patch: Mapping[str, Any]) -> None:
        """Another client has patched an object, and the caches show it; no request of the code under test."""
        with _setting():
            await self.client.patch(kind, key, patch)

    async def remove(self, kind: Kind[Any], key: Key) -> None:
        """Another client has deleted an object, and the caches show that it is gone. As ``change``."""
        with _setting():
            await self.client.delete(kind, key)

    def lay(self, kind: Kind[Any], *objects: Any) -> None:
        """Objects that are there, and in no cache yet."""
        for each in objects:
            meta = each.metadata
            self._store(kind.resource.path(meta.namespace, meta.name), msgspec.json.decode(kind.encode(each)))

    def at(self, kind: Kind[Any], key: Key) -> dict[str, Any]:
        """The object as the server has it, as plain JSON.

        Raises:
            KeyError: there is none.
        """
        return self.objects[kind.resource.path(key.namespace, key.name)]

    def _store(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        before, meta = self.objects.get(path, {}), body.get("metadata", {})
        known, generation = (before.get("metadata", {}).get(name) for name in ("uid", "generation"))
        differs = bool(before) and before.get("spec") != body.get("spec")
        if self.generations and differs and meta.get("generation") == generation:
            meta = {**meta, "generation": (generation or 0) + 1}
        uid = meta.get("uid") or known or f"uid-of-{path.rsplit('/', 1)[-1]}"
        version = str(self.version)
        if texts := body.pop("stringData", None):
            data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            body = {**body, "data": {**body.get("data", {}), **data}}
        self.objects[path] = {**body, "metadata": {**meta, "uid": uid, "resourceVersion": version}}
        return self.objects[path]

    async def handle(self, request: Request) -> Response:
        """The ``Handler``."""
        path = request.path.removesuffix("/status")
        if not self._putting:
            self.asked.append(f"{request.method} {request.path}")
            if request.method != "GET":
                body = msgspec.json.decode(request.body) if request.body else {}
                strategic = request.headers.get("content-type") == STRATEGIC_PATCH
                self.writes.append(Write(request.method, request.path, body, strategic))
        try:
            for asked in () if self._putting else (path, f"{request.method} {request.path}"):
                if (refused := self.answers.get(asked)) is not None:
                    raise refused
            return Response(200, msgspec.json.encode(self._answer(request, path)))
        except ApiError as error:
            return Response(error.code, msgspec.json.encode(to_status(error)))

    def _answer(self, request: Request, path: str) -> dict[str, Any]:
        if request.method == "POST":
            body = msgspec.json.decode(request.body)
            if (within := re.search("/namespaces/([^/]+)/", path)) is not None:
                body["metadata"].setdefault("namespace", within[1])
            place = f"{path}/{body['metadata']['name']}"
            if place in self.objects and not self._putting:
                raise AlreadyExists(f"{place} is there")
            return self._store(place, body)
        if request.method == "GET" and _is_collection(path):
            return self._list(path, request.param("fieldSelector"))
        if path not in self.objects:
            raise NotFound(f"{path} not found", details={"name": path.rsplit("/", 1)[-1]})
        body = msgspec.json.decode(request.body) if request.body else {}
        if request.method == "PATCH":
            return self._patched(path, body, any_uid=_is_status_of_custom_kind(request.path))
        if request.method == "DELETE":
            return self._deleted(path, body.get("preconditions", {}))
        return self.objects[path]

    def _patched(self, path: str, patch: dict[str, Any], *, any_uid: bool) -> dict[str, Any]:
        there, wanted = self.objects[path]["metadata"], patch.get("metadata", {})
        if wanted.get("resourceVersion", there["resourceVersion"]) != there["resourceVersion"]:
            raise Conflict("the object has been modified")
        if not any_uid and wanted.get("uid", there["uid"]) != there["uid"]:  # a field that never changes
            causes = [{"field": "metadata.uid", "message": "field is immutable"}]
            raise Invalid("metadata.uid: field is immutable", details={"causes": causes})
        kept = {name: there[name] for name in ("uid", "resourceVersion")}
        merged = apply_merge(self.objects[path], patch)
        return self._store(path, {**merged, "metadata": {**merged["metadata"], **kept}})

    def _deleted(self, path: str, wanted: dict[str, str]) -> dict[str, Any]:
        there = self.objects[path]["metadata"]
        if any(there[name] != value for name, value in wanted.items()):
            raise Conflict("the object is not the one that was to be deleted")
        return self.objects.pop(path)

    def _list(self, path: str, selector: str) -> dict[str, Any]:
        base, _, plural = path.rpartition("/")
        node = selector.removeprefix("spec.nodeName=")
        items = [
            each
            for place, each in sorted(self.objects.items())
            if place.startswith(f"{base}/")
            and place.rsplit("/", 2)[-2] == plural
            and (not node or each.get("spec", {}).get("nodeName") == node)
        ]
        return {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}


def _is_collection(path: str) -> bool:
    """Whether a path is that of all objects of a kind: ``/apis/GROUP/VERSION[/namespaces/NAME]/PLURAL``."""
    parts = path.strip("/").split("/")
    return len(parts[2 if parts[0] == "api" else 3 :]) % 2 == 1


def _is_status_of_custom_kind(path: str) -> bool:
    """Whether a server takes nothing of a patch but the status, and so does not look at a uid in it."""
    group = path.split("/")[2] if path.startswith("/apis/") else ""
    return path.endswith("/status") and "." in group and not group.endswith(".k8s.io")
