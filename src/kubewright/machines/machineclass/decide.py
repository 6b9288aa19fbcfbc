"""Decide whether a class or secret must hold our finalizer. Pure."""

from collections.abc import Sequence


def finalizers(present: Sequence[str], ours: str, *, used: bool, deleting: bool) -> list[str] | None:
    """The finalizers that should stand, or None when they do.

    An object that is already being deleted takes no new finalizers; one without users lets go
    only then, so that a class that is used now and then is not written each time.
    """
    if used and not deleting and ours not in present:
        return [*present, ours]
    if not used and deleting and ours in present:
        return [item for item in present if item != ours]
    return None
