"""What a group needs of its election, whether that is about one Lease or about several.

Theory.      A shard works only while it holds its own Lease, and all shards of its number hold the common one
             (``shard``). It stands for its own first: there the replicas of one shard wait for each other,
             and only the one that leads takes part in the common Lease.
Invariants.  A process that needs several Leases leads, and writes, only while it holds them all.
Called by    ``group``; ``compose.assembly`` makes them. ``leader`` has the election itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from kubewright.runtime.leader import Elector
from kubewright.wire.gvk import Key


class Candidate(Protocol):
    """Stands for a Lease, or for several that it needs; see ``Elector``, whose members these are."""

    @property
    def key(self) -> Key: ...
    @property
    def holder(self) -> str: ...
    @property
    def leading(self) -> bool: ...
    @property
    def entitled(self) -> bool: ...
    async def run(
        self, lead: Callable[[], Awaitable[None]], *, stands_by: Callable[[], None] = ...
    ) -> None: ...


class AllOf:
    """A candidate for several Leases, one after the other: it leads while it holds them all.

    It holds the first while it waits for the next. ``key`` and ``holder`` are of the Lease that it waits for;
    while it holds them all, of the last, which is the one that it has in common with other shards.
    """

    def __init__(self, electors: Sequence[Elector]) -> None:
        self._electors = electors

    @property
    def key(self) -> Key:
        """See the class."""
        return self._awaited.key

    @property
    def holder(self) -> str:
        """See the class."""
        return self._awaited.holder

    @property
    def leading(self) -> bool:
        """Whether it holds them all."""
        return all(each.leading for each in self._electors)

    @property
    def entitled(self) -> bool:
        """Whether no other process can have taken one of them yet."""
        return all(each.entitled for each in self._electors)

    async def run(
        self, lead: Callable[[], Awaitable[None]], *, stands_by: Callable[[], None] = lambda: None
    ) -> None:
        """As ``Elector.run``; when one Lease is lost, those before it are released."""
        for each in reversed(self._electors):
            lead = partial(each.run, lead, stands_by=stands_by)
        await lead()

    @property
    def _awaited(self) -> Elector:
        return next((each for each in self._electors if not each.leading), self._electors[-1])
