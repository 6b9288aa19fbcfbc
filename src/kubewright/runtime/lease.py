"""Who leads, and over which objects: a Lease as a value, and the shards of a world. Pure.

Leases.      Since when a Lease is unchanged, when a candidate may take it, and what that writes. The
             docstring of ``leader`` explains the election.
Shards.      Several processes divide the objects of a world by a hash of their uids. A uid never changes, so
             an object stays in its shard for as long as it lives, even when it gets another owner. Each shard
             has a Lease of its own, under which its replicas elect a leader. The Lease that excludes MCM, and
             a process without shards, is held by all shards together. Its holder is named after
             their number: so processes that count differently exclude each other, and a change of the number
             is a change of the holder.
             What must be decided about several objects together, which may be in different shards, is decided
             by all shards in turn: in each minute by one, and by none while clocks and caches may disagree.
Invariants.  Of the shards of one number exactly one has an object. No two have the turn of the same objects
             at one moment, while their clocks differ by less than ``APART``.
Called by    ``leader``; ``compose.assembly`` (who has which object and which Lease),
             ``machines.machine.look`` (turns), ``metrics``, ``world``, and ``cli``, which reads ``--shard``.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from zlib import crc32

from msgspec import structs

from kubewright.api.core import Lease, LeaseSpec
from kubewright.base.errors import InvalidInput

RELEASED_SECONDS = 1
"""``leaseDurationSeconds`` of a released Lease; client-go writes the same."""


RIVAL_SECONDS = 15.0
"""The shortest time after which a rival takes a Lease that is not renewed: client-go before 1.27 uses its own
flag ``--leader-elect-lease-duration``, with this default, and not the duration in the Lease."""

STOP_SECONDS = 1.0
"""How long a leader's last request may still be under way after the leader stopped sending."""

RENEW_SECONDS = 2.0
"""How long a renewal may take before the time is over for which the last one excludes all rivals."""

MOST = 64
"""Shards: each is a process with caches of all objects, and has a Lease to renew."""

TURN = timedelta(minutes=1)
"""From the begin of one shard's turn to that of the next one's. A shard decides from ``APART`` after the
begin of its turn until ``APART`` before its end."""

APART = timedelta(seconds=10)
"""By how much the clocks of two processes, or what they have seen, may differ."""


@dataclass(frozen=True, slots=True)
class Timings:
    """In seconds: the flags ``--leader-elect-lease-duration``, ``--leader-elect-renew-deadline`` and
    ``--leader-elect-retry-period``; the last is the pace of a candidate's attempts, and that
    of renewals where it is not too slow for them (``renew_period``).

    Raises:
        InvalidInput: the numbers leave a leader no time to stop.
    """

    lease_duration: float = 30.0
    renew_deadline: float = 20.0
    retry_period: float = 10.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period > 0:
            raise InvalidInput(
                "leader election needs lease duration > renew deadline > retry period > 0, not "
                f"{self.lease_duration:g} s, {self.renew_deadline:g} s and {self.retry_period:g} s"
            )

    @property
    def exclusive(self) -> float:
        """For how many seconds from the beginning of a renewal no other candidate can take the Lease."""
        return min(self.renew_deadline, RIVAL_SECONDS - STOP_SECONDS)

    @property
    def renew_period(self) -> float:
        """From the beginning of one renewal to that of the next. Never so long that the leader, which writes
        only while the Lease is ``exclusive``, must stop writing before each renewal."""
        return min(self.retry_period, RIVAL_SECONDS - STOP_SECONDS - RENEW_SECONDS)


@dataclass(frozen=True, slots=True)
class Seen:
    """The Lease as last read (None: there is none), and when, on our clock, it was first seen so.

    ``guard`` is how long the last holder may still believe in its term, in seconds.
    """

    lease: Lease | None
    since: float
    guard: float = 0.0

    @classmethod
    def first(cls, lease: Lease | None, now: float, me: str) -> "Seen":
        """The state after the first read, or after a read that shows a change."""
        if lease is None or lease.spec.holder_identity == me or _let_go(lease):
            return cls(lease, now)
        return cls(lease, now, float(lease.spec.lease_duration_seconds or 0))

    def then(self, lease: Lease | None, now: float, me: str) -> "Seen":
        """The state after the next read: an unchanged Lease keeps ``since``, a deleted one its ``guard``."""
        if lease is None:
            return self if self.lease is None else Seen(None, now, self.guard)
        if self.lease is not None and _version(self.lease) == _version(lease):
            return self
        return Seen.first(lease, now, me)

    @property
    def free_at(self) -> float:
        """The monotonic moment from which the Lease may be taken."""
        return self.since + self.guard

    @property
    def holder(self) -> str:
        return (self.lease.spec.holder_identity or "") if self.lease else ""


def _version(lease: Lease) -> tuple[str, str]:
    return lease.metadata.uid, lease.metadata.resource_version


def claimed(old: Lease | None, me: str, duration: float, now: datetime) -> LeaseSpec:
    """The spec by which ``me`` takes or renews the Lease. A renewal keeps ``acquireTime``."""
    before = old.spec if old is not None else LeaseSpec()
    renewal = before.holder_identity == me
    return structs.replace(
        before,
        holder_identity=me,
        lease_duration_seconds=ceil(duration),
        acquire_time=before.acquire_time if renewal else now,
        renew_time=now,
        lease_transitions=(before.lease_transitions or 0) + (0 if renewal or old is None else 1),
    )


def _let_go(lease: Lease) -> bool:
    """Whether the holder itself released it (``released``); a Lease that a user cleared is not released."""
    return not lease.spec.holder_identity and (lease.spec.lease_duration_seconds or 0) <= RELEASED_SECONDS


def released(old: Lease, now: datetime) -> LeaseSpec:
    """The spec by which the holder releases the Lease: without a holder."""
    return structs.replace(
        old.spec, holder_identity="", lease_duration_seconds=RELEASED_SECONDS, renew_time=now
    )


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
