"""What the folder of a program keeps, and for whom."""

from stat import S_IMODE

import pytest

from kubewright.processes import record
from kubewright.processes.program import FILES
from kubewright.processes.record import Record

STARTED = Record(mark="m", fingerprint="f", boot="b")


def mode(path):
    return S_IMODE(path.stat().st_mode)


def test_a_record_is_read_as_it_was_written(tmp_path):
    folder = tmp_path / "a"
    record.write(folder, STARTED)
    assert record.read(folder) == STARTED
    assert (mode(folder), mode(folder / record.RECORD)) == (0o700, 0o600)
    record.forget(folder)
    assert record.read(folder) is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"mark": 1}'], ids=["empty", "cut off", "of other types"])
def test_a_record_that_cannot_be_read_is_none(tmp_path, content):
    (tmp_path / record.RECORD).write_bytes(content)
    assert record.read(tmp_path) is None


def test_the_files_are_those_that_are_named_and_no_others(tmp_path):
    record.sync_files(tmp_path, {"pki/ca.crt": b"old", "pki/ca.key": b"key"})
    record.sync_files(tmp_path, {"pki/ca.crt": b"new", "kubeconfig": b"k"})
    root = tmp_path / FILES
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == {
        "pki/ca.crt": b"new",
        "kubeconfig": b"k",
    }
    assert {mode(path) for path in found.values()} == {0o600}
    assert {mode(root), mode(root / "pki")} == {0o700}


def test_data_folders_are_made_once_for_their_owner_only(tmp_path):
    record.make_data(tmp_path, ["data/etcd"])
    (tmp_path / "data/etcd/wal").write_text("kept")
    record.make_data(tmp_path, ["data/etcd"])
    assert (tmp_path / "data/etcd/wal").read_text() == "kept"
    assert mode(tmp_path / "data/etcd") == 0o700


def test_folders_with_a_record_are_found_and_the_data_of_programs_not_searched(tmp_path):
    for name in ("default/demo/etcd-0", "default/demo/apiserver-0"):
        record.write(tmp_path / name, STARTED)
        (tmp_path / name / record.OUTPUT).touch()
    record.write(tmp_path / "default/demo/etcd-0/data/nested", STARTED)
    assert record.recorded(tmp_path) == ["default/demo/apiserver-0", "default/demo/etcd-0"]


def test_large_output_is_moved_aside_once(tmp_path):
    output, older = tmp_path / record.OUTPUT, tmp_path / f"{record.OUTPUT}.1"
    with output.open("ab", buffering=0) as writer:
        writer.write(b"x" * record.LARGEST_OUTPUT)
        record.rotate_output(tmp_path)
        assert not older.exists()
        writer.write(b"y")
        record.rotate_output(tmp_path)
        writer.write(b"z")
    assert (older.stat().st_size, mode(older)) == (record.LARGEST_OUTPUT + 1, 0o600)
    assert output.read_bytes() == b"z"


def test_the_last_lines_of_output(tmp_path):
    assert record.last_lines(tmp_path) == []
    (tmp_path / record.OUTPUT).write_text("\n".join(str(number) for number in range(100)))
    assert record.last_lines(tmp_path) == [str(number) for number in range(70, 100)]


def test_a_folder_above_data_keeps_its_mode(tmp_path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    (tmp_path / "a").chmod(0o755)
    record.make_data(tmp_path, ["a/b"])
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o755, 0o700]
