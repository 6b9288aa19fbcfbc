"""Puts new data, which etcdutl has made from a snapshot, in the place of the data of one etcd member.

Theory.      ``etcdutl`` makes new data for each member from the one file: together they are a new cluster
             with the content of the snapshot. The new data is made beside the former and gets a mark. Two
             renames put it in the place of the former data, so a call that was interrupted is completed by
             the next one with the same mark.
Invariants.  Nothing is deleted. The new data, and the names of its files, are on disk before it takes the
             place of the former.
Called by    ``processes.restoring``; ``pods.restoring``, in a pod.
"""

import os
from pathlib import Path

from kubewright.base.errors import KubewrightError

MARK = "restored"
"""The file in restored data that contains the mark."""


class NotReplaced(KubewrightError):
    """The data could not be replaced; the message says why."""


def mark_of(data: Path) -> str:
    """The mark of restored data; empty for other data, or none."""
    try:
        return (data / MARK).read_text()
    except OSError:
        return ""


def put(new: Path, data: Path, former: Path, mark: str, user: tuple[int, int] | None = None) -> None:
    """Put new data in the place of ``data``, which becomes ``former``. ``user``: uid and gid of its owner.

    Raises:
        NotReplaced: there is former data of this mark already, and other data in its place.
        OSError: the disk or our rights do not let us.
    """
    (new / MARK).write_text(mark)
    for path in (new, *new.rglob("*")):
        if user is not None:
            os.chown(path, *user, follow_symlinks=False)
        if path.is_file() or path.is_dir():
            _synced(path)
    data.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if data.exists():
        if former.exists():
            raise NotReplaced(f"beside {data.name} there is {former.name} already: move one of them away")
        data.rename(former)
    new.rename(data)
    _synced(data.parent)


def _synced(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
