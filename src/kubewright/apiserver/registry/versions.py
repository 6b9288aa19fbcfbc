"""The versions of a custom kind: what an object of one version is in another. Pure.

Theory.      All versions of a definition share a collection of the store. An object is stored in the one that
             the definition marks so, whichever a client writes; what was stored before another was marked
             stays as it is until it is written. To be read, an object gets the defaults of the version in
             which it is stored, is converted, and loses what the version that is asked for does not know. The
             defaults of that version it does not get: so does kube-apiserver.
             What converts: a function of this process, if the kind is one of ours (``Convert``); a webhook;
             or, with the strategy ``None``, nothing: versions then differ in their ``apiVersion`` only.
             A write is decided in one turn of the event loop, in which no webhook can be asked. So where the
             answer of one is needed, ``Needed`` ends the attempt, ``reviews`` asks the webhook and begins the
             attempt again, and this time the answer is remembered. An attempt therefore changes nothing
             before all is converted that it needs; and if the object was changed meanwhile by another
             request, the next attempt sees that, as after any conflict of writes.
Invariants.  Only labels and annotations of the metadata are converted, the rest stays. What ``Convert`` is
             given it does not change. An object in its own version costs a comparison of its first bytes.
Called by    ``kind``, ``reading``, ``writing``, ``field_managers``. Continues in ``reviews``: webhooks.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from kubewright.apiserver.schema.causes import Cause
from kubewright.apiserver.schema.node import Node, Object
from kubewright.apiserver.store.history import Record, record_of
from kubewright.wire.errors import ServerError, TooLarge

Convert = Callable[[Object, str], Object]
"""An object of one version as one of another (``cluster.x-k8s.io/v1beta2``). Pure; ValueError: why not."""

Conversions = Mapping[tuple[str, str], Convert]
"""By group and kind."""


class Schema(Protocol):
    """A structural schema, compiled. All methods are pure; paths start without a dot."""

    @property
    def node(self) -> Node:
        """The schema as a tree."""

    def ready(self, obj: Object) -> Object | None:
        """The object with its defaults, when it is good as it was sent: valid, and without unknown fields.
        None when it is not; then the other methods say and mend what is wrong with it."""

    def whole(self, obj: Object) -> Object:
        """The object with its numbers as they are stored: 3 for 3.0, where the kind has no types for them."""

    def validate(self, obj: Object, old: Object | None = None, part: str = "") -> list[Cause]:
        """Every violation, in a stable order; empty when the object is good.

        Of a custom kind, what ``old`` had already is no violation, if it can be told that it is the same.
        ``part`` names the one field that a write can change (``status``); others are not looked at.
        """

    def unknown_fields(self, obj: Object) -> list[str]:
        """Paths of fields that the schema does not know (``spec.replicsa``, ``spec.a[0].b``)."""

    def prune(self, obj: Object) -> Object:
        """The object without unknown fields; a new object if anything was dropped."""

    def default(self, obj: Object) -> Object:
        """The object with defaults filled in; a new object if anything was added."""

    def converted(self, obj: Object) -> Object:
        """What another version of the kind has become in this one: whole, without unknown fields, and without
        nulls that count as absent. It gets no defaults."""

    def nulls(self, obj: Object) -> list[Cause]:
        """The nulls of an object that was applied, where its schema has neither null nor a default: there
        they are errors, and in any other write fields that are absent."""

    def merge_keys(self, path: tuple[str, ...]) -> tuple[str | None, frozenset[str]]:
        """Patch merge key and patch strategies of the list or map at ``path`` (names only, no
        indexes): e.g. (``"name"``, {``"merge"``}) for ``("spec", "containers")`` of a Pod."""

    def decode_error(self, obj: Object) -> str | None:
        """The message of kube-apiserver's decoder about the first wrong JSON type; None when there is none.

        Built-in kinds are typed, so ``spec.replicas: "3"`` never reaches validation: it is a 400
        with ``json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of
        type int32``. Of a custom resource only ``metadata`` is typed; ``validate`` checks the rest.
        """

    def openapi(self) -> Mapping[str, Any]:
        """The schema as OpenAPI v3, with descriptions where we have them; may refer to ``components``."""

    def components(self) -> Mapping[str, Mapping[str, Any]]:
        """The definitions that ``openapi`` refers to, by their name under ``#/components/schemas/``."""


def read_by(schema: Schema, obj: Object) -> Object:
    """What a schema makes of an object that is stored or sent, without a word about what does not fit."""
    try:
        if (ready := schema.ready(obj)) is not None:
            return ready
        return schema.default(schema.prune(schema.whole(obj)))
    except TooLarge:  # by a default that its kind has got since; one object must not spoil a list
        return schema.prune(schema.whole(obj))


def head_of(api_version: str) -> bytes:
    """How the bytes of a stored object of this version begin."""
    return b'{"apiVersion":"%b",' % api_version.encode()


MOST_READ, MOST_READ_BYTES = 50_000, 32 * 1024 * 1024
"""What is remembered of the older objects of one version of a kind: in objects, and in bytes that differ."""


class Older:
    """The objects of a custom kind that were stored before it had its present schema, as that reads them.

    A default that a definition gets is there in each object at once, and a field that it loses is gone,
    though no object is written. Which objects are older their versions tell. Each is read once, when it is
    first asked for, as long as there is room to remember it; those that were first remembered go first. An
    object that reads as it is stored takes no more than its name.
    """

    def __init__(self, schema: Schema, api_version: str, since: int, stored: int) -> None:
        """``since``: the version of the store at which the schema took effect; ``stored``: up to which
        version objects may not be as it reads them. After a start that is the last one: another release may
        have stored them.
        """
        self._schema, self._head = schema, head_of(api_version)
        self.since, self._stored = since, stored
        self._read: dict[str, tuple[int, bytes | None]] = {}
        self._bytes = 0

    def data(self, record: Record) -> bytes:
        """The bytes of a record as the present schema reads them, if they are of this version of the kind."""
        if record.version > self._stored or not record.data.startswith(self._head):
            return record.data
        version, data = self._read.get(record.key, (0, None))
        if version != record.version:
            obj: Object = orjson.loads(record.data)
            read = read_by(self._schema, obj)
            data = None if read is obj else bytes(memoryview(orjson.dumps(read)))
            if version < record.version:
                self._remember(record, data)
        return record.data if data is None else data

    @property
    def remembered(self) -> tuple[int, int]:
        """How many objects are remembered, and their bytes."""
        return len(self._read), self._bytes

    def _remember(self, record: Record, data: bytes | None) -> None:
        self._forget(record.key)
        self._read[record.key] = (record.version, data)
        self._bytes += len(data or b"")
        while len(self._read) > MOST_READ or self._bytes > MOST_READ_BYTES:
            self._forget(next(iter(self._read)))

    def _forget(self, key: str) -> None:
        _, data = self._read.pop(key, (0, None))
        self._bytes -= len(data or b"")


class Failed(Exception):
    """A conversion failed; the text is all that kube-apiserver would say of it."""


class Hook(Protocol):
    """The conversion webhook of a definition, as far as it needs not be asked."""

    def known(self, obj: Object, to: str) -> Object | None:
        """Its answer for an object, if it is remembered."""


class Needed(Exception):
    """An attempt cannot go on without an answer of a webhook."""

    def __init__(self, hook: Hook, obj: Object, to: str) -> None:
        super().__init__(to)
        self.hook, self.obj, self.to = hook, obj, to


class Seen(Record, frozen=True, gc=False):
    """A record in another version than it is stored in: what a list or a watch shows and selects by."""


class Versions:
    """All versions of one definition, also those that are not served. See the module.

    ``stored``   the ``apiVersion`` in which objects are stored
    ``schemas``  by ``apiVersion``
    ``older``    what reads the objects that are older than the schema of their version, by ``apiVersion``
    ``convert``  None: the ``hook`` is asked
    """

    def __init__(
        self,
        stored: str,
        schemas: Mapping[str, Schema],
        older: Mapping[str, Older],
        convert: Convert | None,
        hook: Hook | None = None,
    ) -> None:
        self.stored, self.schemas, self.hook = stored, schemas, hook
        self._head = head_of(stored)
        self._older = {head_of(version): each for version, each in older.items()}
        self._convert = convert

    def is_current(self, record: Record) -> bool:
        """Whether a record is in the version that is stored now."""
        return record.data.startswith(self._head)

    def data(self, record: Record) -> bytes:
        """The bytes of a record, in its own version, as that version's schema reads them."""
        if isinstance(record, Seen):
            return record.data
        older = self._older.get(record.data[: record.data.find(b",") + 1])
        return record.data if older is None else older.data(record)

    def convert(self, obj: Object, to: str) -> Object:
        """An object in a version.

        Raises:
            ServerError: it cannot be converted, and why.
            Needed: its webhook must be asked.
        """
        source = obj.get("apiVersion", to)
        if source == to:
            return obj
        self.check(source, to)
        if self._convert is None:
            assert self.hook is not None, "a definition without a function has a webhook"
            found = self.hook.known(obj, to)
            if found is None:
                raise Needed(self.hook, obj, to)
            return self.schemas[to].converted(found)
        if "metadata" not in obj:  # an apply converts parts of objects, too
            obj = {**obj, "metadata": {}}
        try:
            found = with_metadata(self._convert(obj, to), obj)
        except ValueError as error:
            raise refused(failed(obj, str(error))) from None
        return self.schemas[to].converted({**found, "apiVersion": to})

    def to_store(self, obj: Object) -> Object:
        """An object of another version as it is stored: with the defaults of that version, which each reading
        of it would add. Raises as ``convert``."""
        return self.schemas[self.stored].default(self.convert(obj, self.stored))

    def record(self, record: Record, to: str) -> Record:
        """A record in a version. Raises as ``convert``."""
        if record.data.startswith(head_of(to)):
            return record
        return as_seen(record, self.convert(orjson.loads(self.data(record)), to))

    def check(self, source: str, to: str) -> None:
        """Check that there are both versions.

        Raises:
            ServerError
        """
        for which, version in (("to", to), ("from", source)):
            if version not in self.schemas:
                said = f"request to convert CR {which} an invalid group/version: {version}"
                raise ServerError(said, reason="")


def as_seen(record: Record, obj: Object) -> Record:
    """A record as it is seen in the version of ``obj``."""
    found = record_of(record.resource, record.key, record.version, orjson.dumps(in_order(obj)), obj)
    return Seen(
        found.resource, found.key, found.version, found.uid, found.labels, record.deleting, found.data
    )


def in_order(obj: Object) -> Object:
    """The object with its fields in the order in which they are stored."""
    head = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
    return {**head, **{name: value for name, value in obj.items() if name not in head}}


def renamed(obj: Object, to: str) -> Object:
    """What the strategy ``None`` makes of an object."""
    return {**obj, "apiVersion": to}


CONVERTED = ("labels", "annotations")
"""What of the metadata a conversion may change."""


def with_metadata(converted: Object, original: Object) -> Object:
    """A converted object with the metadata that it had, but for its labels and annotations."""
    before, after = original.get("metadata"), converted.get("metadata")
    if after is before or not isinstance(before, dict):
        return converted
    given = after if isinstance(after, dict) else {}
    kept = {name: value for name, value in before.items() if name not in CONVERTED}
    told = {name: given[name] for name in CONVERTED if given.get(name) is not None}
    return {**converted, "metadata": {**kept, **told}}


def shown(obj: Object) -> str:
    """Group, version and kind of an object, as Go writes them."""
    version = str(obj.get("apiVersion", ""))
    return f"{version if '/' in version else '/' + version}, Kind={obj.get('kind', '')}"


def failed(obj: Object, why: str) -> Failed:
    return Failed(f"conversion webhook for {shown(obj)} failed: {why}")


def refused(error: Failed) -> ServerError:
    return ServerError(str(error), reason="")
