"""A copy of a data folder, and a copy in the place of the data, cut short at every step."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.api.interruptions import cut_short

from kubewright.apiserver.store import copies
from kubewright.apiserver.store.log import DATA_FILE, TOKEN_KEY_FILE, SqliteLog
from kubewright.base.errors import Backoff, InvalidInput, OnChange, Unwritten


def fill(folder, value, version):
    """A data folder with one row."""
    SqliteLog(folder).close()
    with closing(sqlite3.connect(folder / DATA_FILE)) as db, db:
        db.execute("INSERT OR REPLACE INTO objects VALUES ('r', 'k', 1, ?)", (value,))
        db.execute("UPDATE meta SET value = ? WHERE name = 'version'", (version,))


def content(folder):
    log = SqliteLog(folder)
    try:
        version, rows = log.load()
        return version, [row[3] for row in rows]
    finally:
        log.close()


@pytest.fixture
def copied(tmp_path):
    """A folder with data, and a copy of what was in it before."""
    folder = tmp_path / "data"
    fill(folder, b"before", 5)
    copies.take(folder, tmp_path / "copy")
    fill(folder, b"after", 9)
    return folder, tmp_path / "copy"


def test_a_copy_is_one_file_for_its_owner_of_what_was_committed_while_a_server_has_the_folder(tmp_path):
    fill(tmp_path / "data", b"x", 1)
    log = SqliteLog(tmp_path / "data")
    copies.take(tmp_path / "data", tmp_path / "copy")
    log.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "data"]
    assert oct((tmp_path / "copy").stat().st_mode & 0o777) == "0o600"


def test_the_data_is_that_of_the_copy_with_higher_versions_and_the_former_data_is_aside(copied):
    folder, copy = copied
    former = copies.put_back(folder, copy, "mark")
    assert content(folder) == (9 + copies.GAP, [b"before"])
    assert content(former) == (9, [b"after"])


def test_a_folder_that_was_deleted_comes_back(copied, tmp_path):
    folder, copy = copied
    folder.rename(tmp_path / "gone")
    assert copies.put_back(folder, copy, "mark") is None
    assert content(folder) == (5 + copies.GAP, [b"before"])


def test_the_key_of_tokens_stays_whatever_takes_the_place_of_the_data(copied):
    folder, copy = copied
    key = folder / TOKEN_KEY_FILE
    key.write_bytes(b"a key")
    key.chmod(0o600)
    former = copies.put_back(folder, copy, "mark")
    assert [(key.read_bytes(), oct(key.stat().st_mode & 0o777)), (former / TOKEN_KEY_FILE).read_bytes()] == [
        (b"a key", "0o600"),
        b"a key",
    ]


def test_the_key_of_tokens_stays_where_only_the_former_folder_is_in_its_place(copied):
    folder, copy = copied
    (folder / TOKEN_KEY_FILE).write_bytes(b"a key")
    folder.rename(folder.with_name(f"{folder.name}.before-mark"))
    copies.put_back(folder, copy, "mark")
    assert (folder / TOKEN_KEY_FILE).read_bytes() == b"a key"


def test_the_same_mark_replaces_once_and_another_mark_again(copied):
    folder, copy = copied
    former = copies.put_back(folder, copy, "mark")
    fill(folder, b"later", 10**9)
    assert copies.put_back(folder, copy, "mark") == former
    assert content(folder)[1] == [b"later"]
    copies.put_back(folder, copy, "other")
    assert content(folder)[1] == [b"before"]


def test_a_copy_is_put_back_without_the_files_that_belonged_to_its_folder(copied, tmp_path):
    _, copy = copied
    assert copies.put_back(tmp_path / "elsewhere", copy, "mark") is None
    assert content(tmp_path / "elsewhere") == (5 + copies.GAP, [b"before"])


def test_a_folder_that_is_served_is_left_as_it_is(copied):
    folder, copy = copied
    log = SqliteLog(folder)
    with pytest.raises(copies.StillServed):
        copies.put_back(folder, copy, "mark")
    log.close()
    assert content(folder) == (9, [b"after"])


@pytest.mark.parametrize("damage", [b"", b"no data at all", None], ids=["empty", "another file", "cut"])
def test_a_copy_that_is_damaged_replaces_nothing(copied, damage):
    folder, copy = copied
    copy.write_bytes(copy.read_bytes()[:5000] if damage is None else damage)
    with pytest.raises(InvalidInput) as told:
        copies.put_back(folder, copy, "mark")
    assert content(folder) == (9, [b"after"])
    assert str(folder.parent) not in str(told.value)
    assert told.value.retry == OnChange()


def test_a_disk_that_does_not_let_us_is_no_mistake_of_a_user_and_is_tried_again(copied, tmp_path):
    """As one that is full for a moment: a control plane that is stopped for a restore would never start."""
    folder, copy = copied
    with pytest.raises(Unwritten, match="cannot copy the data: No such file or directory") as taken:
        copies.take(folder, tmp_path / "gone" / "copy")
    folder.with_name("data.restoring").write_text("in the way")
    with pytest.raises(Unwritten, match="cannot replace the data: File exists") as put:
        copies.put_back(folder, copy, "mark")
    assert {taken.value.retry, put.value.retry} == {Backoff()}
    assert content(folder) == (9, [b"after"])
    folder.with_name("data.restoring").unlink()
    copies.put_back(folder, copy, "mark")
    assert content(folder)[1] == [b"before"]


CALLS = (
    (Path, "rename"),
    (Path, "mkdir"),
    (os, "fsync"),
    (copies.shutil, "copyfile"),
    (copies.shutil, "rmtree"),
)


@pytest.mark.parametrize(("where", "name"), CALLS, ids=[name for _, name in CALLS])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(3))
def test_whatever_call_is_the_last_before_the_program_ends_the_next_try_completes_it(
    copied, monkeypatch, where, name, when, number
):
    folder, copy = copied
    with cut_short(monkeypatch, where, name, number, when):
        copies.put_back(folder, copy, "mark")
    former = copies.put_back(folder, copy, "mark")
    assert content(folder)[1] == [b"before"]
    assert content(former) == (9, [b"after"])
