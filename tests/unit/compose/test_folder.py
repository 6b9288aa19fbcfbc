"""What a data folder keeps about itself, and that its end is noticed."""

import asyncio
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.compose.folder import (
    LOOK_SECONDS,
    Address,
    FolderGone,
    Presence,
    recall,
    remember,
    snapshots_folder,
)
from kubewright.testing.clocks import LoopClock

SERVED = Address(4321, "https://127.0.0.1:4321", "/somewhere/kubeconfig", datetime(2030, 1, 1, tzinfo=UTC))


def test_an_address_is_kept_for_its_owner(tmp_path: Path) -> None:
    assert recall(tmp_path) is None
    remember(tmp_path, SERVED)
    assert recall(tmp_path) == SERVED
    assert (tmp_path / "up.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(b'{"port": 1', id="half a file"),
        pytest.param(b'{"port": "many"}', id="a file with other content"),
        pytest.param(
            b'{"port":0,"url":"","kubeconfig":"","since":"2030-01-01T00:00:00Z"}', id="a port out of range"
        ),
    ],
)
def test_a_damaged_address_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "up.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"up\.json is damaged .*; delete it, and `up` picks a new port"):
        recall(tmp_path)


@pytest.mark.parametrize(
    ("before", "stays"),
    [({}, ["of-a-user"]), ({"before": 1000.0}, ["kubewright-at-work", "of-a-user"])],
    ids=["the folder is this process's alone", "other processes have it too"],
)
def test_what_a_killed_process_left_among_snapshots_goes(tmp_path: Path, before, stays) -> None:
    folder = tmp_path / "snapshots"
    for name, modified in (("kubewright-left", 500), ("kubewright-at-work", 1500), ("of-a-user", 500)):
        (folder / name).mkdir(parents=True)
        (folder / name / "snapshot").touch()
        os.utime(folder / name, (modified, modified))
    assert sorted(each.name for each in snapshots_folder(folder, **before).iterdir()) == stays


def test_a_folder_of_snapshots_is_made_for_its_owner(tmp_path: Path) -> None:
    assert snapshots_folder(tmp_path / "new" / "snapshots").stat().st_mode & 0o777 == 0o700


async def gone_after(seconds: float, presence: Presence) -> FolderGone | None:
    try:
        async with asyncio.timeout(seconds):
            await presence.watch(LoopClock())
    except FolderGone as gone:
        return gone
    except TimeoutError:
        return None
    raise AssertionError("a watch ends by an error only")


async def test_a_file_that_stays_is_watched_in_peace(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("1")
    presence = Presence([tmp_path / "data", tmp_path / "never there"])
    (tmp_path / "data").write_text("2")
    (tmp_path / "never there").touch()
    assert await gone_after(1000, presence) is None


@pytest.mark.parametrize("way", ["delete", "delete the folder", "move the folder", "replace"])
async def test_a_file_that_goes_is_noticed_within_seconds(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data").touch()
    presence = Presence([folder / "data"])
    match way:
        case "delete":
            (folder / "data").unlink()
        case "delete the folder":
            shutil.rmtree(folder)
        case "move the folder":
            folder.rename(tmp_path / "elsewhere")
        case _:
            (folder / "new").touch()
            (folder / "new").replace(folder / "data")
    gone = await gone_after(2 * LOOK_SECONDS, presence)
    assert str(gone).startswith(f"{folder / 'data'} was deleted or moved away while it was in use")
