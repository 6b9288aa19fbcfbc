"""The log on disk: what is kept, who may open it, and what is refused."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kubewright.apiserver.store import Change, Record
from kubewright.apiserver.store.log import FORMAT, LOCK_FILE, SqliteLog, peek
from kubewright.base.errors import InvalidInput


def record(key: str, version: int, data: bytes = b"{}") -> Record:
    return Record("things", key, version, "", {}, False, data)


@pytest.mark.parametrize(
    "power_loss",
    [pytest.param(True, id="which outlives power"), pytest.param(False, id="which outlives the process")],
)
def test_a_batch_is_kept_in_its_last_state(power_loss: bool, tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "data", power_loss=power_loss)
    one, two = record("a", 1), record("a", 2, b'{"v":2}')
    log.commit([Change(one), Change(two, one), Change(record("b", 3))])
    log.commit([Change(record("b", 4), record("b", 3), gone=True)])
    log.checkpoint()
    log.close()
    again = SqliteLog(tmp_path / "data")
    version, rows = again.load()
    assert (version, list(rows)) == (4, [("things", "a", 2, b'{"v":2}')])
    again.close()


def test_a_log_that_may_lose_power_is_read_by_others_before_it_rests(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path, power_loss=False)
    log.commit([Change(record("a", 1))])
    log.checkpoint()
    assert peek(tmp_path, ["things"]) == [("things", "a", 1, b"{}")]
    log.close()


def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    with pytest.raises(InvalidInput, match=rf"is in use by another kubewright \(process {os.getpid()}\)$"):
        SqliteLog(tmp_path)
    (tmp_path / LOCK_FILE).write_text("")
    with pytest.raises(InvalidInput, match=r"\(process unknown\)$"):
        SqliteLog(tmp_path)
    log.close()
    log.close()
    SqliteLog(tmp_path).close()


def test_an_unknown_format_is_refused_and_the_folder_freed(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    with sqlite3.connect(tmp_path / "objects.db") as db:
        db.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
    db.close()
    for _ in range(2):
        with pytest.raises(
            InvalidInput, match=f"has data format 99; this kubewright reads format {FORMAT} only"
        ):
            SqliteLog(tmp_path)


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "objects.db").write_bytes(b"no database " * 1_000)
    with pytest.raises(InvalidInput, match="is not a kubewright data file, or is damaged"):
        SqliteLog(tmp_path)


def test_a_damaged_page_is_reported_when_it_is_read(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "objects.db")) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'objects'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with (tmp_path / "objects.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    log = SqliteLog(tmp_path)
    _, rows = log.load()
    with pytest.raises(InvalidInput, match=r"^the data file is damaged: .* malformed$"):
        list(rows)
    log.close()


def test_a_path_that_is_too_long_for_sqlite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^cannot open .*/objects\.db: unable to open database file$"):
        SqliteLog(tmp_path.joinpath(*["d" * 200] * 3))


def test_what_is_no_file_is_refused_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "objects.db").mkdir()
    with pytest.raises(InvalidInput, match=r"^cannot open .*/objects\.db: Is a directory$"):
        SqliteLog(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"cannot use .* as a data folder"):
        SqliteLog(tmp_path / "file" / "data")


def test_a_batch_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.commit([Change(record("a", 1))])
    nothing: Any = None
    with pytest.raises(sqlite3.IntegrityError):
        log.commit([Change(record("b", 2)), Change(record("c", 3, nothing))])
    log.commit([Change(record("d", 2))])
    version, rows = log.load()
    assert (version, [row[1] for row in rows]) == (2, ["a", "d"])
    log.close()


def test_a_folder_that_is_missing_is_made_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    SqliteLog(folder).close()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_secrets_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.commit([Change(record("a", 1))])
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {"0o600"}, modes
    log.close()


def test_an_open_file_may_be_read_by_others_and_shows_what_is_committed(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.commit([Change(record("a", 1, b'{"v":1}')), Change(record("b", 2))])
    with closing(sqlite3.connect(tmp_path / "objects.db", timeout=0)) as reader:
        reading = reader.execute("SELECT key FROM objects ORDER BY key")
        assert next(reading) == ("a",)
        log.commit([Change(record("a", 3, b'{"v":2}'), record("a", 1))])  # a reader holds up no writer
        log.checkpoint()
    assert peek(tmp_path, ["things"]) == [("things", "a", 3, b'{"v":2}'), ("things", "b", 2, b"{}")]
    assert peek(tmp_path, ["others"]) == []
    log.close()
    assert len(peek(tmp_path, ["things", "others"])) == 2


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no data file"):
        peek(tmp_path, ["things"])
    (tmp_path / "objects.db").write_bytes(b"no database " * 1_000)
    with pytest.raises(InvalidInput, match="cannot read"):
        peek(tmp_path, ["things"])


def test_an_existing_file_becomes_readable_by_its_owner_only(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    (tmp_path / "objects.db").chmod(0o644)
    SqliteLog(tmp_path).close()
    assert (tmp_path / "objects.db").stat().st_mode & 0o777 == 0o600


def written(folder: Path, *, power_loss: bool = True) -> None:
    """Three commits, as a process leaves them that was killed: not one is in the database file yet."""
    log = SqliteLog(folder, power_loss=power_loss)
    for version in (1, 2, 3):
        log.commit([Change(record(f"k{version}", version, b'{"v":%d}' % version * 500))])
    left = {name: (folder / name).read_bytes() for name in ("objects.db", "objects.db-wal", "committed")}
    log.close()
    for name, content in left.items():
        (folder / name).write_bytes(content)
    (folder / "objects.db-shm").unlink(missing_ok=True)


def opened(folder: Path, **settings: bool) -> tuple[int, list[str]]:
    log = SqliteLog(folder, **settings)
    try:
        version, rows = log.load()
        return version, sorted(key for _, key, _, _ in rows)
    finally:
        log.close()


def cut(folder: Path) -> None:
    os.truncate(folder / "objects.db-wal", (folder / "objects.db-wal").stat().st_size - 100)


def flip(folder: Path) -> None:
    content = bytearray((folder / "objects.db-wal").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "objects.db-wal").write_bytes(content)


def take_away(folder: Path) -> None:
    (folder / "objects.db-wal").unlink()


def empty(folder: Path) -> None:
    take_away(folder)
    os.truncate(folder / "objects.db", 0)


def remove(folder: Path) -> None:
    take_away(folder)
    (folder / "objects.db").unlink()


HARM = pytest.mark.parametrize("harm", [cut, flip, take_away, empty, remove])


@HARM
@pytest.mark.parametrize("power_loss", [True, False])
def test_a_folder_that_has_less_than_was_committed_is_refused_and_left_as_it_is(
    power_loss: bool, harm: Any, tmp_path: Path
) -> None:
    written(tmp_path, power_loss=power_loss)
    harm(tmp_path)
    before = {
        path.name: path.read_bytes() for path in tmp_path.glob("objects.db*") if path.name[-3:] != "shm"
    }
    for _ in range(2):
        with pytest.raises(
            InvalidInput, match=r"version 3 was committed: .* with --accept-data-loss, to go on"
        ):
            SqliteLog(tmp_path, power_loss=power_loss)
    after = {path.name: path.read_bytes() for path in tmp_path.glob("objects.db*") if path.name[-3:] != "shm"}
    assert {name: content for name, content in after.items() if content} == {
        name: content for name, content in before.items() if content
    }


@HARM
def test_what_is_left_is_served_when_the_loss_is_accepted_and_no_version_comes_again(
    harm: Any, tmp_path: Path
) -> None:
    written(tmp_path)
    harm(tmp_path)
    version, keys = opened(tmp_path, accept_loss=True)
    assert version == 1_000_003
    assert "k3" not in keys
    assert opened(tmp_path) == (version, keys)


def test_a_whole_folder_is_served_and_the_same_switch_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    assert opened(tmp_path, accept_loss=True) == opened(tmp_path) == (3, ["k1", "k2", "k3"])


def test_an_empty_database_beside_a_key_of_tokens_is_refused(tmp_path: Path) -> None:
    """As an earlier version left it, which wrote no such file."""
    (tmp_path / "token.key").write_bytes(b"x" * 32)
    (tmp_path / "objects.db").touch()
    with pytest.raises(InvalidInput, match=r"was used before, and objects\.db in it is empty or missing"):
        SqliteLog(tmp_path)
    assert opened(tmp_path, accept_loss=True) == (1_000_000, [])


def as_of_an_earlier_release(folder: Path) -> None:
    """Take out what earlier releases did not write."""
    with closing(sqlite3.connect(folder / "objects.db")) as db, db:
        db.execute("DELETE FROM meta WHERE name LIKE 'belongs %'")
    (folder / "committed").unlink()


def test_a_folder_of_an_earlier_version_is_taken_as_it_is(tmp_path: Path) -> None:
    written(tmp_path)
    as_of_an_earlier_release(tmp_path)
    (tmp_path / "token.key").write_bytes(b"x" * 32)
    assert opened(tmp_path) == (3, ["k1", "k2", "k3"])
    assert (tmp_path / "committed").read_text().startswith("00000000000000000003 ")


def copied_back(folder: Path, of: dict[str, bytes]) -> None:
    for path in folder.glob("objects.db*"):
        path.unlink()
    for name, content in of.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("power_loss", [True, False])
@pytest.mark.parametrize("mark", ["missing", "empty"])
@pytest.mark.parametrize("harm", [cut, "an older copy"])
def test_what_goes_together_with_the_mark_of_what_was_committed_is_noticed(
    power_loss: bool, mark: str, harm: Any, tmp_path: Path
) -> None:
    written(tmp_path, power_loss=power_loss)
    SqliteLog(tmp_path).close()
    copy = {path.name: path.read_bytes() for path in tmp_path.glob("objects.db*")}
    log = SqliteLog(tmp_path)
    log.commit([Change(record("k4", 4))])
    killed = {path.name: path.read_bytes() for path in tmp_path.glob("objects.db*")}
    log.close()
    if harm is cut:
        copied_back(tmp_path, killed)
        cut(tmp_path)
    else:
        copied_back(tmp_path, copy)
    (tmp_path / "committed").unlink() if mark == "missing" else os.truncate(tmp_path / "committed", 0)
    for _ in range(2):
        with pytest.raises(
            InvalidInput,
            match=r"/committed is missing: without it nothing tells .* written\. .* with --accept-data-loss",
        ):
            SqliteLog(tmp_path, power_loss=power_loss)
    version, _ = opened(tmp_path, accept_loss=True, power_loss=power_loss)
    assert version >= 1_000_003
    assert opened(tmp_path)[0] == version


def test_objects_of_an_earlier_release_get_a_mark_that_no_lost_log_takes_back(tmp_path: Path) -> None:
    written(tmp_path)
    SqliteLog(tmp_path).close()
    as_of_an_earlier_release(tmp_path)
    log = SqliteLog(tmp_path)
    database = (tmp_path / "objects.db").read_bytes()
    log.close()
    copied_back(tmp_path, {"objects.db": database})
    (tmp_path / "committed").unlink()
    with pytest.raises(InvalidInput, match="committed is missing"):
        SqliteLog(tmp_path)


def test_a_file_that_belongs_to_the_objects_is_missed(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.commit([Change(record("a", 1))])
    (tmp_path / "token.key").write_bytes(b"x" * 32)
    log.claim("token.key")
    log.close()
    (tmp_path / "token.key").unlink()
    with pytest.raises(
        InvalidInput, match=r"token\.key is missing: with another key every token .* ends\. Put"
    ):
        SqliteLog(tmp_path)
    assert opened(tmp_path, accept_loss=True) == (1, ["a"])


def test_where_all_is_lost_versions_do_not_begin_again(tmp_path: Path) -> None:
    assert opened(tmp_path / "new") == (0, [])
    assert opened(tmp_path / "lost", accept_loss=True) == (1_000_000, [])


@pytest.mark.parametrize("content", ["00000000000000000003", "x" * 66])
def test_a_damaged_mark_of_what_was_committed_is_refused(content: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "committed").write_text(content)
    with pytest.raises(
        InvalidInput,
        match=r"committed is damaged: it does not say any more what was committed last\. Put the right",
    ):
        SqliteLog(tmp_path)
    assert opened(tmp_path, accept_loss=True) == (1_000_003, ["k1", "k2", "k3"])


def test_commits_that_may_be_lost_with_power_are_no_reason_to_refuse_after_a_new_boot(tmp_path: Path) -> None:
    written(tmp_path, power_loss=False)
    cut(tmp_path)
    line = f"{3:020} {'another-boot':36}"
    (tmp_path / "committed").write_text(f"{line} {crc32(line.encode()):08x}\n")
    assert opened(tmp_path, power_loss=False) == (1_000_003, ["k1", "k2"])


def test_an_empty_mark_of_what_was_committed_counts_as_none(tmp_path: Path) -> None:
    """A process that was killed between making the file and writing its first line leaves one."""
    written(tmp_path)
    as_of_an_earlier_release(tmp_path)
    (tmp_path / "committed").write_text("")
    assert opened(tmp_path)[0] == 3
    assert (tmp_path / "committed").read_text().startswith("00000000000000000003 ")


def test_a_mark_that_cannot_be_written_fails_no_commit(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    mark = (tmp_path / "committed").resolve()
    (descriptor,) = (
        int(each.name) for each in Path("/proc/self/fd").iterdir() if each.exists() and each.resolve() == mark
    )
    read_only = os.open(mark, os.O_RDONLY)
    os.dup2(read_only, descriptor, inheritable=False)
    os.close(read_only)
    log.commit([Change(record("a", 1))])
    log.close()
    assert opened(tmp_path)[0] == 1
