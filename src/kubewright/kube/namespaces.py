"""Which namespaces a program works in: all, some by name, or those whose names match a pattern. Pure.

Theory.      A server should not send what the program does not work on. For one name the program watches
             that namespace; for several each of them, so roles in these namespaces suffice; for all but some
             it watches everything, and a field selector leaves the excluded ones out. For a pattern such as
             ``team-*`` a server has no selector: the program watches everything, and caches keep only what
             matches. A name or a pattern is also for namespaces that are created later.
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
    """Names, and patterns: a prefix with ``*`` after it. ``wanted`` empty means all namespaces."""

    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, wanted: str, excluded: str = "") -> Self:
        """Of comma-separated names and patterns, as a user types them.

        Raises:
            InvalidInput: one of them is neither, or no namespace is left.
        """
        all_wanted, without = _patterns(wanted), _patterns(excluded)
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
        """The names, if no pattern is among them; else empty: a pattern does not tell them."""
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


def _in(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name, or each name that a pattern matches, is matched by one of ``patterns``."""
    return any(name.startswith(each[:-1]) if each.endswith(ANY) else name == each for each in patterns)


def _patterns(typed: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in typed.split(",") if each.strip()))
    for each in found:
        name = each.removesuffix(ANY)
        troubles = dns_label(name.rstrip("-") if each.endswith(ANY) else name) if each != ANY else ()
        if troubles:
            raise InvalidInput(f"namespace {each!r}: {troubles[0]}")
    return found
