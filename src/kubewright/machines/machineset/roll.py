"""The machines of one owner, in the order of their names: the same world always looks the same.

Called by    ``members.Census``, which keeps one for each set.
"""

from bisect import bisect_left
from typing import Generic, Protocol, TypeVar

from kubewright.wire.gvk import Key


class Kept(Protocol):
    """What stands somewhere."""

    @property
    def key(self) -> Key:
        """Where."""


T = TypeVar("T", bound=Kept)


class Roll(Generic[T]):
    """A line that is kept in order; a change costs the same for ten machines and for ten thousand."""

    def __init__(self) -> None:
        self.line: list[T] = []

    def put(self, member: T) -> None:
        """Add it, or take it in the place of an older version."""
        at = bisect_left(self.line, _place(member), key=_place)
        if at < len(self.line) and self.line[at].key == member.key:
            self.line[at] = member
        else:
            self.line.insert(at, member)

    def drop(self, member: T) -> None:
        """Strike it off."""
        del self.line[bisect_left(self.line, _place(member), key=_place)]

    def has(self, name: str) -> bool:
        """Whether one of this name is in it."""
        at = bisect_left(self.line, (name, ""), key=_place)
        return at < len(self.line) and self.line[at].key.name == name


def _place(member: Kept) -> tuple[str, str]:
    return member.key.name, member.key.namespace
