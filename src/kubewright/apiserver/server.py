"""The embedded API server, in process.

Theory.      ``ApiServer`` joins the store, the catalog and the app. ``handle`` is the whole API as
             a function; a socket (``http.listener``) is one more caller.
             The default roles and bindings, and the PriorityClasses of the system, are made at each start:
             straight into the store, all in one batch, without the checks that a request passes, as they are
             known to be valid and the server must start within milliseconds. A data folder of an older
             release gets them at its next start. What users added to roles and bindings stays
             (``authorization.defaults``). Background work is one task, ``Housekeeping``. A CRD that is
             deleted keeps a finalizer (``registry.admission``): its instances are deleted, and when the last
             of them is gone (they may have finalizers of their own) the finalizer is removed. Events are
             deleted an hour after their last write.
Invariants.  After ``start`` the initial namespaces and the default roles exist, and every stored
             definition is served. What a crash interrupts of the housekeeping the next start finishes.
             After ``close`` every acknowledged write is on the disk and the folder is unlocked.
Called by    ``compose`` and every test that needs Kubernetes.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import orjson
import structlog

from kubewright.api.admission import Rules
from kubewright.api.meta import without_finalizer
from kubewright.apiserver.authorization.defaults import objects, own_objects, reconciled
from kubewright.apiserver.authorization.policy import GROUP
from kubewright.apiserver.http.app import App, Counts, Page
from kubewright.apiserver.http.dialing import Allowed, Dialer, Streams
from kubewright.apiserver.http.kubelet_requests import may_be_dialled
from kubewright.apiserver.http.pki import write_private
from kubewright.apiserver.http.webhooks import Caller, any_address
from kubewright.apiserver.registry import strategy
from kubewright.apiserver.registry.admission import (
    CLASSES,
    CLEANUP,
    CRDS,
    INITIAL_NAMESPACES,
    NAMESPACES,
    Serving,
)
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.builtin.check import SYSTEM_CLASSES
from kubewright.apiserver.registry.kind import IGNORE, Catalog, Options, ServedKind, Target
from kubewright.apiserver.registry.reviews import Converting
from kubewright.apiserver.registry.strategy import DeleteOptions
from kubewright.apiserver.registry.tokens import KEY_BYTES, BootstrapTokens, Tokens
from kubewright.apiserver.registry.versions import Conversions
from kubewright.apiserver.registry.writing import Writing
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record, Refused, Store, record_of
from kubewright.apiserver.store.log import TOKEN_KEY_FILE, Log, NoLog, SqliteLog
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response, User

log = structlog.get_logger("kubewright.apiserver")


class ApiServer:
    """See the module. ``path`` is the data folder, made if missing; None keeps everything in memory.

    ``log``, when given, keeps the writes instead: a test that passes one sees every commit.
    ``admission``: the defaults and rules of custom kinds, which elsewhere are webhooks.
    ``allowed``: the addresses at which kubelets are asked, once it may ask any (``reach_kubelets``).
    ``conversions``: between the versions of custom kinds, by group and kind; elsewhere they are webhooks.
    ``webhooks``: the addresses at which conversion webhooks of other kinds are asked.

    ``accept_loss``: start also where the folder has less than was committed.

    Files in the folder: ``objects.db`` (and its ``-wal``), ``committed``, ``lock``, ``token.key``.

    Raises:
        InvalidInput: the folder is in use by another process, its data format is unknown, commits are lost,
            or its ``token.key`` is no key.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        path: Path | None = None,
        log: Log | None = None,
        accept_loss: bool = False,
        admission: Iterable[Rules[Any]] = (),
        allowed: Allowed = may_be_dialled,
        conversions: Conversions = MappingProxyType({}),
        webhooks: Allowed = any_address,
    ) -> None:
        self._clock = clock
        self.catalog: Catalog = builtin_catalog()
        if log is None:
            log = NoLog() if path is None else SqliteLog(path, accept_loss=accept_loss)
        self._store, self._log = Store(log), log
        try:
            self._tokens = Tokens(_token_key(path), clock, self._object)
        except InvalidInput:
            self._store.close()  # the folder is unlocked
            raise
        if path is not None:
            log.claim(TOKEN_KEY_FILE)
        rules = {each.kind.resource: each for each in admission}
        self._converting = Converting(conversions, Caller(self._store, webhooks), clock)
        serving = Serving(self._store, self.catalog, clock, rules, self._converting)
        self._bootstrap_tokens = BootstrapTokens(self._secret, clock)
        writing = Writing(self._store, serving, clock)
        self._app = App(self._store, self.catalog, writing, self._tokens, clock)
        self._housekeeping = Housekeeping(self._store, self.catalog, writing, clock)
        self.kubelets = Dialer(allowed)
        """The connections to kubelets."""
        self._background: asyncio.Task[None] | None = None
        self.used_before = False
        """Whether definitions are stored: an earlier start has got further than to its own objects."""
        for record in self._store.scan(str(CRDS)):
            serving.serve(orjson.loads(record.data), record.version)
            self.used_before = True

    async def start(self) -> None:
        """Create the initial objects and start the background work."""
        for name in INITIAL_NAMESPACES:
            if self._store.get(str(NAMESPACES), name) is None:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await self.handle(Request("POST", NAMESPACES.path(), body=orjson.dumps(body)))
        await ensure_defaults(self._store, self.catalog, self._clock)
        self._background = asyncio.create_task(self._housekeeping.run(), name="apiserver housekeeping")
        self._background.add_done_callback(_ended)

    async def broken(self) -> str:
        """Wait until the disk fails, after which every write is refused; returns the reason."""
        await self._store.broken.wait()
        return self._store.refusal

    def reach_kubelets(
        self, identity: Identity | None, streams: Streams | None = None, tenant: str = ""
    ) -> None:
        """Ask kubelets from now on, as ``identity``; None: ask none. The rest is as for ``Dialer.become``."""
        self.kubelets.become(identity, streams, tenant)
        self._app.kubelets.dialer = None if identity is None else self.kubelets

    async def close(self) -> None:
        """End all watches, commit, and unlock the data folder."""
        self._app.measurements.close()
        await self.kubelets.close()
        await self._converting.close()
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)
        self._store.close()

    async def handle(self, request: Request) -> Response:
        """Answer one request; never raises for what a client sent."""
        return await self._app(request)

    @property
    def counts(self) -> Counts:
        """Requests answered, by verb, resource and code."""
        return self._app.counts

    @property
    def pages(self) -> dict[str, Page]:
        """Pages of what runs in the same process, by their paths; users need a rule for the path."""
        return self._app.pages

    def claim(self, name: str) -> None:
        """A file belongs to the objects: as ``Log.claim``, by its path from the folder of this server."""
        self._log.claim(name)

    def disclaim(self, name: str) -> None:
        """The file is about to be deleted."""
        self._log.disclaim(name)

    def user_of_token(self, token: str) -> User | None:
        """The user of a service account's or a bootstrap token: what the listener's authentication asks."""
        return self._tokens.user(token) or self._bootstrap_tokens.user(token)

    def _secret(self, namespace: str, name: str) -> bytes | None:
        record = self._store.get("secrets", f"{namespace}/{name}")
        return None if record is None else record.data

    def _object(self, resource: Resource, namespace: str, name: str) -> Record | None:
        return self._store.get(str(resource), f"{namespace}/{name}" if namespace else name)


def _ended(background: asyncio.Task[None]) -> None:
    """Log an error of the housekeeping. It should end only when the server closes or its disk fails."""
    if not background.cancelled() and (error := background.exception()) is not None:
        log.error("housekeeping stopped", exc_info=error)


def opened(folder: Path, *, power_loss: bool = True, accept_loss: bool = False) -> SqliteLog:
    """The log of a server in ``folder``, and beside it the key of tokens, which a new folder lacks.

    A server does the same when it is made. But that waits for the disk half a dozen times, so who makes
    servers beside others that work calls this in a thread first, and passes the log.

    Raises:
        InvalidInput: as ``SqliteLog``; or the key of tokens cannot be read, or is none.
    """
    log = SqliteLog(folder, power_loss=power_loss, accept_loss=accept_loss)
    try:
        _token_key(folder)
        log.claim(TOKEN_KEY_FILE)
    except BaseException:
        log.close()
        raise
    return log


def _token_key(folder: Path | None) -> bytes:
    """The key of tokens, kept beside the data so that tokens outlive a restart.

    From the system's randomness, not the clock's: a user who knows a seed must not be able to forge one.
    Another key ends every token, so a file that is damaged is told; so is one that is missing though it
    was there, which the log has checked before.

    Raises:
        InvalidInput: the file cannot be read, or is no key.
    """
    if folder is None:
        return secrets.token_bytes(KEY_BYTES)
    path = folder / TOKEN_KEY_FILE
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = secrets.token_bytes(KEY_BYTES)
        write_private(path, key)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"{path} has {len(key)} bytes and not {KEY_BYTES}, so it is no key of tokens. Put the file back; "
            "or delete it and start `kubewright up` with --accept-data-loss, to get a new one, which ends "
            "every token that was issued"
        )
    return key


async def ensure_defaults(store: Store, catalog: Catalog, clock: Clock) -> None:
    """Create the missing default objects, and complete those that exist.

    Raises:
        Refused: the store takes no writes.
    """
    await asyncio.gather(*(_staged(store, place, obj) for place, obj in _wanted(store, catalog, clock)))


def _wanted(store: Store, catalog: Catalog, clock: Clock) -> Iterator[tuple[Target, Object]]:
    groups = (GROUP, CLASSES.group)
    kinds: dict[str, ServedKind] = {k.resource.kind: k for k in catalog if k.resource.group in groups}
    now = clock.now()
    for obj in (*objects(), *own_objects(), *_classes()):
        meta, kind = obj["metadata"], kinds[obj["kind"]]
        place = Target(kind, meta.get("namespace", ""), meta["name"])
        there = store.latest(place.collection, place.key)
        if there is None:
            yield (
                place,
                strategy.created(
                    obj,
                    name=place.name,
                    namespace=place.namespace,
                    uid=_uid(place, now),
                    now=rfc3339(now),
                    generation=kind.resource == CLASSES,
                ),
            )
        elif kind.resource == CLASSES:
            continue
        elif (completed := reconciled(obj, orjson.loads(there.data))) is not None:
            yield place, completed


def _classes() -> Iterator[Object]:
    """For what a node needs, and for what a cluster needs; no user's class may be as high."""
    words = {
        "system-node-critical": "must not be moved from their current node.",
        "system-cluster-critical": "must run in the cluster, but can be moved to another node if necessary.",
    }
    for name, value in SYSTEM_CLASSES.items():
        yield {
            "apiVersion": CLASSES.api_version,
            "kind": CLASSES.kind,
            "metadata": {"name": name},
            "description": f"Used for system critical pods that {words[name]}",
            "preemptionPolicy": "PreemptLowerPriority",
            "value": value,
        }


def _uid(place: Target, now: datetime) -> str:
    """A uid from the object's key and the time, not from the clock's random numbers: one more default role
    in a newer release would else shift every random number after it, and change every simulated story."""
    return str(uuid5(NAMESPACE_OID, f"{place.collection} {place.key} {now.isoformat()}"))


def _staged(store: Store, place: Target, obj: dict[str, Any]) -> asyncio.Future[None]:
    version = store.next_version()
    data = place.kind.encode_stored(obj, version)
    record = record_of(place.collection, place.key, version, data)
    return store.put(record, store.latest(place.collection, place.key))


EVENT_SECONDS = 3600.0
"""How long an event is kept after it was last written, as kube-apiserver's ``--event-ttl``."""

SWEEP_SECONDS = 300.0
"""Time between two scans for expired events."""

_EVENTS = "events"


class Housekeeping:
    """The server's background work."""

    def __init__(self, store: Store, catalog: Catalog, writing: Writing, clock: Clock) -> None:
        self._store, self._catalog, self._writing, self._clock = store, catalog, writing, clock
        self._ending: set[str] = set()

    async def run(self) -> None:
        """Until cancelled, or until the store takes no more writes."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._expire_events())
            async with aclosing(self._looks(str(CRDS))) as looks:
                async for _ in looks:
                    for record in self._store.scan(str(CRDS)):
                        if record.deleting and record.key not in self._ending:
                            self._ending.add(record.key)
                            tasks.create_task(self._end(record))

    async def _looks(self, resource: str) -> AsyncGenerator[None]:
        """Once now and after each change of a collection, until the store takes no more writes.

        That a watcher is closed says nothing of its collection: the kind is served anew, or the changes were
        too many at once. Another watcher goes on, and everything is looked at again.
        """
        while not self._store.refusal:
            watcher = self._store.watch(resource)
            try:
                while not watcher.closed:
                    yield
                    await watcher.ready()
                    watcher.take()
            finally:
                self._store.unwatch(watcher)

    async def _end(self, definition: Record) -> None:
        """Empty the collection of a definition, then remove its finalizer."""
        try:
            if await self._empty(definition):
                target = Target(self._kind(str(CRDS)), name=definition.key)
                await self._writing.update(target, _released, Options(validation=IGNORE))
        except NotFound:
            pass  # a user removed our finalizer, and the definition is gone
        except (ApiError, Refused) as error:
            log.warning("cleanup stopped", definition=definition.key, why=str(error))
        finally:
            self._ending.discard(definition.key)

    async def _empty(self, definition: Record) -> bool:
        """Delete all instances of a definition. False: the definition or the store was gone before them."""
        crd: Object = orjson.loads(definition.data)
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        async with aclosing(self._looks(definition.key)) as looks:
            async for _ in looks:
                known = self._store.get(str(CRDS), definition.key)
                if known is None or not known.deleting:
                    return False
                kind = self._served(group, plural)
                if kind is None or not self._store.count(definition.key):
                    return True
                waiting = [record.key for record in self._store.scan(definition.key) if not record.deleting]
                await self._delete(kind, waiting)
        return False

    def _served(self, group: str, plural: str) -> ServedKind | None:
        """A kind as it is served now: another schema may have been applied meanwhile."""
        names = ((kind, kind.resource.group, kind.resource.plural) for kind in self._catalog)
        found = [kind for kind, *name in names if name == [group, plural]]
        return max(found, key=lambda kind: kind.is_stored, default=None)

    async def _expire_events(self) -> None:
        """Delete the events whose version is at most the store's version of an hour ago: they were not
        written since. So no event is decoded; a restart keeps events for an hour more at most."""
        kind = self._kind(_EVENTS)
        marks = deque([(self._clock.monotonic(), self._store.version)])
        while not self._store.refusal:
            await self._clock.sleep(SWEEP_SECONDS)
            now = self._clock.monotonic()
            marks.append((now, self._store.version))
            while marks[0][0] <= now - EVENT_SECONDS:
                _, horizon = marks.popleft()
                old = [record.key for record in self._store.scan(_EVENTS) if record.version <= horizon]
                await self._delete(kind, old)

    async def _delete(self, kind: ServedKind, keys: list[str]) -> None:
        await self._writing.delete_all([Target.at(kind, key) for key in keys], DeleteOptions(), Options())

    def _kind(self, resource: str) -> ServedKind:
        return next(kind for kind in self._catalog if str(kind.resource) == resource)


def _released(crd: Object) -> Object:
    finalizers = without_finalizer(crd["metadata"].get("finalizers", ()), CLEANUP)
    return {**crd, "metadata": {**crd["metadata"], "finalizers": finalizers}}
