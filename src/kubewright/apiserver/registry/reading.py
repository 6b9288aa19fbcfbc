"""Get, list and watch, and which objects a list or a watch selects.

Theory.      A list is a snapshot: its first page fixes a version, and later pages are read as of
             that version from the present and the history. A watch filters changes: an object that
             begins to match is ADDED, one that no longer matches is DELETED.
             A record has the labels and the key beside the bytes, so most filters decode nothing. Only a
             field selector on another field (``spec.nodeName``) decodes the object; where the kind has an
             index of that field, a list decodes only those that have the value. In an older version a value
             is looked for.
Invariants.  Only committed states are read. The version of a list is a version to watch from.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import orjson

from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import ServedKind, Target
from kubewright.apiserver.registry.reviews import REVIEWED, seen
from kubewright.apiserver.store import Change, Compacted, Having, Record, Store, Watcher
from kubewright.base.limits import LIST_PAGE
from kubewright.wire import selectors
from kubewright.wire.errors import ApiError, BadRequest
from kubewright.wire.selectors import EVERYTHING, IN, Selector
from kubewright.wire.watch import ADDED, DELETED, MODIFIED

_NAME, _NAMESPACE = "metadata.name", "metadata.namespace"


@dataclass(frozen=True, slots=True)
class Filter:
    """Both selectors must match."""

    kind: ServedKind
    labels: Selector = EVERYTHING
    fields: Selector = EVERYTHING

    def __call__(self, record: Record) -> bool:
        if self.labels and not self.labels.matches(record.labels):
            return False
        return not self.fields or self.fields.matches(self._fields_of(record))

    @property
    def name(self) -> str | None:
        """The only name that can match, when the field selector says so."""
        return self.fields.value_of(_NAME)

    @property
    def having(self) -> tuple[Having, ...]:
        """What the objects that match have, by an index of a field, or by labels that must have a value."""
        if self.kind.by_webhook and not self.kind.is_stored:
            return ()  # an index has the labels that are stored
        for name in self.kind.indexed:
            if (value := self.fields.value_of(name)) is not None:
                return (Having(name, (value,), partial(self.kind.field_of, name), kept=True),)
        wanted = (each for each in self.labels.requirements if each.operator == IN)
        return tuple(Having(each.key, each.values, partial(_label, each.key)) for each in islice(wanted, 2))

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def _fields_of(self, record: Record) -> dict[str, str]:
        namespace, _, name = record.key.rpartition("/")
        values = {_NAME: name, _NAMESPACE: namespace}
        if not self.fields.keys <= values.keys():
            values.update(self.kind.fields(self.kind.decode(record)))
        return {key: values.get(key, "") for key in self.fields.keys}


def _label(key: str, record: Record) -> str | None:
    return record.labels.get(key)


def filter_of(kind: ServedKind, labels: str, fields: str) -> Filter:
    """Read both selectors.

    Raises:
        BadRequest: one is malformed, or asks for a field that the kind does not have.
    """
    wanted = selectors.parse_fields(fields)
    known = kind.fields({"metadata": {}})
    for requirement in wanted.requirements:
        if requirement.key not in (_NAME, _NAMESPACE) and requirement.key not in known:
            if known or kind.custom:
                raise BadRequest(f"field label not supported: {requirement.key}")
            raise BadRequest(
                f'"{requirement.key}" is not a known field selector: only "{_NAME}", "{_NAMESPACE}"'
            )
    return Filter(kind, selectors.parse(labels), wanted)


PART_BYTES = 1024 * 1024
"""Largest part of a collection that is read at one time for a watch: one object more than this."""

_TOKEN = "meta.k8s.io/v1"
_STALE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list. ``continue_token`` continues it; ``remaining`` is known for unfiltered lists only."""

    records: tuple[Record, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which part of a list: at most ``limit`` (0: all), after ``continue_token``, as of ``exact``."""

    limit: int = 0
    continue_token: str = ""
    exact: int | None = None
    at_least: int = 0


class Expired(ApiError):
    """A continue token too old; ``continue_token`` is one that goes on without consistency."""

    code, reason = 410, "Expired"

    def __init__(self, continue_token: str) -> None:
        super().__init__(_STALE)
        self.continue_token = continue_token


class Reading:
    """The reading verbs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, target: Target, at_least: int = 0) -> bytes:
        """One object, as of no older a version of the store than ``at_least``.

        Raises:
            NotFound
            ApiError: 504, that version is not there yet.
        """
        if at_least > self._store.version:
            raise refusals.too_large_version(at_least, self._store.version)
        record = self._store.get(target.collection, target.key)
        if record is None:
            raise refusals.not_found(target.kind.resource, target.name)
        return target.kind.in_version(record)

    def list(self, target: Target, matches: Filter, wanted: ListOptions) -> Page:
        """A page of the collection in the order of keys.

        Raises:
            BadRequest: the continue token is malformed.
            Gone, Expired: the snapshot it asks for is no longer kept.
        """
        target = narrowed(target, matches)
        version, after = self._place(wanted)
        found = _found(self._snapshot(target, matches, version, after, wanted), matches)
        return self._page(target, matches, found, version, wanted.limit)

    async def list_converted(self, target: Target, matches: Filter, wanted: ListOptions) -> Page:
        """``list`` of a kind whose objects a webhook converts, many at a time.

        Raises:
            ServerError: one cannot be converted, and why; and what ``list`` raises.
        """
        target = narrowed(target, matches)
        version, after = self._place(wanted)
        records = tuple(self._snapshot(target, matches, version, after, wanted))
        found = await self._converted(records, matches, wanted.limit)
        return self._page(target, matches, iter(found), version, wanted.limit)

    def _place(self, wanted: ListOptions) -> tuple[int, str]:
        """The version of a list, and the key after which it begins."""
        version = self._store.version
        if wanted.at_least > version:
            raise refusals.too_large_version(wanted.at_least, version)
        if wanted.continue_token:
            return _read_token(wanted.continue_token, version)
        return (version if wanted.exact is None else wanted.exact), ""

    def _page(
        self, target: Target, matches: Filter, found: Iterator[Record], version: int, limit: int
    ) -> Page:
        if not limit:
            return Page(tuple(found), version)
        page = tuple(islice(found, limit))
        if next(found, None) is None:
            return Page(page, version)
        last = page[-1].key
        return Page(page, version, _token(version, last), self._remaining(target, matches, version, last))

    async def _converted(self, records: Sequence[Record], matches: Filter, limit: int) -> Sequence[Record]:
        """Those that match, as a webhook converts them; with a limit, no more than one above it."""
        found: list[Record] = []
        for first in range(0, len(records), REVIEWED):
            some = await self.seen(matches.kind, records[first : first + REVIEWED])
            found += some if matches.everything else filter(matches, some)
            if limit and len(found) > limit:
                break
        return found

    async def seen(self, kind: ServedKind, records: Sequence[Record]) -> Sequence[Record]:
        """Records in the version of a kind.

        Raises:
            ServerError: one cannot be converted, and why.
        """
        if kind.versions is None:
            return records
        return await seen(kind.versions, records, kind.resource.api_version)

    async def changes(self, kind: ServedKind, changes: Sequence[Change]) -> Sequence[Change]:
        """Changes in the version of a kind. Raises as ``seen``."""
        records = [record for change in changes for record in (change.new, change.old) if record is not None]
        found = iter(await self.seen(kind, records))
        return [
            Change(next(found), None if change.old is None else next(found), change.gone)
            for change in changes
        ]

    def looks_at(self, target: Target, matches: Filter, wanted: ListOptions) -> int:
        """Among how many objects ``list`` looks for those that match: of one name, or with one value of an
        indexed field, these are few, however many the collection has."""
        target = narrowed(target, matches)
        place = (target.collection, target.prefix)
        is_older = wanted.continue_token or wanted.exact is not None
        return self._store.count_having(() if is_older else matches.having, *place)

    def walk(self, target: Target, matches: Filter) -> tuple[int, Iterator[Sequence[Record]]]:
        """The version, and the collection as of it in parts. Each is read when it is asked for, so that
        a client that takes long holds one part and not all.

        Raises:
            Gone: (the iterator) the version is no longer kept.
        """
        version = self._store.version
        return version, self._parts(narrowed(target, matches), matches, version)

    def _parts(self, target: Target, matches: Filter, version: int) -> Iterator[Sequence[Record]]:
        after, whole = "", False
        while not whole:
            records = self._snapshot(target, matches, version, after, ListOptions())
            part, size, whole = list[Record](), 0, True
            for record in _found(records, matches):
                part.append(record)
                size += len(record.data)
                if len(part) >= LIST_PAGE or size >= PART_BYTES:
                    after, whole = record.key, False
                    break
            yield part

    def watch(self, target: Target, matches: Filter, since: int | None) -> Watcher:
        """The changes of a collection after a version (None: from now), not filtered.

        Raises:
            Gone: the history does not reach back to that version, or the kind had another schema then.
        """
        older = target.kind.older
        if since is not None and older is not None and since < older.since:
            raise self._too_old(since)
        try:
            return self._store.watch(target.collection, narrowed(target, matches).prefix, since)
        except Compacted:
            raise self._too_old(since) from None

    def _too_old(self, since: int | None) -> ApiError:
        return refusals.expired(f"too old resource version: {since} ({self._store.version})")

    def done(self, watcher: Watcher) -> None:
        """End a watch; its watcher gets no more changes."""
        self._store.unwatch(watcher)

    @property
    def version(self) -> int:
        return self._store.version

    def _snapshot(
        self, target: Target, matches: Filter, version: int, after: str, wanted: ListOptions
    ) -> Iterator[Record]:
        """The records of that version among which are all that match."""
        place = (target.collection, target.prefix, after)
        if version > self._store.version:
            raise refusals.too_large_version(version, self._store.version)
        try:
            return self._store.scan_at(version, *place, matches.having)
        except Compacted:
            if wanted.continue_token:
                raise Expired(_token(-1, after)) from None
            raise refusals.expired(
                f"The resourceVersion for the provided list is too old: {version}"
            ) from None

    def _remaining(self, target: Target, matches: Filter, version: int, after: str) -> int | None:
        if not matches.everything:
            return None
        return self._store.count_at(version, target.collection, target.prefix, after)


def _found(records: Iterator[Record], matches: Filter) -> Iterator[Record]:
    """Those that match, in the version of their kind. Where a webhook converts, they are as they are stored:
    who asks converts them, many at a time."""
    kind = matches.kind
    if kind.versions is not None and not kind.by_webhook:
        records = map(kind.seen, records)
    return records if matches.everything or kind.by_webhook else filter(matches, records)


def narrowed(target: Target, matches: Filter) -> Target:
    """The target, narrowed to one name where only that name can match, so that others are not scanned."""
    alone = matches.name is not None and bool(target.namespace or not target.kind.resource.namespaced)
    return target.named(matches.name or "") if alone else target


def seen_as(matches: Filter, kind: ServedKind, change: Change) -> tuple[str, bytes] | None:
    """A change as a watch with this filter sees it: an event's type and object; None: no event."""
    new, old = kind.seen(change.new), change.old
    if old is not None and not matches.everything:
        old = kind.seen(old)
    if matches.everything:
        type_ = DELETED if change.gone else ADDED if old is None else MODIFIED
        return type_, kind.in_version(new)
    was = old is not None and matches(old)
    if change.gone:
        return (DELETED, kind.in_version(new)) if was else None
    now = matches(new)
    if now:
        return MODIFIED if was else ADDED, kind.in_version(new)
    if was and old is not None:
        return DELETED, kind.in_version(kind.restamped(old, new.version))
    return None


def _token(version: int, key: str) -> str:
    token = orjson.dumps({"v": _TOKEN, "rv": version, "start": key})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _read_token(token: str, current: int) -> tuple[int, str]:
    """Version and last key of a continue token; version -1 means the current state."""
    try:
        read: Any = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if read.get("v") != _TOKEN:
            raise ValueError(f"server does not recognize this encoded version {read.get('v') or ''}")
        version, key = read["rv"], read["start"]
        if not isinstance(key, str) or type(version) is not int or not key:
            raise ValueError("not one of ours")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from None
    if version > current:
        raise BadRequest("invalid continue token: it is of a version that never was")
    return (current if version < 0 else version), key
