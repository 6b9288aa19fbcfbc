"""Which namespaces a program works in: all, some by name, or those whose names begin alike. Pure.

Theory.      What is not ours is best never sent. One name is a watch of that namespace; several are a watch
             of each, so rights in these namespaces suffice; all but some is one watch of everything, from
             which the server leaves the excluded ones out. Only for words like ``team-*`` the server has no
             selector: there is one watch of everything, and what comes from elsewhere is not kept.
             Namespaces may come and go: words stand for those that will be, too.
Invariants.  Objects without a namespace (Nodes, CRDs) are in every choice.
Source       S0-50; capi.md §14-W11.
Called by    ``scope``, ``informers``; ``compose`` and ``cli`` make the values.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from kubewright.base.errors import InvalidInput
from kubewright.wire.naming import dns_label

ANY = "*"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """``wanted`` empty means all; a word is a name, or a beginning of names with ``*`` after it."""

    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, wanted: str, excluded: str = "") -> Self:
        """Of comma-separated words, as a user types them.

        Raises:
            InvalidInput: a word is no name and no beginning of one, or nothing is left.
        """
        all_wanted, without = _words(wanted), _words(excluded)
        found = cls(() if ANY in all_wanted else all_wanted, without)
        if ANY in without or (found.wanted and all(_in(each, without) for each in found.wanted)):
            raise InvalidInput(f"no namespace is left of {wanted or 'all'!r} without {excluded!r}")
        return found

    def __contains__(self, namespace: str) -> bool:
        """Whether this namespace is one of them."""
        if not namespace:
            return True
        return (not self.wanted or _in(namespace, self.wanted)) and not _in(namespace, self.excluded)

    @property
    def named(self) -> tuple[str, ...]:
        """Their names, where words tell them all; empty where they do not."""
        if any(each.endswith(ANY) for each in self.wanted):
            return ()
        return tuple(each for each in self.wanted if each in self)

    @property
    def unwanted(self) -> tuple[str, ...]:
        """The names that a server can leave out."""
        return tuple(each for each in self.excluded if not each.endswith(ANY))

    def __str__(self) -> str:
        shown = ",".join(self.wanted) or "all"
        return f"{shown} but {','.join(self.excluded)}" if self.excluded else shown


EVERYWHERE = Namespaces()


def _in(name: str, words: Iterable[str]) -> bool:
    """Whether a name, or all that a word stands for, is among what the words stand for."""
    return any(name.startswith(each[:-1]) if each.endswith(ANY) else name == each for each in words)


def _words(typed: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in typed.split(",") if each.strip()))
    for each in found:
        name = each.removesuffix(ANY)
        troubles = dns_label(name.rstrip("-") if each.endswith(ANY) else name) if each != ANY else ()
        if troubles:
            raise InvalidInput(f"namespace {each!r}: {troubles[0]}")
    return found
