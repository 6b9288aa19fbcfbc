"""The requests of a pass: many of one kind at once, within bounds, and the errors that they end with.

Theory.      An effect returns None, or the error that it ended with. ``slow_start`` doubles its
             batches from one while all is well and ends with the first batch that had an error:
             five hundred machines that a quota forbids cost one refused request, not five hundred.
Invariants.  No effect outlives the call. A cancelled call cancels its effects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from kubewright.api.kinds import Kind
from kubewright.api.meta import Object
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.replicas.doubts import Stale
from kubewright.replicas.ownership import key_of
from kubewright.wire.errors import NotFound, is_stale

T = TypeVar("T")
MAX_IN_FLIGHT = 32
"""Most requests of one pass in flight."""

Effect = Callable[[T], Awaitable[KubewrightError | None]]


async def may_adopt(client: Client, kind: Kind[Any], owner: Object) -> bool:
    """Ask the server: an owner that is gone or is being deleted adopts nothing.

    Raises:
        ApiError, TransportError: the server did not say whether there is one.
    """
    try:
        live = await client.get(kind, key_of(owner))
    except NotFound as error:
        if not error.names(owner.metadata.name):
            raise
        return False
    return live.metadata.uid == owner.metadata.uid and not live.metadata.deleting


async def error_of(call: Awaitable[Any]) -> KubewrightError | None:
    """The error that a call ends with; None when it worked."""
    try:
        await call
    except KubewrightError as error:
        return error
    return None


def stale_or(error: KubewrightError | None, what: str) -> KubewrightError | None:
    """The error of a write; ``Stale``, which names ``what``, where it only says that the cache is behind."""
    if error is not None and is_stale(error):
        return Stale(f"{what} is no longer the one that was seen")
    return error


async def slow_start(items: Sequence[T], effect: Effect[T]) -> list[KubewrightError]:
    """Batches of 1, 2, 4, 8 … with at most ``MAX_IN_FLIGHT`` in flight; the errors of the last batch."""
    done, size = 0, 1
    while done < len(items):
        if errors := await run_parallel(items[done : done + size], effect):
            return errors
        done, size = done + size, size * 2
    return []


async def run_parallel(items: Sequence[T], effect: Effect[T]) -> list[KubewrightError]:
    """All items, at most ``MAX_IN_FLIGHT`` in flight; the errors in the order of the items."""
    if len(items) == 1:  # the usual case: without a task of its own
        error = await effect(items[0])
        return [error] if error is not None else []
    found: list[KubewrightError | None] = [None] * len(items)
    todo = iter(enumerate(items))

    async def work() -> None:
        for number, item in todo:
            found[number] = await effect(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(MAX_IN_FLIGHT, len(items))):
            group.create_task(work())
    return [error for error in found if error is not None]
