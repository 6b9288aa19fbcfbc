"""The store of snapshots that is a bucket, which speaks the protocol of Amazon S3.

Theory.      The client is aiobotocore, which signs requests and repeats them; it comes with the extra ``s3``,
             and a program without it reports how to get it. A client is opened and closed for each call,
             because there are minutes between two calls.
             The library would send a checksum after the content, in chunks of a form of Amazon's own
             (``aws-chunked``), which many other stores refuse or keep as a part of the file. An upload has a
             hash of its content in a header instead (``Content-MD5``), which all of them verify.
Invariants.  No key of a user is in a message. Each call has a deadline. An upload has its length and its hash
             with it, so the server refuses what arrives damaged. What is fetched has a largest size.
Called by    ``stores``.
"""

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp

from kubewright.api.controlplane.snapshots import BucketLocation
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.snapshots.files import NotKept, StoreFailed

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
