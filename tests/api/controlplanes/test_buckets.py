"""Snapshots in a bucket: the real client against a small server in this process."""

import asyncio
import sys

import pytest
from tests.api.controlplanes.buckets import KEY, buckets

from kubewright.api.controlplane.snapshots import BucketLocation
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.snapshots.files import NotKept, StoreFailed
from kubewright.controlplanes.snapshots.stores import bucket_store

pytestmark = pytest.mark.looptime(False)
SECRET = {"accessKeyId": KEY.encode() + b"\n", "secretAccessKey": b"secret"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """No settings of the user who runs the tests count."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


def location(url, **rest):
    return BucketLocation(bucket="kept", endpoint=url, secret_name="s3", **rest)


async def test_a_bucket_gives_back_what_was_put_into_it_and_lets_it_go(tmp_path):
    content = bytes(range(256)) * 20_000
    source, target = tmp_path / "source", tmp_path / "target"
    await asyncio.to_thread(source.write_bytes, content)
    async with buckets() as served:
        store = bucket_store(location(served.url, prefix="/planes/"), SECRET)
        await store.put("default/demo/first", source)
        assert served.kept == {"/kept/planes/default/demo/first": content}
        await store.fetch("default/demo/first", target)
        assert await asyncio.to_thread(target.read_bytes) == content
        await store.delete("default/demo/first")
        await store.delete("default/demo/first")
        assert served.kept == {}
        with pytest.raises(NotKept, match=r"bucket kept: .*NoSuchKey"):
            await store.fetch("default/demo/first", target)


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
async def test_a_store_that_takes_no_checksum_after_the_content_gets_none(tmp_path, size):
    source, target = tmp_path / "source", tmp_path / "target"
    await asyncio.to_thread(source.write_bytes, b"x" * size)
    async with buckets(plain=True) as served:
        store = bucket_store(location(served.url), SECRET)
        await store.put("a", source)
        await store.fetch("a", target)
        assert served.kept == {"/kept/a": b"x" * size}
        assert target.stat().st_size == size


async def test_what_arrives_damaged_is_refused(tmp_path):
    source = tmp_path / "source"
    await asyncio.to_thread(source.write_bytes, b"content")
    async with buckets(damages=True) as served:
        with pytest.raises(StoreFailed, match="BadDigest"):
            await bucket_store(location(served.url), SECRET).put("a", source)
        assert served.kept == {}


async def test_wrong_credentials_are_told_and_not_shown(tmp_path):
    async with buckets() as served:
        wrong = {"accessKeyId": b"other", "secretAccessKey": b"a-secret-that-stays-one"}
        with pytest.raises(
            NotKept, match="AccessDenied"
        ) as caught:  # as for a missing file that it may not list
            await bucket_store(location(served.url), wrong).fetch("a", tmp_path / "target")
    assert "a-secret" not in str(caught.value)


def test_a_secret_that_lacks_something_is_told():
    with pytest.raises(StoreFailed, match="Secret s3 has no secretAccessKey"):
        bucket_store(location(""), {"accessKeyId": b"x"})


@pytest.mark.parametrize("key", ["accessKeyId", "secretAccessKey", "sessionToken"])
def test_a_key_that_is_no_text_is_told_and_not_shown(key):
    with pytest.raises(StoreFailed, match=f"Secret s3: {key} is no text") as caught:
        bucket_store(location(""), {**SECRET, key: b"\xff\xfe"})
    assert "0xff" not in str(caught.value)


def test_a_program_without_the_client_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    with pytest.raises(InvalidInput, match=r"pip install 'kubewright\[s3\]'"):
        bucket_store(location(""), SECRET)


async def test_a_server_that_is_away_is_told(tmp_path, unused_tcp_port):
    store = bucket_store(location(f"http://127.0.0.1:{unused_tcp_port}"), SECRET)
    with pytest.raises(StoreFailed, match="bucket kept: ") as caught:
        await store.fetch("a", tmp_path / "target")
    assert not isinstance(caught.value, NotKept)  # the file may be there


async def test_a_download_that_breaks_off_is_told(tmp_path):
    async with buckets(breaks=True) as served:
        with pytest.raises(StoreFailed, match="bucket kept: Response payload is not completed") as caught:
            await bucket_store(location(served.url), SECRET).fetch("a", tmp_path / "target")
    assert not isinstance(caught.value, NotKept)
