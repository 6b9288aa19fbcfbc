"""Where the embedded server listens, and by which names it is known. Pure.

Theory.      Without a word it listens on loopback, for programs of this machine. A user who wants others to
             reach it names an address of this machine, and the names by which others know that. From both
             follow the certificate's names, the address in the kubeconfig, which has to work here, and the
             one that machines which join are told, which has to work there.
Invariants.  Whatever it listens on, who may do what is the same. A name in a certificate is one that DNS or
             IP has a form for, so that no client fails over one that it cannot read.
Called by    ``listener``, ``pki``; ``compose`` and ``cli`` make these values of a user's words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from kubewright.base.errors import InvalidInput
from kubewright.wire import naming

LOOPBACK = "127.0.0.1"
LONGEST = 253
"""Characters of a host name."""
MOST_NAMES = 64
"""Names in one certificate: each handshake sends all of them."""
ANY = "*."
"""How a name begins that stands for all names of a domain: good in a certificate, and no place to go to."""
MOST_TOLD = 80
"""Characters of a wrong value in a message."""


@dataclass(frozen=True, slots=True)
class Reach:
    """``address`` is what the server listens on; ``names`` are those by which others know it, in order."""

    address: str = LOOPBACK
    names: tuple[str, ...] = ()

    @property
    def certified(self) -> tuple[str, ...]:
        """What the certificate has to name beside the names that it always has."""
        own = () if self._parsed.is_unspecified else (str(self._parsed),)
        return tuple(dict.fromkeys((*own, *self.names)))

    @property
    def local(self) -> str:
        """Where programs of this machine find the server: as a part of a URL."""
        if self._parsed.is_unspecified:
            return LOOPBACK if self._parsed.version == 4 else "[::1]"
        return in_url(str(self._parsed))

    @property
    def others(self) -> str:
        """Where other machines find the server, as a part of a URL; empty: nothing says that they can."""
        if named := next((each for each in self.names if not each.startswith(ANY)), ""):
            return in_url(named)
        return "" if self._parsed.is_loopback or self._parsed.is_unspecified else self.local

    @property
    def family_of_six(self) -> bool:
        """Whether the address is one of IPv6."""
        return self._parsed.version == 6

    @property
    def _parsed(self) -> IPv4Address | IPv6Address:
        return ip_address(self.address)


def reach(address: str, names: Iterable[str]) -> Reach:
    """The value of a user's words.

    Raises:
        InvalidInput: the address is none, a name cannot stand in a certificate, or no name says how others
            reach a server that listens on all addresses.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        raise InvalidInput(
            f"--address {address[:MOST_TOLD]!r} is no IP address; listen on one of this machine, or on "
            "0.0.0.0 for all of them, and add names with --tls-san"
        ) from None
    if isinstance(parsed, IPv6Address) and parsed.scope_id is not None:
        raise InvalidInput(f"--address {address}: an address with a zone cannot stand in a certificate")
    known = tuple(dict.fromkeys(_name(each) for each in names))
    if len(known) > MOST_NAMES:
        raise InvalidInput(
            f"--tls-san: {len(known)} names are more than the {MOST_NAMES} of a certificate here"
        )
    made = Reach(str(parsed), known)
    if parsed.is_unspecified and not made.others:
        raise InvalidInput(
            f"--address {parsed} says no name by which others reach this machine; add one with --tls-san"
        )
    return made


def in_url(host: str) -> str:
    """A name or an address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


def _name(text: str) -> str:
    """A name in the form in which clients compare it."""
    try:
        parsed = ip_address(text)
    except ValueError:
        lower = text.rstrip(".").lower()
        labels = lower.removeprefix(ANY).split(".")
        if any(naming.dns_label(each) for each in labels) or len(lower) > LONGEST or labels[-1].isdigit():
            told = (
                "write it as DNS has it (xn--...)" if not text.isascii() else "no host name and no IP address"
            )
            raise InvalidInput(f"--tls-san {text[:MOST_TOLD]!r}: {told}") from None
        return lower
    if (isinstance(parsed, IPv6Address) and parsed.scope_id is not None) or parsed.is_unspecified:
        raise InvalidInput(f"--tls-san {text}: no certificate can be for this address")
    return str(parsed)
