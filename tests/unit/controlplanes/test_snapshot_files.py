"""A snapshot as a file, and the store in a folder."""

import asyncio
import hashlib

import pytest

from kubewright.api.controlplane.snapshots import SnapshotLocation
from kubewright.controlplanes.snapshots.files import (
    BLOCK,
    EMBEDDED,
    ETCD,
    SQLITE,
    Damaged,
    StoreFailed,
    described,
    verify,
)
from kubewright.controlplanes.snapshots.stores import FolderStore, folder_store

DATA = b"data" * BLOCK
WHOLE = DATA + hashlib.sha256(DATA).digest()


@pytest.mark.parametrize(
    ("content", "form", "good"),
    [
        (WHOLE, ETCD, True),
        (WHOLE[:-1], ETCD, False),
        (b"x" + WHOLE[1:], ETCD, False),
        (b"", ETCD, False),
        (hashlib.sha256(b"").digest(), ETCD, False),
        (WHOLE[:-1], EMBEDDED, True),
    ],
    ids=["whole", "cut short", "changed", "empty", "nothing but a hash", "of another format"],
)
def test_what_etcd_sends_ends_with_its_hash(tmp_path, content, form, good):
    path = tmp_path / "file"
    path.write_bytes(content)
    if good:
        assert described(path, form, "1").size == len(content)
    else:
        with pytest.raises(Damaged):
            described(path, form, "1")


def test_a_file_is_recognized_by_the_hash_of_all_of_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(WHOLE)
    verify(path, described(path, ETCD, "1").sha256)
    with pytest.raises(Damaged, match="the snapshot was taken with"):
        verify(path, hashlib.sha256(DATA).hexdigest())


@pytest.mark.parametrize(
    ("content", "sha256", "told"),
    [
        (WHOLE, "", ETCD),
        (WHOLE, hashlib.sha256(WHOLE).hexdigest(), ETCD),
        (SQLITE + DATA, hashlib.sha256(SQLITE + DATA).hexdigest(), EMBEDDED),
        (WHOLE[:-1], "", "does not end with their hash"),
        (b"x" + WHOLE[1:], "", "does not end with their hash"),
        (b"", "", "the file has 0 bytes"),
        (SQLITE + DATA, "", "no hash of its own: set spec.file.sha256"),
        (WHOLE, hashlib.sha256(DATA).hexdigest(), "the snapshot was taken with"),
    ],
    ids=[
        "by the hash at its end",
        "by the hash that a user names",
        "of format embedded, by the hash that a user names",
        "cut short",
        "changed",
        "empty",
        "of format embedded, with no hash",
        "another hash",
    ],
)
def test_a_file_whose_snapshot_is_lost_is_recognized_or_refused(tmp_path, content, sha256, told):
    path = tmp_path / "file"
    path.write_bytes(content)
    if told in (ETCD, EMBEDDED):
        assert verify(path, sha256) == told
    else:
        with pytest.raises(Damaged, match=told):
            verify(path, sha256)


async def test_a_folder_gives_back_what_was_put_into_it_and_lets_it_go(tmp_path):
    store, source, target = FolderStore(tmp_path / "kept"), tmp_path / "source", tmp_path / "target"
    await asyncio.to_thread(source.write_bytes, b"one")
    await store.put("a/b", source)
    await asyncio.to_thread(source.write_bytes, b"two")
    await store.put("a/b", source)
    await store.fetch("a/b", target)
    assert target.read_bytes() == b"two"
    await store.delete("a/b")
    await store.delete("a/b")
    assert list((tmp_path / "kept").iterdir()) == []
    with pytest.raises(StoreFailed, match="No such file"):
        await store.fetch("a/b", target)


@pytest.mark.parametrize(
    "name", ["../victim", "a/../../victim", "/victim", "team/../../victim", "", "team//x"]
)
@pytest.mark.parametrize("folder", ["", "backups", "../other", "/tmp"])
async def test_no_name_leads_out_of_the_folder_for_snapshots(tmp_path, name, folder):
    victim, root, target = tmp_path / "victim", tmp_path / "kept", tmp_path / "target"
    for each in (victim, target):
        await asyncio.to_thread(each.write_bytes, b"untouched")
    store = folder_store(SnapshotLocation(folder=folder), root)
    for call in (store.put(name, target), store.fetch(name, target), store.delete(name)):
        with pytest.raises(StoreFailed, match="is no path below a folder"):
            await call
    assert (victim.read_bytes(), target.read_bytes(), root.exists()) == (b"untouched", b"untouched", False)


async def test_no_file_of_another_namespace_is_reached_and_no_link_is_followed(tmp_path):
    root, source, target = tmp_path / "kept", tmp_path / "source", tmp_path / "target"
    await asyncio.to_thread(source.write_bytes, b"secret")
    theirs = folder_store(SnapshotLocation(), root, "theirs")
    await theirs.put("theirs/demo/one", source)
    ours = folder_store(SnapshotLocation(), root, "ours")
    for call in (ours.fetch("theirs/demo/one", target), ours.delete("theirs/demo/one")):
        with pytest.raises(StoreFailed, match="it is no file of namespace ours"):
            await call
    (root / "ours").symlink_to(root / "theirs")
    with pytest.raises(StoreFailed, match=r"Not a directory|Too many levels"):
        await ours.fetch("ours/demo/one", target)
    (root / "theirs/demo/link").symlink_to(source)
    with pytest.raises(StoreFailed, match="Too many levels"):
        await theirs.fetch("theirs/demo/link", target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("", "the folder for snapshots of this program"),
        ("backups", "folder backups, which is location.folder"),
    ],
    ids=["its own folder", "a folder that the user named"],
)
async def test_a_folder_that_fails_is_named_as_the_user_knows_it(tmp_path, folder, place):
    kept, source = tmp_path / "kept", tmp_path / "source"
    store = folder_store(SnapshotLocation(folder=folder), kept)
    with pytest.raises(StoreFailed) as read:
        await store.fetch("a/b", source)
    assert str(read.value) == f"file a/b cannot be read from {place}: No such file or directory"
    await asyncio.to_thread(kept.write_bytes, b"a file, where a folder should be")
    with pytest.raises(StoreFailed) as written:
        await store.put("a/b", source)
    assert str(written.value) == f"file a/b cannot be written to {place}: Not a directory"
    with pytest.raises(StoreFailed) as deleted:
        await store.delete("a/b")
    assert str(deleted.value) == f"file a/b cannot be deleted from {place}: Not a directory"
