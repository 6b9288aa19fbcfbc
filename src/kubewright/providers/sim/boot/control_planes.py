"""The port to what runs control planes: an API server for each cluster that ``kubeadm init`` starts.

Theory.      A VM of this cloud runs nothing. Its control plane is an embedded API server, which a context
             must not know; so the program that has one passes it in, and here is only what a hollow machine
             needs of it: to start one, to find the one at an address, to ask whether it knows a token, and
             a client for its kubelets.
Invariants.  A control plane is known by its address (host:port), which is the one that kubeconfigs and
             joining machines name. ``find`` does not find one that does not serve. A *hosted* control plane
             is described by objects (NestedControlPlane): machines join it, but no machine starts, pauses or
             ends it.
Called by    ``boots``; ``compose.api_servers`` implements it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kubewright.kube.informer import Informers


def hosted_already(address: str) -> str:
    """Why a machine cannot be a control plane machine at this address, and what a user does."""
    told = f"the control plane at {address} is that of a NestedControlPlane"
    return f"{told}, which no machine is part of: let machines join it as workers"


@dataclass(frozen=True, slots=True)
class PlaneRequest:
    """A control plane to start. Its repr shows no key and no token.

    ``authority``, ``authority_key``  PEM of the cluster's own CA; empty: one is made
    ``names``   further names for the certificate of the API server
    ``tokens``  bootstrap tokens to create, ``id.secret``
    """

    address: str
    authority: bytes = field(default=b"", repr=False)
    authority_key: bytes = field(default=b"", repr=False)
    names: tuple[str, ...] = ()
    tokens: tuple[str, ...] = field(default=(), repr=False)


class ControlPlane(Protocol):
    """A control plane that serves."""

    @property
    def hosted(self) -> bool:
        """Whether it is a hosted control plane: no machine runs it."""
        ...

    @property
    def authority(self) -> bytes:
        """The certificate of its CA, PEM."""
        ...

    @property
    def informers(self) -> Informers:
        """A client, with the rights of kubelets at least, and its caches, which are kept current."""
        ...

    def accepts(self, token: str) -> bool:
        """Whether it knows this bootstrap token, for authentication, and it has not expired."""
        ...


class ControlPlanes(Protocol):
    """All control planes that the program runs. ``address`` is host:port."""

    def reserve(self, owner: str) -> str:
        """An address for the cluster of this owner; the same one for the same owner."""
        ...

    def release(self, owner: str) -> None:
        """The owner is gone: its address may be given to another."""
        ...

    async def begin(self, request: PlaneRequest) -> ControlPlane:
        """Start one, or answer the one that is there, whether it serves or not; then it serves.

        Raises:
            InvalidInput: the certificate cannot be read, the address cannot be listened at, or it is that of
                a hosted control plane.
        """
        ...

    def listen(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call ``changed`` with the address of a hosted control plane when it begins to serve, or ceases to;
        answers a function that ends this."""
        ...

    def served_by_process(self, address: str) -> bool:
        """Whether the API server at this address is another process, which only its socket reaches."""
        ...

    def find(self, address: str) -> ControlPlane | None:
        """The one that serves at this address."""
        ...

    async def pause(self, address: str) -> None:
        """None of its machines runs: it does not serve until ``begin``, and keeps what it has."""
        ...

    async def end(self, address: str) -> None:
        """None of its machines exists any more: it ends, and what it has is gone."""
        ...
