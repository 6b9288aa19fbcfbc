"""What a driver may say when it fails: the codes of the machine error vocabulary.

Theory.      A driver raises one of these, and this file says what comes of it: ``MEANINGS`` what a code
             says, ``PAUSES`` when a call that failed so is repeated. Nothing else compares codes to find
             a delay. The text form ``machine codes error: code = [..] message = [..]`` exists because it
             ends up in ``lastOperation.description``, which cluster-autoscaler and Gardener read
             (mcm.md §3.2).
Source       seed 004 "Machine Error Codes"; mcm.md §3.2-3.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, IntEnum
from typing import ClassVar

from kubewright.base.delays import LONG, MEDIUM, SHORT
from kubewright.base.errors import After, KubewrightError, Retry


class Code(IntEnum):
    """The numbers and names of the seed's error codes."""

    OK = 0
    Canceled = 1
    Unknown = 2
    InvalidArgument = 3
    DeadlineExceeded = 4
    NotFound = 5
    AlreadyExists = 6
    PermissionDenied = 7
    ResourceExhausted = 8
    FailedPrecondition = 9
    Aborted = 10
    OutOfRange = 11
    Unimplemented = 12
    Internal = 13
    Unavailable = 14
    DataLoss = 15
    Unauthenticated = 16
    Uninitialized = 17


class Trouble(Enum):
    """What a code says of the next try."""

    TRANSIENT = "transient"
    """The same call may succeed in a moment."""

    EXHAUSTED = "exhausted"
    """Capacity or quota is used up: the same creation may succeed in a while."""

    PERSISTENT = "persistent"
    """The same call is likely to fail until something has changed."""

    BROKEN = "broken"
    """The driver failed without a word of the vocabulary, or answered with what is none: a bug in it."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """``certain``: the cloud has done nothing. Any other failed creation may have left a VM."""

    trouble: Trouble
    certain: bool


MEANINGS: Mapping[Code, Meaning] = {
    Code.OK: Meaning(Trouble.PERSISTENT, certain=False),
    Code.Canceled: Meaning(Trouble.PERSISTENT, certain=False),
    Code.Unknown: Meaning(Trouble.TRANSIENT, certain=False),
    Code.InvalidArgument: Meaning(Trouble.PERSISTENT, certain=True),
    Code.DeadlineExceeded: Meaning(Trouble.TRANSIENT, certain=False),
    Code.NotFound: Meaning(Trouble.PERSISTENT, certain=True),
    Code.AlreadyExists: Meaning(Trouble.PERSISTENT, certain=False),
    Code.PermissionDenied: Meaning(Trouble.PERSISTENT, certain=True),
    Code.ResourceExhausted: Meaning(Trouble.EXHAUSTED, certain=True),
    Code.FailedPrecondition: Meaning(Trouble.PERSISTENT, certain=True),
    Code.Aborted: Meaning(Trouble.TRANSIENT, certain=False),
    Code.OutOfRange: Meaning(Trouble.PERSISTENT, certain=True),
    Code.Unimplemented: Meaning(Trouble.PERSISTENT, certain=True),
    Code.Internal: Meaning(Trouble.PERSISTENT, certain=False),
    Code.Unavailable: Meaning(Trouble.TRANSIENT, certain=False),
    Code.DataLoss: Meaning(Trouble.PERSISTENT, certain=False),
    Code.Unauthenticated: Meaning(Trouble.PERSISTENT, certain=True),
    Code.Uninitialized: Meaning(Trouble.PERSISTENT, certain=False),
}


BROKEN = Meaning(Trouble.BROKEN, certain=False)
"""Of errors that the guard made of what no driver should do (``DriverError.broken``), whatever their code."""


class During(Enum):
    """What a call was for that failed."""

    CREATING = "creating"
    """A VM that may not exist yet."""

    COMPLETING = "completing"
    """A VM that exists: quota and class, which are about its creation, do not matter any more."""

    LOOKING = "looking"
    """Whether there is a VM."""

    DELETING = "deleting"


PAUSES: Mapping[During, Mapping[Trouble, After | None]] = {
    During.CREATING: {
        Trouble.TRANSIENT: SHORT,
        Trouble.EXHAUSTED: None,
        Trouble.PERSISTENT: MEDIUM,
        Trouble.BROKEN: MEDIUM,
    },
    During.COMPLETING: {
        Trouble.TRANSIENT: SHORT,
        Trouble.EXHAUSTED: SHORT,
        Trouble.PERSISTENT: SHORT,
        Trouble.BROKEN: LONG,
    },
    During.LOOKING: {
        Trouble.TRANSIENT: SHORT,
        Trouble.EXHAUSTED: MEDIUM,
        Trouble.PERSISTENT: MEDIUM,
        Trouble.BROKEN: LONG,
    },
    During.DELETING: {
        Trouble.TRANSIENT: SHORT,
        Trouble.EXHAUSTED: LONG,
        Trouble.PERSISTENT: LONG,
        Trouble.BROKEN: LONG,
    },
}
"""How long to wait before a failed call is repeated; None: as the operator says, LONG by default."""


class DriverError(KubewrightError):
    """A driver call failed with ``code``; ``message`` is what the cloud says of it.

    ``last_known_state`` is what the driver wants to be told with its next call; empty: nothing new.
    ``broken``: the driver did not raise this; the guard says so of one that does not keep the contract.
    """

    code: Code = Code.Unknown
    _classes: ClassVar[dict[Code, type["DriverError"]]] = {}

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:  # a driver's own classes stand for no code elsewhere
            DriverError._classes[cls.code] = cls

    def __init__(
        self, message: str, *, code: Code | None = None, last_known_state: str = "", broken: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.last_known_state = last_known_state
        self.broken = broken
        self.code = type(self).code if code is None else code
        self.retry: Retry = PAUSES[During.LOOKING][self.meaning.trouble] or LONG

    def __str__(self) -> str:
        return f"machine codes error: code = [{self.code.name}] message = [{self.message}]"

    @property
    def meaning(self) -> Meaning:
        """What its code says; a driver that is broken says nothing by it."""
        return BROKEN if self.broken else MEANINGS[self.code]

    def pause(self, during: During, exhausted: timedelta = LONG.pause) -> timedelta:
        """How long to wait before the call is repeated. ``exhausted``: after a creation for which the cloud
        has no capacity."""
        after = PAUSES[during][self.meaning.trouble]
        return after.pause if after is not None else exhausted

    @staticmethod
    def of(code: Code, message: str, *, last_known_state: str = "", broken: bool = False) -> "DriverError":
        """The most specific error class for a code; the plain one if the driver is ``broken``."""
        if broken:
            return DriverError(message, code=code, last_known_state=last_known_state, broken=True)
        kind = DriverError._classes.get(code, DriverError)
        return kind(message, code=code, last_known_state=last_known_state)


class NotFound(DriverError):
    """There is no such VM. From ``delete`` it means: it is over."""

    code = Code.NotFound


class Unimplemented(DriverError):
    """This driver does not offer the optional call."""

    code = Code.Unimplemented


class Uninitialized(DriverError):
    """The VM exists but ``initialize`` has not finished; ``provider_id`` and ``node_name`` name it."""

    code = Code.Uninitialized

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,
        last_known_state: str = "",
        provider_id: str = "",
        node_name: str = "",
    ) -> None:
        super().__init__(message, code=code, last_known_state=last_known_state)
        self.provider_id = provider_id
        self.node_name = node_name


class Exhausted(DriverError):
    """The cloud has no capacity, or our quota is used up."""

    code = Code.ResourceExhausted


class InvalidArgument(DriverError):
    """The class or the machine asks for something that this driver cannot understand."""

    code = Code.InvalidArgument
