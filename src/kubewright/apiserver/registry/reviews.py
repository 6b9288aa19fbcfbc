"""Conversion webhooks: what is asked, what is believed of an answer, and what is remembered.

Theory.      A definition with the strategy ``Webhook`` names a server that converts its objects. It is asked
             by a ConversionReview for some objects at a time, and answers with as many, in the same order.
             kube-apiserver does not trust it: the answer must be to this review, each object of the version
             that was asked for, of the same kind, name, namespace and uid, and of its metadata nothing counts
             but labels and annotations, which must be valid. So is it here, in the same words. Labels, which
             it bounds by the size of the object only, are bounded here as annotations are: each is checked.
             What was answered is remembered for ``KEPT_SECONDS``. A write needs several conversions, which
             become known one after the other (``settled``); and of a change that a hundred clients
             watch, the webhook is asked once: who needs an answer that is under way waits for it.
             Times, uids, versions and managers are not a part of what is remembered: they are the same in
             each version, and another attempt of a write would have others.
Invariants.  Each call has a deadline, each review and each answer a largest size, and of one definition there
             are at most ``AT_ONCE`` calls at one time. A call that failed is not remembered. What asks does
             not depend on what asked first: that one may end, the call goes on.
Called by    ``reading``, ``writing`` and ``http`` (``settled``, ``seen``), ``admission`` (``Converting``),
             and ``versions``, for what is remembered. ``http.webhooks`` sends.
Source       kube-apiserver 1.36, its sentences as observed in tests/conformance/test_api_versions.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import orjson

from kubewright.apiserver.registry.strategy import ANNOTATION_BYTES
from kubewright.apiserver.registry.versions import (
    CONVERTED,
    Conversions,
    Failed,
    Needed,
    Older,
    Schema,
    Versions,
    as_seen,
    failed,
    head_of,
    in_order,
    refused,
    renamed,
    shown,
    with_metadata,
)
from kubewright.apiserver.schema.causes import cut
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record
from kubewright.base.clock import Clock, new_uid
from kubewright.base.limits import OBJECT_BYTES
from kubewright.wire import naming
from kubewright.wire.errors import TooManyRequests

T = TypeVar("T")

KEPT_SECONDS = 60.0
"""How long an answer is remembered. A webhook that begins to convert otherwise is asked after that time."""
MOST_KEPT, MOST_KEPT_BYTES = 50_000, 32 * 1024 * 1024
"""How many answers of one definition are remembered, and their bytes."""
REVIEWED, REVIEWED_BYTES = 500, 4 * 1024 * 1024
"""Objects of one review: kube-apiserver, which converts one at a time, needs as many calls."""
MOST_CONVERTED = 2 * OBJECT_BYTES
"""Of one converted object: what is stored may have grown in another version, but not without bound."""
AT_A_TIME = 256 * 1024
"""Bytes of converted objects that are checked before others have their turn: an answer may be much longer."""
AT_ONCE = 8
"""Calls of one definition at one time."""

MOST_ATTEMPTS = 32
"""How often one request may find that it needs another conversion, for each version into which it converts:
an apply compares objects in each version in which others wrote. Few, if no other writes the same."""

GROUP = "apiextensions.k8s.io"
REVIEW_VERSIONS = ("v1", "v1beta1")
"""Versions of ConversionReview that are spoken."""

Post = Callable[[Mapping[str, Any], bytes], Awaitable[bytes]]
"""Sends a review to the webhook of a ``clientConfig``, and returns what it answers. Raises Failed with what
went wrong, without saying of what."""


def review(objects: Sequence[Object], to: str, uid: str, version: str) -> Object:
    """What is asked."""
    request = {"uid": uid, "desiredAPIVersion": to, "objects": list(objects)}
    return {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}


def believed(answer: Any, objects: Sequence[Object], to: str, uid: str, version: str) -> Iterator[Object]:
    """The converted objects of an answer, each after all is checked that kube-apiserver checks.

    Raises:
        Failed
    """
    one = objects[0]
    given = _response(answer, one, uid, version)
    if len(given) != len(objects):
        said = f"returned {len(given)} objects, expected {len(objects)}"
        raise Failed(f"conversion webhook for {shown(one)} {said}")
    for index, (converted, original) in enumerate(zip(given, objects, strict=True)):
        yield _believed(converted, original, to, index if len(objects) > 1 else None)


def _response(answer: Any, one: Object, uid: str, version: str) -> list[Any]:
    """The objects of an answer that is to this review, and of success."""
    if not isinstance(answer, dict):
        raise failed(one, "the answer is no JSON object")
    response = answer.get("response")
    if version == "v1":
        if (said := shown(answer)) != (wanted := f"{GROUP}/v1, Kind=ConversionReview"):
            raise failed(one, f"expected webhook response of {wanted}, got {cut(said)}")
        if isinstance(response, dict) and response.get("uid", "") != uid:
            raise failed(one, f'expected response.uid="{uid}", got "{_text(response.get("uid"))}"')
    if not isinstance(response, dict):
        raise failed(one, "no response provided")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if (status := result.get("status", "")) != "Success":
        words = f"response.result.status was '{_text(status)}', not 'Success'"
        raise failed(one, _text(result.get("message")) or words)
    given = response.get("convertedObjects") or []
    if not isinstance(given, list):
        raise failed(one, "response.convertedObjects is no list")
    return given


def _text(value: Any) -> str:
    return value[:1024] if isinstance(value, str) else ""


def _believed(converted: Any, original: Object, to: str, index: int | None) -> Object:
    where = "object at index 0" if index is None else f"converted object at index {index}"
    lead = f"conversion webhook for {shown(original)} returned invalid"
    if not isinstance(converted, dict):
        raise Failed(f"{lead} {where}: it is no object")
    kind = original["kind"]
    if (got := converted.get("apiVersion", "")) != to:
        raise Failed(f"{lead} {where}: invalid groupVersion (expected {to}, received {_text(got)})")
    if (got := converted.get("kind", "")) != kind:
        raise Failed(f"{lead} {where}: invalid kind (expected {kind}, received {_text(got)})")
    told, before = converted.get("metadata"), original.get("metadata") or {}
    given = told if isinstance(told, dict) else {}
    whose = "object" if index is None else f"converted object at index {index}"
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        if (got := given.get(name) or "") != (was := before.get(name) or ""):
            raise Failed(f"{lead} {whose}: must have the same {word}: {was} != {_text(got)}")
    if wrong := next(_wrong_metadata(converted, before), None):
        where = "metadata" if index is None else f"metadata in object at index {index}"
        raise Failed(f"{lead} {where}: {wrong}")
    return in_order(with_metadata(converted, {"metadata": {}, **original}))


def _wrong_metadata(converted: Object, before: Mapping[str, Any]) -> Iterator[str]:
    if "metadata" not in converted:
        yield "missing metadata in converted object"
        return
    metadata = converted["metadata"]
    if not isinstance(metadata, dict):
        yield "invalid metadata in converted object: it is no object"
        return
    for name in CONVERTED:
        if (given := metadata.get(name)) is None:
            continue
        if not isinstance(given, dict):
            yield f"invalid metadata.{name} in converted object: it is no object"
            return
        for key, value in given.items():
            if not isinstance(value, str):
                yield f"metadata.{name}[{cut(key)}] must be a string in converted object"
                return
        if given != (before.get(name) or {}):
            yield from _wrong_pairs(name, given)


def _wrong_pairs(name: str, given: Mapping[str, str]) -> Iterator[str]:
    where = "metadata.labels" if name == "labels" else "metadata.annotation"
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > ANNOTATION_BYTES:
        yield f"{where}: Too long: may not be more than {ANNOTATION_BYTES} bytes"
        return
    for key, value in given.items():
        for said in naming.label_key(key if name == "labels" else key.lower()):
            yield f'{where}: Invalid value: "{cut(key)}": {said}'
        if name == "labels":
            yield from (
                f'metadata.labels: Invalid value: "{cut(value)}": {s}' for s in naming.label_value(value)
            )


class Webhook:
    """The ``Hook`` of a definition."""

    def __init__(self, name: str, conversion: Mapping[str, Any], post: Post | None, clock: Clock) -> None:
        """``name``: of the definition; ``conversion``: its ``spec.conversion.webhook``."""
        self._name, self._post, self._clock = name, post, clock
        self._config: Mapping[str, Any] = conversion.get("clientConfig") or {}
        spoken = conversion.get("conversionReviewVersions") or ()
        self._version = next((each for each in spoken if each in REVIEW_VERSIONS), "")
        self._kept: dict[bytes, tuple[float, bytes]] = {}
        self._bytes = 0
        self._flying: dict[bytes, asyncio.Future[Object]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def known(self, obj: Object, to: str) -> Object | None:
        return self._known(_key(obj, to), obj)

    async def ask(self, objects: Sequence[Object], to: str) -> list[Object]:
        found: dict[bytes, Object | asyncio.Future[Object]] = {}
        keys, missing = [_key(obj, to) for obj in objects], list[tuple[bytes, Object]]()
        for key, obj in zip(keys, objects, strict=True):
            if key in found:
                continue
            known = self._known(key, obj) or self._flying.get(key)
            if known is None:
                known = self._flying[key] = asyncio.get_running_loop().create_future()
                missing.append((key, obj))
            found[key] = known
        self._begin(missing, to)
        for key, each in found.items():
            if isinstance(each, asyncio.Future):
                found[key] = await asyncio.shield(each)
        return [_restored(self._object(found[key]), obj) for key, obj in zip(keys, objects, strict=True)]

    @staticmethod
    def _object(found: "Object | asyncio.Future[Object]") -> Object:
        assert isinstance(found, dict), "it was waited for"
        return found

    async def close(self) -> None:
        """End its calls; those who wait for them are told."""
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _begin(self, missing: Sequence[tuple[bytes, Object]], to: str) -> None:
        sized = [(orjson.dumps(obj), (key, obj)) for key, obj in missing]
        part, size = list[tuple[bytes, Object]](), 0
        for data, pair in sized:
            if part and (len(part) >= REVIEWED or size + len(data) > REVIEWED_BYTES):
                self._call(part, to)
                part, size = [], 0
            part.append(pair)
            size += len(data)
        if part:
            self._call(part, to)

    def _call(self, part: Sequence[tuple[bytes, Object]], to: str) -> None:
        call = asyncio.create_task(self._answered(part, to), name=f"conversion of {self._name}")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _answered(self, part: Sequence[tuple[bytes, Object]], to: str) -> None:
        """Ask for some objects, and tell those who wait."""
        waiting = {key: self._flying[key] for key, _ in part}
        try:
            answers = await self._asked([obj for _, obj in part], to)
        except Failed as error:
            _tell(waiting.values(), error)
        except BaseException as error:  # those who wait must hear of a mistake, too, or they wait for ever
            _tell(waiting.values(), error)
            raise
        else:
            for (key, _), (answer, data) in zip(part, answers, strict=True):
                self._remember(key, data)
                waiting[key].set_result(answer)
        finally:
            for key in waiting:
                del self._flying[key]

    async def _asked(self, objects: Sequence[Object], to: str) -> list[tuple[Object, bytes]]:
        """The converted objects, each with its bytes."""
        if self._post is None:
            raise failed(objects[0], "this server calls no webhooks")
        if not self._version:
            raise Failed("no supported conversion review versions")
        uid = new_uid(self._clock)
        body = orjson.dumps(review(objects, to, uid, self._version))
        try:
            async with self._turns:
                answer = await self._post(self._config, body)
            read = orjson.loads(answer)
        except Failed as error:
            raise failed(objects[0], str(error)) from None
        except orjson.JSONDecodeError as error:
            raise failed(objects[0], f"the answer is no JSON: {error}") from None
        found, looked_at = list[tuple[Object, bytes]](), 0
        for each in believed(read, objects, to, uid, self._version):
            found.append((each, data := _sized(each, objects[0])))
            looked_at += len(data)
            if looked_at > AT_A_TIME:
                looked_at = 0
                await self._clock.sleep(0)  # others work
        return found

    def _known(self, key: bytes, obj: Object) -> Object | None:
        until, data = self._kept.get(key, (0.0, b""))
        if not data or until < self._clock.monotonic():
            return None
        return _restored(orjson.loads(data), obj)

    def _remember(self, key: bytes, data: bytes) -> None:
        self._forget(key)
        self._kept[key] = (self._clock.monotonic() + KEPT_SECONDS, data)
        self._bytes += len(data)
        while len(self._kept) > MOST_KEPT or self._bytes > MOST_KEPT_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: bytes) -> None:
        _, data = self._kept.pop(key, (0.0, b""))
        self._bytes -= len(data)


def _tell(waiting: Iterable[asyncio.Future[Object]], error: BaseException) -> None:
    for future in waiting:
        if isinstance(error, Exception):
            future.set_exception(error)
            future.exception()  # it is no mistake if all who waited are gone
        else:
            future.cancel()


def _sized(answer: Object, asked: Object) -> bytes:
    """The bytes of a converted object.

    Raises:
        Failed: it nests too deeply, or is too large, to be written by any client.
    """
    try:
        data = orjson.dumps(answer)
    except orjson.JSONEncodeError as error:
        raise failed(asked, f"a converted object cannot be written as JSON: {error}") from None
    if len(data) > MOST_CONVERTED:
        raise failed(asked, f"a converted object has {len(data)} bytes, more than {MOST_CONVERTED}")
    return data


def _restored(answer: Object, obj: Object) -> Object:
    """A remembered answer with the metadata of the object that is asked for: an apply asks for parts, too."""
    return with_metadata(answer, {"metadata": {}, **obj})


def _key(obj: Object, to: str) -> bytes:
    """What an answer is remembered by."""
    metadata = obj.get("metadata") or {}
    kept = {name: metadata[name] for name in ("name", "namespace", *CONVERTED) if name in metadata}
    asked = orjson.dumps([to, {**obj, "metadata": kept}])
    return blake2b(asked, digest_size=20).digest()


async def seen(versions: Versions, records: Sequence[Record], to: str) -> list[Record]:
    """Records in a version. They are converted together where a webhook does it.

    Raises:
        ServerError: one cannot be converted, and why.
    """
    head, hook = head_of(to), versions.hook
    asked = [record for record in records if not record.data.startswith(head)]
    if not isinstance(hook, Webhook) or not asked:
        return [versions.record(record, to) for record in records]
    objects = [orjson.loads(versions.data(record)) for record in asked]
    for obj in objects:
        versions.check(obj["apiVersion"], to)
    try:
        answers = await hook.ask(objects, to)
    except Failed as error:
        raise refused(error) from None
    schema = versions.schemas[to]
    found = {
        id(record): as_seen(record, schema.converted(obj)) for record, obj in zip(asked, answers, strict=True)
    }
    return [found.get(id(record), record) for record in records]


async def _known_now(needed: Needed) -> None:
    hook = needed.hook
    assert isinstance(hook, Webhook), "nothing else must be asked"
    try:
        await hook.ask([needed.obj], needed.to)
    except Failed as error:
        raise refused(error) from None


async def settled(attempt: Callable[[], Awaitable[T]]) -> T:
    """The outcome of an attempt, after all is converted that it needs.

    Raises:
        ServerError: a webhook cannot convert, and why.
        TooManyRequests: the objects change faster than they are converted.
    """
    made, into = 0, set[str]()
    while made <= MOST_ATTEMPTS * len(into):
        try:
            return await attempt()
        except Needed as needed:
            into.add(needed.to)
            made += 1
            await _known_now(needed)
    said = "the object was changed by others each time that it was converted; try again"
    raise TooManyRequests(said, retry_after=1)


class Converting:
    """What converts the objects of definitions: functions for some kinds, and webhooks.

    ``post`` sends to webhooks; None: none is called.
    """

    def __init__(self, conversions: Conversions, post: Post | None, clock: Clock) -> None:
        self._conversions, self._post, self._clock = conversions, post, clock
        self._hooks: dict[str, tuple[bytes, Webhook]] = {}

    def told(self, crd: Object) -> bytes:
        """What a definition says of conversions, as far as it counts."""
        spec = crd["spec"]
        if (spec["group"], spec["names"]["kind"]) in self._conversions:
            return b"function"
        return orjson.dumps(spec.get("conversion") or {"strategy": "None"})

    def versions(self, crd: Object, schemas: Mapping[str, Schema], older: Mapping[str, Older]) -> Versions:
        """The versions of a definition that has several."""
        spec, name = crd["spec"], crd["metadata"]["name"]
        version = next(each["name"] for each in spec["versions"] if each.get("storage"))
        stored = f"{spec['group']}/{version}"
        function = self._conversions.get((spec["group"], spec["names"]["kind"]))
        conversion = spec.get("conversion") or {}
        if function is None and conversion.get("strategy") == "Webhook":
            return Versions(stored, schemas, older, None, self._hook(name, conversion, self.told(crd)))
        return Versions(stored, schemas, older, function or renamed)

    async def close(self) -> None:
        """End all calls."""
        for _, hook in self._hooks.values():
            await hook.close()

    def forget(self, name: str) -> None:
        """A definition is gone."""
        self._hooks.pop(name, None)

    def _hook(self, name: str, conversion: Mapping[str, Any], told: bytes) -> Webhook:
        """The webhook; the same as before, with what it remembers, if the definition says the same of it."""
        before, hook = self._hooks.get(name, (b"", None))
        if hook is None or before != told:
            hook = Webhook(name, conversion.get("webhook") or {}, self._post, self._clock)
            self._hooks[name] = (told, hook)
        return hook
