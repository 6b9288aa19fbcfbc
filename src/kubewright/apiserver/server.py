"""The embedded API server, in process.

Theory.      ``ApiServer`` joins the store, the catalog and the app. ``handle`` is the whole API as
             a function; a socket (``http.listener``) is one more caller. Background work is one
             task: deleting the instances of CRDs that are being deleted, and expired events.
Invariants.  After ``start`` the initial namespaces and the default roles exist, and every stored
             definition is served.
             After ``close`` every acknowledged write is on the disk and the folder is unlocked.
Called by    ``compose`` and every test that needs Kubernetes.
"""

import asyncio
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import structlog

from kubewright.api.admission import Rules
from kubewright.apiserver.bootstrap import ensure_defaults
from kubewright.apiserver.http.app import App, Page
from kubewright.apiserver.http.private_file import write_private
from kubewright.apiserver.http.status import Counts
from kubewright.apiserver.kubelets.dialing import Allowed, Dialer, Streams
from kubewright.apiserver.kubelets.where import may_be_dialled
from kubewright.apiserver.registry.admission import INITIAL_NAMESPACES, NAMESPACES
from kubewright.apiserver.registry.bootstrap_tokens import BootstrapTokens
from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.housekeeping import Housekeeping
from kubewright.apiserver.registry.kind import Catalog
from kubewright.apiserver.registry.serving import CRDS, Serving
from kubewright.apiserver.registry.subresources.tokens import KEY_BYTES, Tokens
from kubewright.apiserver.registry.writing import Writing
from kubewright.apiserver.store import Record, Store
from kubewright.apiserver.store.log import TOKEN_KEY_FILE, Log, NoLog, SqliteLog
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response, User

log = structlog.get_logger("kubewright.apiserver")


class ApiServer:
    """See the module. ``path`` is the data folder, made if missing; None keeps everything in memory.

    ``log``, when given, keeps the writes instead: a test that passes one sees every commit.
    ``admission``: the defaults and rules of custom kinds, which elsewhere are webhooks.
    ``allowed``: the addresses at which kubelets are asked, once it may ask any (``reach_kubelets``).

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
        serving = Serving(self._store, self.catalog, clock, rules)
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
