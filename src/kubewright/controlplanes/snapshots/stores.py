"""The stores of snapshots: a folder of this program, or a bucket that speaks the protocol of Amazon S3.

Theory.      A file on its way to or from a store is in a temporary folder (``scratch``). In a folder, a
             file is written under another name and renamed, so under its own name it is complete. Its
             name follows from the object, so a second attempt replaces what an earlier one, that was cut
             short, has left. A bucket is reached with the credentials of a Secret in the user's
             namespace, never with those of this program: else a user could read and write whatever this
             program can.
Buckets.     The client is aiobotocore, which signs requests and repeats them; it comes with the extra
             ``s3``, and a program without it reports how to get it. A client is opened and closed for
             each call, because there are minutes between two calls. The library would send a checksum
             after the content, in chunks of a form of Amazon's own (``aws-chunked``), which many other
             stores refuse or keep as a part of the file. An upload has a hash of its content in a header
             instead (``Content-MD5``), which all of them verify.
Invariants.  No path leaves the folder of the program or reaches what another namespace keeps there,
             whatever an object says, and no link in it is followed; no message has a path that no user
             wrote. Files have mode 0600, because a snapshot contains every Secret of its control plane.
             No key of a user is in a message. Each call has a deadline. An upload has its length and its
             hash with it, so the server refuses what arrives damaged. What is fetched has a largest size.
Called by    ``act``.
"""

import asyncio
import base64
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from kubewright.api.controlplane.snapshots import BucketLocation, SnapshotLocation
from kubewright.api.core import SECRET
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.snapshots.files import SCRATCH, NotKept, StoreFailed
from kubewright.kube.client import Client
from kubewright.kube.errors import Deposed
from kubewright.kube.transport import NOT_SURE, Entitled
from kubewright.processes import record
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

NO_FOLDER = (
    "this program has no folder for snapshots: name a bucket in the location, or start the program with "
    "--snapshot-folder"
)
FOLDER = "the folder for snapshots of this program"


@contextmanager
def scratch(folder: Path | None) -> Iterator[Path]:
    """A temporary folder below this one, for a file on its way; it is deleted with what is in it.

    What cannot be deleted stays, and goes when the program starts again.

    Raises:
        StoreFailed: it cannot be made.
    """
    try:
        made = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise StoreFailed(f"no temporary folder can be made: {error.strerror or error}") from None
    with made as name:
        yield Path(name)


class Store(Protocol):
    """Where files are kept. All methods may raise ``StoreFailed``, and can be repeated."""

    async def put(self, name: str, source: Path) -> None:
        """Keep a copy of this file."""
        ...

    async def fetch(self, name: str, target: Path) -> None:
        """Copy a file that is kept here. ``NotKept``: there is none, or none that may be read."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        ...


class FolderStore:
    """A folder below that of the program; the first ``put`` creates it.

    ``folder``     names below ``root``, with slashes between them; empty: that itself
    ``told``       how a message names it
    ``namespace``  only files of this namespace are in it; empty: of any
    """

    def __init__(self, root: Path, folder: str = "", told: str = FOLDER, namespace: str = "") -> None:
        self._root = root
        self._folder = folder
        self._told = told
        self._namespace = namespace

    async def put(self, name: str, source: Path) -> None:
        """As ``Store.put``."""
        await self._call("written to", name, self._put, source)

    async def fetch(self, name: str, target: Path) -> None:
        """As ``Store.fetch``."""
        await self._call("read from", name, self._fetch, target)

    async def delete(self, name: str) -> None:
        """As ``Store.delete``; folders that it leaves empty go too."""
        await self._call("deleted from", name, self._delete)

    async def _call(self, what: str, name: str, work: Callable[..., object], *others: Path) -> None:
        try:
            own = record.parts_of(name)
            if self._namespace and own[0] != self._namespace:
                raise record.Escapes(f"it is no file of namespace {self._namespace}")
            above = record.parts_of(self._folder) if self._folder else ()
            await asyncio.to_thread(work, (*above, *own), *others)
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            failure = NotKept if isinstance(error, FileNotFoundError) else StoreFailed
            raise failure(f"file {name} cannot be {what} {self._told}: {reason}") from None

    def _put(self, parts: Sequence[str], source: Path) -> None:
        *folders, name = parts
        with suppress(FileExistsError):
            self._root.mkdir(mode=0o700, parents=True)
        with record.opened(self._root, *folders, mode=0o700, change=False) as folder:
            record.replace(folder, name, lambda target: _copied(source, target))

    def _fetch(self, parts: Sequence[str], target: Path) -> None:
        *folders, name = parts
        with record.opened(self._root, *folders) as folder:
            source = record.open_file(folder, name)
        with os.fdopen(source, "rb") as file, open(target, "wb") as copy:
            shutil.copyfileobj(file, copy)

    def _delete(self, parts: Sequence[str]) -> None:
        *folders, name = parts
        with suppress(FileNotFoundError), record.opened(self._root, *folders) as folder:
            os.unlink(name, dir_fd=folder)
        with suppress(OSError):  # it is not empty, or gone
            while folders:
                *folders, last = folders
                with record.opened(self._root, *folders) as folder:
                    os.rmdir(last, dir_fd=folder)


def _copied(source: Path, target: int) -> None:
    with open(source, "rb") as file, os.fdopen(os.dup(target), "wb") as copy:
        shutil.copyfileobj(file, copy)


class Fenced:
    """``inner``, which takes and deletes files only while this process may write.

    A process that stood still may go on after another has kept a file, whose hash is in a status by now.
    """

    def __init__(self, inner: Store, entitled: Entitled) -> None:
        self._inner = inner
        self._entitled = entitled

    async def put(self, name: str, source: Path) -> None:
        """As ``Store.put``.

        Raises:
            Deposed: this process does not lead any more.
        """
        self._check(f"file {name} is not kept")
        await self._inner.put(name, source)

    async def fetch(self, name: str, target: Path) -> None:
        """As ``Store.fetch``."""
        await self._inner.fetch(name, target)

    async def delete(self, name: str) -> None:
        """As ``Store.delete``.

        Raises:
            Deposed: this process does not lead any more.
        """
        self._check(f"file {name} is not deleted")
        await self._inner.delete(name)

    def _check(self, told: str) -> None:
        if not self._entitled():
            raise Deposed(f"{told}: {NOT_SURE}")


def folder_store(location: SnapshotLocation, folder: Path | None, namespace: str = "") -> Store:
    """The store of a spec that names no bucket; ``folder`` is that of this program.

    ``namespace``: that of the object; no file of another one is reached

    Raises:
        InvalidInput: this program has none; the message says what would help.
    """
    if folder is None:
        raise InvalidInput(NO_FOLDER)
    told = f"folder {location.folder}, which is location.folder" if location.folder else FOLDER
    return FolderStore(folder, location.folder, told, namespace)


class Stores:
    """Finds the store that a spec names.

    ``folder``    that of this program, for snapshots; None: it has none
    ``entitled``  whether this process may write now; stores take and delete files only then
    """

    def __init__(self, client: Client, folder: Path | None, entitled: Entitled) -> None:
        self._client = client
        self._folder = folder
        self._entitled = entitled

    async def of(self, location: SnapshotLocation, namespace: str) -> Store:
        """The store for an object of a namespace.

        Raises:
            InvalidInput: this program has no such store; the message says what would help.
            StoreFailed: the Secret with the credentials is not there, or lacks something.
            ApiError, TransportError: the server could not be asked for it.
        """
        return Fenced(await self._of(location, namespace), self._entitled)

    async def _of(self, location: SnapshotLocation, namespace: str) -> Store:
        bucket = location.bucket
        if bucket is None:
            return folder_store(location, self._folder, namespace)
        try:
            secret = await self._client.get(SECRET, Key(namespace, bucket.secret_name))
        except NotFound:
            raise StoreFailed(f"there is no Secret {bucket.secret_name} for bucket {bucket.bucket}") from None
        return bucket_store(bucket, secret.data)


WITHOUT_LIBRARY = (
    "spec.location.bucket: this program has no client for buckets: install it with its extra, "
    "`pip install 'kubewright[s3]'`"
)
BLOCK = 1024 * 1024
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
LARGEST = 32 * 1024**3
"""Bytes of a file that is fetched: four times what an etcd may have."""
TOLD_CHARS = 500
KEYS = ("accessKeyId", "secretAccessKey")
ABSENT = (403, 404)
"""The answers for a key that is not there; the first to credentials that may not list the bucket."""


class BucketStore:
    """A bucket. ``options``: the arguments of the client, with the credentials."""

    def __init__(self, location: BucketLocation, options: Mapping[str, Any]) -> None:
        self._location = location
        self._options = options

    async def put(self, name: str, source: Path) -> None:
        """As ``Store.put``."""
        digest = await asyncio.to_thread(_md5, source)
        with await asyncio.to_thread(source.open, "rb") as file:  # the client reads it beside the loop
            await self._call("put_object", Key=self._key(name), Body=file, ContentMD5=digest)

    async def fetch(self, name: str, target: Path) -> None:
        """As ``Store.fetch``."""
        await self._call("get_object", target, Key=self._key(name))

    async def delete(self, name: str) -> None:
        """As ``Store.delete``."""
        await self._call("delete_object", Key=self._key(name))

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._location.prefix.strip("/"), name) if part)

    def _client(self) -> AbstractAsyncContextManager[Any]:
        from aiobotocore.config import AioConfig
        from aiobotocore.session import get_session

        config = AioConfig(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": 2},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        found: AbstractAsyncContextManager[Any] = get_session().create_client(
            "s3", config=config, **self._options
        )
        return found

    async def _call(self, call: str, target: Path | None = None, **arguments: Any) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        bucket = self._location.bucket
        try:
            async with self._client() as client:
                answer = await getattr(client, call)(Bucket=bucket, **arguments)
                if target is not None:
                    async with answer["Body"] as body:  # else its connection stays open where it breaks off
                        await _written(body, target)
        except (BotoCoreError, ClientError, aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            absent = isinstance(error, ClientError) and _status(error.response) in ABSENT
            failure = NotKept if absent else StoreFailed
            raise failure(f"bucket {bucket}: {str(error)[:TOLD_CHARS]}") from None


def bucket_store(location: BucketLocation, secret: Mapping[str, bytes]) -> BucketStore:
    """The store for a bucket, with the credentials from a Secret.

    Raises:
        InvalidInput: this program has no client for buckets.
        StoreFailed: the Secret lacks something.
    """
    if find_spec("aiobotocore") is None:
        raise InvalidInput(WITHOUT_LIBRARY)
    if missing := [key for key in KEYS if not secret.get(key)]:
        raise StoreFailed(f"Secret {location.secret_name} has no {missing[0]}")
    keys = {key: _text(location, secret, key) for key in (*KEYS, "sessionToken")}
    options = {
        "aws_access_key_id": keys["accessKeyId"],
        "aws_secret_access_key": keys["secretAccessKey"],
        "aws_session_token": keys["sessionToken"] or None,
        "endpoint_url": location.endpoint or None,
        "region_name": location.region or "us-east-1",
    }
    return BucketStore(location, options)


def _status(answer: Mapping[str, Any]) -> int:
    """The status of HTTP with which a server has refused."""
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _text(location: BucketLocation, secret: Mapping[str, bytes], key: str) -> str:
    try:
        return secret.get(key, b"").decode().strip()
    except UnicodeDecodeError:  # whose own text shows a byte of the key
        raise StoreFailed(f"Secret {location.secret_name}: {key} is no text") from None


def _md5(path: Path) -> str:
    """The hash of a file as the header has it. It says what arrived damaged, and secures nothing."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return base64.b64encode(digest.digest()).decode()


async def _written(body: Any, target: Path) -> None:
    left = LARGEST
    with await asyncio.to_thread(target.open, "wb") as file:
        async for block in body.iter_chunks(BLOCK):
            if (left := left - len(block)) < 0:
                raise ValueError(f"the file has more than {LARGEST} bytes, and no snapshot is so large")
            await asyncio.to_thread(file.write, block)
