"""What a driver may say when it fails: the codes of the machine error vocabulary.

Theory.      A driver raises one of these, and this file says what comes of it: ``MEANINGS`` what a code
             says, ``PAUSES`` when a call that failed so is repeated. Nothing else compares codes to find a
             delay; a few places ask for one of them, such as ``OutOfRange`` (several VMs of one machine).
             The text form ``machine codes error: code = [..] message = [..]`` exists because it ends up in
             ``lastOperation.description``, which cluster-autoscaler and Gardener read (CAL-07).
Source       CAL-01 to CAL-07, PRO-22.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, IntEnum
from typing import ClassVar

from kubewright.base.delays import LONG, MEDIUM, SHORT
from kubewright.base.errors import After, KubewrightError, Retry


class Code(IntEnum):
    """The numbers and names of MCM's error codes.

    ``OutOfRange`` is what a driver raises that finds several VMs of one machine: then the VMs of its class
    are listed, and the second one is collected.
    """

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
    """``nothing_done``: the cloud has done nothing. Any other failed creation may have left a VM."""

    trouble: Trouble
    nothing_done: bool


MEANINGS: Mapping[Code, Meaning] = {
    Code.OK: Meaning(Trouble.PERSISTENT, nothing_done=False),
    Code.Canceled: Meaning(Trouble.PERSISTENT, nothing_done=False),
    Code.Unknown: Meaning(Trouble.TRANSIENT, nothing_done=False),
    Code.InvalidArgument: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.DeadlineExceeded: Meaning(Trouble.TRANSIENT, nothing_done=False),
    Code.NotFound: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.AlreadyExists: Meaning(Trouble.PERSISTENT, nothing_done=False),
    Code.PermissionDenied: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.ResourceExhausted: Meaning(Trouble.EXHAUSTED, nothing_done=True),
    Code.FailedPrecondition: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.Aborted: Meaning(Trouble.TRANSIENT, nothing_done=False),
    Code.OutOfRange: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.Unimplemented: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.Internal: Meaning(Trouble.PERSISTENT, nothing_done=False),
    Code.Unavailable: Meaning(Trouble.TRANSIENT, nothing_done=False),
    Code.DataLoss: Meaning(Trouble.PERSISTENT, nothing_done=False),
    Code.Unauthenticated: Meaning(Trouble.PERSISTENT, nothing_done=True),
    Code.Uninitialized: Meaning(Trouble.PERSISTENT, nothing_done=False),
}


REFUSALS = frozenset(
    (
        Code.InvalidArgument,
        Code.PermissionDenied,
        Code.FailedPrecondition,
        Code.Unimplemented,
        Code.Unauthenticated,
    )
)
"""What a driver says that will do nothing for this class until a user changes it, its secrets or the cloud.
``OutOfRange`` is none of them: it says that there are VMs, too many."""

TELLING = frozenset((Code.AlreadyExists, Code.OutOfRange, Code.Uninitialized))
"""What a driver says that has found a VM."""

BROKEN = Meaning(Trouble.BROKEN, nothing_done=False)
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

    UPDATING = "updating"
    """A VM that runs: it goes on as it is."""


_AFTER_A_LOOK: Mapping[Trouble, After] = {
    Trouble.TRANSIENT: SHORT,
    Trouble.EXHAUSTED: MEDIUM,
    Trouble.PERSISTENT: MEDIUM,
    Trouble.BROKEN: LONG,
}

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
    During.LOOKING: _AFTER_A_LOOK,
    During.UPDATING: _AFTER_A_LOOK,
    During.DELETING: {
        Trouble.TRANSIENT: SHORT,
        Trouble.EXHAUSTED: LONG,
        Trouble.PERSISTENT: LONG,
        Trouble.BROKEN: LONG,
    },
}
"""How long to wait before a failed call is repeated; None: as the operator says, LONG by default."""


_NOT_BY_ITSELF = frozenset(
    (
        Code.Canceled,
        Code.InvalidArgument,
        Code.PermissionDenied,
        Code.FailedPrecondition,
        Code.Unimplemented,
        Code.Internal,
        Code.Unauthenticated,
    )
)
FINAL: Mapping[During, frozenset[Code]] = {
    During.CREATING: _NOT_BY_ITSELF | {Code.AlreadyExists, Code.ResourceExhausted, Code.OutOfRange},
    During.COMPLETING: frozenset((Code.NotFound, Code.Unimplemented)),
    During.LOOKING: _NOT_BY_ITSELF | {Code.NotFound, Code.Uninitialized},
    During.DELETING: _NOT_BY_ITSELF,
}
"""The codes whose "Auto Retry" is N in the tables of the contract (PRO-22): such a call is to be repeated
after a change only. Operators choose between that and ``PAUSES``."""


class DriverError(KubewrightError):
    """A driver call failed with ``code``; ``message`` is what the cloud says of it.

    ``last_known_state`` is what the driver wants to be told with its next call; empty: nothing new.
    ``broken``: the driver did not raise this; the guard says so of one that does not keep the contract.
    ``begun``: False of a call that the guard did not even begin.
    ``retry`` is how a controller comes back that lets the error end its pass: as after a look, since what the
    call was for is not known here. Callers that know it ask for the ``pause``.
    """

    code: Code = Code.Unknown
    _classes: ClassVar[dict[Code, type["DriverError"]]] = {}

    def __init_subclass__(cls) -> None:
        if cls.__module__ == __name__:  # a driver's own classes stand for no code elsewhere
            DriverError._classes[cls.code] = cls

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,
        last_known_state: str = "",
        broken: bool = False,
        begun: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.last_known_state = last_known_state
        self.broken = broken
        self.begun = begun
        self.code = type(self).code if code is None else code
        self.retry: Retry = _AFTER_A_LOOK[self.meaning.trouble]

    def __str__(self) -> str:
        return f"machine codes error: code = [{self.code.name}] message = [{self.message}]"

    @property
    def meaning(self) -> Meaning:
        """What its code says; a driver that is broken says nothing by it, and one that was not called has
        done nothing."""
        if self.broken:
            return BROKEN
        return MEANINGS[self.code] if self.begun else replace(MEANINGS[self.code], nothing_done=True)

    @property
    def refuses(self) -> bool:
        """Nothing was done, and nothing will be until a user changes what the driver is told."""
        return self.begun and not self.broken and self.code in REFUSALS

    @property
    def lasts(self) -> bool:
        """The same call is likely to fail until a user has changed something. An error that says that there
        is a VM (``TELLING``) is an answer."""
        return self.meaning.trouble in (Trouble.PERSISTENT, Trouble.BROKEN) and self.code not in TELLING

    def is_final(self, during: During) -> bool:
        """By the tables of the contract the call is not repeated by itself. What the guard says in the
        driver's place is in no table."""
        return self.begun and not self.broken and self.code in FINAL[during]

    def pause(self, during: During, exhausted: timedelta = LONG.pause) -> timedelta:
        """How long to wait before the call is repeated. ``exhausted``: after a creation for which the cloud
        has no capacity."""
        after = PAUSES[during][self.meaning.trouble]
        return after.pause if after is not None else exhausted

    @staticmethod
    def of(
        code: Code, message: str, *, last_known_state: str = "", broken: bool = False, begun: bool = True
    ) -> "DriverError":
        """The most specific error class for a code; the plain one if the driver is ``broken``, or was not
        called."""
        if broken or not begun:
            return DriverError(
                message, code=code, last_known_state=last_known_state, broken=broken, begun=begun
            )
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
