"""The log on disk: what is kept, who may open it, and what is refused."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

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
