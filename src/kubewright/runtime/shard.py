"""A shard: the part of the objects that one of several processes works on. Pure.

Theory.      Several processes divide the objects of a world by a hash of their uids. A uid never changes, so
             an object stays in its shard for as long as it lives, even when it gets another owner. Each shard
             has a Lease of its own, under which its replicas elect a leader. The Lease that excludes MCM, and
             a process without shards, is held by all shards together (``leader``). Its holder is named after
             their number: so processes that count differently exclude each other, and a change of the number
             is a change of the holder.
             What must be decided about several objects together, which may be in different shards, is decided
             by all shards in turn: in each minute by one, and by none while clocks and caches may disagree.
Invariants.  Of the shards of one number exactly one has an object. No two have the turn of the same objects
             at one moment, while their clocks differ by less than ``APART``.
Called by    ``compose.assembly`` (who has which object and which Lease), ``machines.machine.look`` (turns),
             ``object_metrics``, ``world``, and ``cli``, which reads ``--shard``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from zlib import crc32

from kubewright.base.errors import InvalidInput

MOST = 64
"""Shards: each is a process with caches of all objects, and has a Lease to renew."""

TURN = timedelta(minutes=1)
"""From the begin of one shard's turn to that of the next one's. A shard decides from ``APART`` after the
begin of its turn until ``APART`` before its end."""

APART = timedelta(seconds=10)
"""By how much the clocks of two processes, or what they have seen, may differ."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Number ``index`` of ``count``, from 0. The only one of 1 has everything."""

    index: int = 0
    count: int = 1

    @classmethod
    def parsed(cls, text: str) -> "Shard":
        """A shard as users write it: ``0/3``.

        Raises:
            InvalidInput: not two numbers, or numbers of which none is a shard; the message says what is.
        """
        index, slash, count = text.partition("/")
        if not (slash and _is_number(index) and _is_number(count)):
            raise InvalidInput(f"--shard {text!r}: it must be INDEX/COUNT, such as 0/3")
        found = cls(int(index), int(count))
        if not 1 <= found.count <= MOST:
            raise InvalidInput(f"--shard {text!r}: COUNT must be between 1 and {MOST}")
        if found.index >= found.count:
            raise InvalidInput(
                f"--shard {text!r}: the last of {found.count} is {found.count - 1}/{found.count}"
            )
        return found

    @property
    def whole(self) -> bool:
        """Whether it has everything."""
        return self.count == 1

    @property
    def shared_identity(self) -> str:
        """What all shards of this number are as the holder of one Lease."""
        return f"kubewright-{self.count}-shards"

    def lease(self, name: str) -> str:
        """This shard's own Lease beside the one with this name."""
        return f"{name}-{self.index}-of-{self.count}"

    def has(self, uid: str) -> bool:
        """Whether an object with this uid is in this shard."""
        return self.whole or crc32(uid.encode()) % self.count == self.index

    def until_turn(self, what: str, now: datetime) -> timedelta:
        """In what time this shard may decide about objects for which other shards decide, too; zero: now.
        ``what`` names all of them together."""
        if self.whole:
            return timedelta()
        into = timedelta(seconds=now.timestamp() % TURN.total_seconds())
        turns = (
            self.index - int((now - into).timestamp() // TURN.total_seconds()) - crc32(what.encode())
        ) % self.count
        if turns == 0 and into < TURN - APART:
            return max(timedelta(), APART - into)
        return (turns or self.count) * TURN - into + APART


WHOLE = Shard()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
