"""Create, update, patch and delete: from a request to a committed write.

Theory.      Every change is ``edit(old) -> new`` on the latest state, checked and staged in one turn
             of the event loop. So no other write comes in between, and a conflict exists only where the
             client named a resourceVersion that is no longer the latest.
             Where a webhook converts between the versions of a kind, a write is attempted until all is
             converted that it needs (``reviews.settled``); each attempt begins with the latest state.
Invariants.  The response is what is stored, byte for byte, in the version that was asked for. A write that
             changes nothing is not stored and keeps its version. Nothing is awaited but the commit.
Called by    ``http.app`` and the subresources. Continues in ``strategy``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kubewright.apiserver.registry import field_managers, refusals, strategy
from kubewright.apiserver.registry.admission import Admission, Serving
from kubewright.apiserver.registry.field_managers import FieldManagers
from kubewright.apiserver.registry.kind import Options, ServedKind, Target
from kubewright.apiserver.registry.reviews import settled
from kubewright.apiserver.schema.causes import TOO_MANY, Cause, invalid
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record, Store, record_of
from kubewright.base.clock import Clock, new_uid, rfc3339
from kubewright.base.limits import OBJECT_BYTES
from kubewright.base.names import ALPHABET
from kubewright.wire.errors import AlreadyExists, BadRequest, Conflict, NotFound, TooLarge

GENERATED_SUFFIX, GENERATED_PREFIX = 5, 58
"""Length of a generated suffix, and most characters of the prefix before it."""

NAME_ATTEMPTS = 8
"""Attempts at a free generated name before the write fails with AlreadyExists."""

DELETED_AT_ONCE = 500
"""Objects of a collection that are deleted together, in few commits."""

Edit = Callable[[Object], Object]


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write: the object's bytes, and whether it is new, or gone for good."""

    data: bytes
    uid: str = ""
    created: bool = False
    gone: bool = False


class Writing:
    """The writing verbs."""

    def __init__(self, store: Store, serving: Serving, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._admission = Admission(store)
        self._serving = serving
        self._field_managers = FieldManagers(serving.version, clock)

    async def create(
        self,
        target: Target,
        sent: Any,
        options: Options,
        *,
        duplicates: Sequence[str] = (),
        applied: bool = False,
    ) -> Written:
        """Make an object; ``applied`` says that an apply does, and has written its managers.

        Raises:
            AlreadyExists, NotFound (its namespace), Invalid, BadRequest, Forbidden (its namespace is ending,
                its PriorityClass is missing or says otherwise, there is a default PriorityClass).
            ServerError: its webhook cannot convert it; so for all verbs.
        """
        attempt = partial(self._create, target, sent, options, duplicates, applied=applied)
        return await (_attempted(options, attempt) if target.kind.by_webhook else attempt())

    async def _create(
        self, target: Target, sent: Any, options: Options, duplicates: Sequence[str], *, applied: bool
    ) -> Written:
        kind = target.kind
        obj = strategy.normalized(kind, sent, options, duplicates=duplicates, applied=applied)
        obj, said = strategy.without_duplicates(obj, patched=False)
        strategy.check_place(target, obj)
        if obj["metadata"].get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        if not applied:
            obj = self._field_managers.created(kind, obj, options)
        place = target.named(obj["metadata"].get("name", ""))
        self._admission.admit(place)
        self._serving.admit(place)
        obj = self._created(target, self._admission.with_priority(target, obj), options)
        if kind.requested_by is not None:
            obj = kind.requested_by(obj, options.user)
        if options.guard is not None:
            options.guard(obj, None)
        name = obj["metadata"]["name"]
        if causes := strategy.causes_new(kind, obj["metadata"]) + _violations(kind, obj, None):
            raise refusals.invalid(kind.resource, name, causes)
        self._admission.admit_class(target, obj)
        options.warnings += said + strategy.warnings(kind, obj["metadata"], None) + kind.warn(obj, None)
        obj = self._serving.established(kind, obj)
        place = target.named(name)
        if (taken := self._store.latest(place.collection, place.key)) is not None:
            raise refusals.already_exists(kind.resource, name, deleting=taken.deleting)
        return Written(await self._put(place, obj, None, options), created=True)

    async def apply(
        self,
        target: Target,
        wanted: Any,
        options: Options,
        *,
        subresource: str = "",
        may_create: Callable[[], None] = lambda: None,
    ) -> Written:
        """Apply ``wanted`` to an object, or make one of it; ``may_create`` raises if the user may not.

        Raises:
            Conflict: other managers have fields that would change; and what ``create`` and ``update`` raise.
        """
        attempt = partial(
            self._apply, target, wanted, options, subresource=subresource, may_create=may_create
        )
        return await (_attempted(options, attempt) if target.kind.by_webhook else attempt())

    async def _apply(
        self,
        target: Target,
        wanted: Any,
        options: Options,
        *,
        subresource: str,
        may_create: Callable[[], None],
    ) -> Written:
        kind = target.kind
        if self._store.latest(target.collection, target.key) is not None:
            return await self._update(
                target,
                lambda live: self._field_managers.applied(kind, wanted, live, options, subresource),
                options,
                subresource=subresource,
                patched=True,
                applied=True,
            )
        if subresource:
            raise refusals.not_found(kind.resource, target.name)
        made = self._field_managers.applied(kind, wanted, {}, options, "")
        if uid := (made.get("metadata") or {}).get("uid"):
            said = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise refusals.conflict(kind.resource, target.name, said)
        may_create()
        return await self._create(target, made, options, (), applied=True)

    async def update(
        self,
        target: Target,
        edit: Edit,
        options: Options,
        *,
        subresource: str = "",
        duplicates: Sequence[str] = (),
        patched: bool = False,
    ) -> Written:
        """Change an object by ``edit``: wholly, or the part of ``subresource`` (status, finalize, binding).

        ``patched`` says that the edit is a patch.

        Raises:
            NotFound, Conflict, Invalid, BadRequest; and whatever ``edit`` raises.
        """
        attempt = partial(
            self._update, target, edit, options,
            subresource=subresource, duplicates=duplicates, patched=patched,
        )  # fmt: skip
        return await (_attempted(options, attempt) if target.kind.by_webhook else attempt())

    async def _update(
        self,
        target: Target,
        edit: Edit,
        options: Options,
        *,
        subresource: str = "",
        duplicates: Sequence[str] = (),
        patched: bool = False,
        applied: bool = False,
    ) -> Written:
        kind = target.kind
        record = self._latest(target)
        old = kind.decode(record)
        edited = edit(old)
        if edited is old and kind.is_current(record):
            return Written(kind.in_version(record))
        new = strategy.normalized(
            kind, edited, options, duplicates=duplicates, patched=patched, applied=applied
        )
        new, said = strategy.without_duplicates(new, patched=patched)
        options.warnings += said
        strategy.check_place(target, new)
        self._expect(target, new, old, patched=patched)
        entries = new["metadata"].get(field_managers.FIELD, ()) if applied else None
        new = self._prepared(kind, new, old, options, subresource=subresource, entries=entries)
        if options.guard is not None:
            options.guard(new, old)
        if kind.unchanged(field_managers.with_old_times(new, old), old, record):
            return Written(kind.in_version(record))
        causes = strategy.causes_changed(kind, new["metadata"], old["metadata"])
        if causes := causes + _violations(kind, new, old, subresource):
            raise refusals.invalid(kind.resource, target.name, causes)
        self._admission.admit_class(target, new)
        options.warnings += strategy.warnings(kind, new["metadata"], old["metadata"]) + kind.warn(new, old)
        new = self._serving.established(kind, new)
        if strategy.finished(kind, new):
            return await self._remove(target, record, options, final=new)
        return Written(await self._put(target, new, record, options))

    def _prepared(
        self,
        kind: ServedKind,
        new: Object,
        old: Object,
        options: Options,
        *,
        subresource: str,
        entries: field_managers.Entries | None,
    ) -> Object:
        """``new`` as it is to be stored, with the managers in ``entries`` (None: those that follow)."""
        carried, now = strategy.carried(new, old), rfc3339(self._clock.now())
        sent = strategy.limited_to_subresource(kind, carried, old, subresource, now)
        new = kind.prepare(sent, old)
        if entries is None:
            # What a custom kind's rules fill in has no manager: elsewhere a webhook does, after this.
            entries = self._field_managers.changed(
                kind, sent if kind.custom else new, old, options, subresource
            )
        return strategy.with_generation(kind, field_managers.with_managers(new, entries), old)

    async def delete(self, target: Target, deletion: strategy.DeleteOptions, options: Options) -> Written:
        """Remove an object, or mark it as being deleted while a finalizer or its grace period keeps it.

        Raises:
            NotFound, Conflict (a precondition is not met), Forbidden (it may not be deleted).
        """
        attempt = partial(self._delete, target, deletion, options)
        return await (_attempted(options, attempt) if target.kind.by_webhook else attempt())

    async def _delete(self, target: Target, deletion: strategy.DeleteOptions, options: Options) -> Written:
        kind = target.kind
        record = self.expect(target, deletion)
        self._admission.admit_deletion(target)
        old = kind.decode(record)
        ending = self._serving.before_deletion(kind, old)
        decision = strategy.delete(kind, ending, deletion, self._clock.now())
        if isinstance(decision, strategy.Remove):
            return await self._remove(target, record, options)
        if kind.same(decision.obj, old):
            return Written(kind.in_version(record))
        return Written(await self._put(target, decision.obj, record, options))

    async def delete_all(
        self, targets: Sequence[Target], deletion: strategy.DeleteOptions, options: Options
    ) -> None:
        """Delete many. Objects that are gone meanwhile, or fail a precondition, are skipped.

        Many are staged together, so a thousand deletes are a few commits.
        """
        for first in range(0, len(targets), DELETED_AT_ONCE):
            some = targets[first : first + DELETED_AT_ONCE]
            calls = (self.delete(target, deletion, options) for target in some)
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            for error in (outcome for outcome in outcomes if isinstance(outcome, BaseException)):
                if not isinstance(error, NotFound | Conflict):
                    raise error

    def expect(self, target: Target, deletion: strategy.DeleteOptions) -> Record:
        """The latest state of the object, after the preconditions are checked.

        Raises:
            NotFound, Conflict (a precondition is not met).
        """
        record = self._latest(target)
        _preconditions(target, record, deletion)
        return record

    def _latest(self, target: Target) -> Record:
        record = self._store.latest(target.collection, target.key)
        if record is None:
            raise refusals.not_found(target.kind.resource, target.name)
        return record

    def _created(self, target: Target, obj: Object, options: Options) -> Object:
        kind, given = target.kind, obj["metadata"]
        name = given.get("name") or self._generated(target, given.get("generateName", ""), options)
        if kind.has_status and kind.has_generation:  # others (Nodes) may be created with a status
            obj = {key: value for key, value in obj.items() if key != "status"}
        created = strategy.created(
            obj,
            name=name,
            namespace=target.namespace,
            uid=new_uid(self._clock),
            now=rfc3339(self._clock.now()),
            generation=kind.has_generation,
        )
        return kind.prepare(created, None)

    def _generated(self, target: Target, prefix: str, options: Options) -> str:
        """A free name under the prefix; an empty prefix stays empty and is refused later. Another attempt of
        the same write takes the same name, which its webhook may have been told."""
        name = options.drawn
        if name and self._store.latest(target.collection, target.named(name).key) is None:
            return name
        for _ in range(NAME_ATTEMPTS if prefix else 0):
            letters = "".join(self._clock.random.choices(ALPHABET, k=GENERATED_SUFFIX))
            name = prefix[:GENERATED_PREFIX] + letters
            place = target.named(name)
            if self._store.latest(place.collection, place.key) is None:
                options.drawn = name
                return name
        if prefix:
            raise AlreadyExists(f"no free name begins with {prefix!r}; try again")
        return name

    def _expect(self, target: Target, new: Object, old: Object, *, patched: bool) -> None:
        """Check resourceVersion and uid, where the client sends them, against the stored object."""
        resource, given, found = target.kind.resource, new["metadata"], old["metadata"]
        version = given.get("resourceVersion", "")
        if version and not version.isdecimal():
            raise BadRequest(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if not version and target.kind.custom:
            named = replace(resource, kind=resource.plural)  # as kube-apiserver names it there
            cause = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise refusals.invalid(named, target.name, [cause])
        if version and version != found["resourceVersion"]:
            raise refusals.conflict(resource, target.name)
        if not patched and (uid := given.get("uid")) and uid != found["uid"]:
            said = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found['uid']}"
            raise refusals.conflict(resource, target.name, said)

    async def _put(self, target: Target, obj: Object, old: Record | None, options: Options) -> bytes:
        if options.dry_run:
            return target.kind.encode(obj, old.version if old else None)
        version, kind = self._store.next_version(), target.kind
        data = kind.encode_stored(obj, version)
        if len(data) > OBJECT_BYTES and (old is None or len(old.data) <= OBJECT_BYTES):
            raise TooLarge("etcdserver: request is too large")  # an etcd's words: people look for them
        record = record_of(target.collection, target.key, version, data, obj if kind.is_stored else None)
        answer = kind.in_version(record)  # before the write: it may have to be converted
        commit = self._store.put(record, old)
        self._serving.written(kind, obj, version)
        await commit
        return answer

    async def _remove(
        self, target: Target, record: Record, options: Options, final: Object | None = None
    ) -> Written:
        """Remove the object. Watchers get its last stored state, the response has ``final``."""
        last = target.kind.restamped(record, self._store.next_version())
        data = target.kind.encode(final, record.version) if final else target.kind.in_version(record)
        if not options.dry_run:
            commit = self._store.remove(last, record)
            self._serving.removed(target.kind, target.name)
            await commit
        return Written(data, record.uid, gone=True)


async def _attempted(options: Options, attempt: Callable[[], Awaitable[Written]]) -> Written:
    """The outcome of a write for which a webhook may have to convert. An attempt that is begun again says its
    warnings again."""
    said = list(options.warnings)

    def again() -> Awaitable[Written]:
        options.warnings[:] = said
        return attempt()

    return await settled(again)


def _violations(kind: ServedKind, new: Object, old: Object | None, subresource: str = "") -> list[Cause]:
    """The causes from the schema and from the kind's own rules. The rules rely on the types of fields, so
    they run only when those are right; a binding, which is the server's own change, skips them.
    A status is looked at alone, of a custom kind: whatever its spec is, it can be written."""
    part = "status" if kind.custom and subresource == "status" else ""
    causes = kind.schema.validate(new, old, part)
    unfit = ("FieldValueTypeInvalid", TOO_MANY)
    if subresource == "binding" or any(cause.reason in unfit for cause in causes):
        return causes
    told = {cause.field for cause in causes}
    own = kind.parts[subresource].check(new, old) if old is not None and subresource in kind.parts else []
    more = (cause for cause in kind.check(new, old) + own if cause.field not in told)
    return causes + [cause for cause in more if cause.field.removeprefix(".").startswith(part)]


def _preconditions(target: Target, record: Record, deletion: strategy.DeleteOptions) -> None:
    if deletion.uid and deletion.uid != record.uid:
        said = (
            f"the UID in the precondition ({deletion.uid}) does not match the UID in record ({record.uid}). "
        )
        raise refusals.precondition_failed(target.kind.resource, target.name, said + _RECREATED)
    if deletion.resource_version and deletion.resource_version != str(record.version):
        said = f"the ResourceVersion in the precondition ({deletion.resource_version}) does not match the "
        said += f"ResourceVersion in record ({record.version}). The object might have been modified"
        raise refusals.precondition_failed(target.kind.resource, target.name, said)


_RECREATED = "The object might have been deleted and then recreated"
