"""Decide whether a class or secret must hold our finalizer. Pure."""

from collections.abc import Sequence


def finalizers(
    present: Sequence[str], ours: str, *, used: bool, deleting: bool, lingers: bool
) -> list[str] | None:
    """The finalizers that should stand, or None when they do.

    An object that is already being deleted takes no new finalizers. One without users lets go at once,
    or, if it ``lingers``, only when it is being deleted.
    """
    if used and not deleting and ours not in present:
        return [*present, ours]
    if not used and (deleting or not lingers) and ours in present:
        return [item for item in present if item != ours]
    return None
