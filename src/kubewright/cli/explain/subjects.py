"""Kinds that can be explained, and how users name them: ``mcd``, ``machine.cluster.x-k8s.io``. Pure.

Theory.      They are the kinds of the program's worlds, and Node. Two APIs have a kind Machine; ``machine``
             without a group means both, and each object of that name is explained.
Called by    ``command``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.base.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind, and the controllers that work on its objects, by their names."""

    kind: Kind[Any]
    controllers: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The kind with its group, as kubectl prints it."""
        resource = self.kind.resource
        return f"{resource.kind.lower()}.{resource.group}" if resource.group else resource.kind.lower()

    @property
    def words(self) -> frozenset[str]:
        """What a user may call it, in small letters."""
        resource = self.kind.resource
        names = (resource.kind.lower(), resource.plural, *resource.short_names)
        return frozenset((*names, *(f"{each}.{resource.group}" for each in names)))


def named(known: Sequence[Subject], text: str, name: str = "") -> tuple[Sequence[Subject], str]:
    """The kinds that a word may mean, and the name; ``text`` may hold both, as in ``machine/NAME``.

    Raises:
        InvalidInput: there is no such kind, or no name.
    """
    word, slash, after = text.partition("/")
    if slash and name:
        raise InvalidInput(f"{text!r} has a name already; leave {name!r} out")
    found = [each for each in known if word.lower() in each.words]
    if not found:
        there = ", ".join(sorted({each.kind.resource.kind.lower() for each in known}))
        raise InvalidInput(f"{word!r} is no kind that can be explained; there are: {there}")
    if not (after or name):
        raise InvalidInput(f"which {word}? Write {word} NAME")
    return found, after or name
