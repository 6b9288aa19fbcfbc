"""Nothing that a user or a program writes leads out of the folder of a program."""

import os
from stat import S_IMODE

import pytest

from kubewright.processes import record
from kubewright.processes.program import FILES

DATA = "volumes/data"
OUTSIDE = [
    pytest.param("..", id="the folder above"),
    pytest.param("../x", id="beside it"),
    pytest.param("a/../../x", id="in and out again"),
    pytest.param("/x", id="an absolute path"),
    pytest.param("a//x", id="an empty name"),
    pytest.param("a/./x", id="a dot"),
    pytest.param("", id="no name"),
    pytest.param("a\0b", id="a zero byte"),
    pytest.param("a/" * 70 + "x", id="too many folders"),
]


@pytest.fixture
def folder(tmp_path):
    """The folder of a program, in one that only its owner may enter."""
    above = tmp_path / "above"
    above.mkdir(mode=0o700)
    (above / "own").mkdir(mode=0o700)
    (tmp_path / "victim").write_text("untouched")
    (tmp_path / "victims").mkdir(mode=0o700)
    return above / "own"


def unharmed(folder):
    top = folder.parent.parent
    assert sorted(each.name for each in top.iterdir()) == ["above", "victim", "victims"]
    assert [each.name for each in folder.parent.iterdir()] == ["own"]
    assert (top / "victim").read_text() == "untouched"
    assert list((top / "victims").iterdir()) == []
    return {S_IMODE(each.stat().st_mode) for each in (folder.parent, top / "victims")} == {0o700}


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_file_is_written_outside(folder, path):
    with pytest.raises(OSError, match="is no path below a folder"):
        record.sync_files(folder, {"good": b"x", path: b"x"}, (os.getuid(), os.getgid()))
    assert unharmed(folder)


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_data_folder_is_made_outside_and_no_mode_above_changes(folder, path):
    with pytest.raises(OSError, match="is no path below a folder"):
        record.make_data(folder, [path], (os.getuid(), os.getgid()))
    assert unharmed(folder)


def test_a_link_in_the_place_of_a_folder_of_files_is_replaced_and_not_followed(folder):
    (folder / FILES).mkdir()
    (folder / FILES / "etc").symlink_to(folder.parent.parent / "victims")
    record.sync_files(folder, {"etc/passwd": b"new"})
    assert (folder / FILES / "etc/passwd").read_bytes() == b"new"
    assert unharmed(folder)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(folder):
    (folder / FILES).mkdir()
    (folder / FILES / "a").symlink_to(folder.parent.parent / "victim")
    record.sync_files(folder, {"a": b"new"})
    assert ((folder / FILES / "a").read_bytes(), (folder / FILES / "a").is_symlink()) == (b"new", False)
    assert unharmed(folder)


@pytest.mark.parametrize("place", [FILES, "volumes", DATA])
def test_a_link_in_the_place_of_a_folder_of_ours_is_refused(folder, place):
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).symlink_to(folder.parent.parent / "victims")
    owner = (os.getuid(), os.getgid())
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        record.sync_files(folder, {"a": b"x"}) if place == FILES else record.make_data(folder, [DATA], owner)
    assert unharmed(folder)


def test_output_that_is_a_link_is_neither_shown_nor_emptied(folder):
    victim = folder.parent.parent / "victim"
    victim.write_bytes(b"secret\n" + b"x" * record.LARGEST_OUTPUT)
    (folder / record.OUTPUT).symlink_to(victim)
    assert record.last_lines(folder) == []
    with pytest.raises(OSError, match="Too many levels"):
        record.rotate_output(folder)
    assert victim.stat().st_size > record.LARGEST_OUTPUT


def test_a_file_and_a_folder_change_places(folder):
    record.sync_files(folder, {"a/b": b"1", "c": b"2"})
    record.sync_files(folder, {"a": b"3", "c/d": b"4"})
    root = folder / FILES
    assert {each.relative_to(root).as_posix() for each in root.rglob("*")} == {"a", "c", "c/d"}
    with pytest.raises(record.Escapes, match="is below a file"):
        record.sync_files(folder, {"a": b"3", "a/b": b"4"})


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_data_is_handed_over_but_not_what_has_another_owner_or_another_name(folder):
    record.make_data(folder, ["volumes/data"], (1001, 1001))
    data, victim = folder / "volumes/data", folder.parent.parent / "victim"
    (data / "wal").mkdir()
    (data / "wal/0").write_text("x")
    for path in (data / "wal", data / "wal/0"):
        os.chown(path, 1001, 1001)
    os.chown(victim, 1001, 1001)
    os.link(victim, data / "hard")
    (data / "soft").symlink_to(victim)
    (data / "ours").write_text("x")
    record.make_data(folder, ["volumes/data"], (2002, 2002))
    owners = {each.name: each.lstat().st_uid for each in (data, *data.rglob("*"))}
    assert owners == {"data": 2002, "wal": 2002, "0": 2002, "hard": 1001, "soft": 0, "ours": 0}
    assert unharmed(folder)
