"""What a driver may say when it fails: the codes of the machine error vocabulary.

Theory.      A driver raises one of these; the machine controllers decide by class, never by
             text. The text form ``machine codes error: code = [..] message = [..]`` exists
             because it ends up in ``lastOperation.description``, which cluster-autoscaler and
             Gardener read (mcm.md §3.2); ``parse_error_text`` reads it back.
Tree.        DriverError  (code 2, Unknown)
             ├── retried soon (5 s)     Unknown, DeadlineExceeded, Aborted, Unavailable
             ├── retried late (10 min)  ResourceExhausted, on creation
             ├── NotFound, Unimplemented, Uninitialized   answers more than errors
             └── retried in 3 min       all others
Source       seed 004 "Machine Error Codes"; mcm.md §3.2-3.4.
"""

import re
from enum import IntEnum
from typing import ClassVar

from kubewright.base.errors import After, KubewrightError, Retry

SHORT, MEDIUM, LONG = After(5), After(180), After(600)
"""The retry classes of mcm.md §3.3."""


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


_SOON = frozenset((Code.Unknown, Code.DeadlineExceeded, Code.Aborted, Code.Unavailable))
_TEXT = re.compile(r"machine codes error: code = \[(\w+)\] message = \[(.*)\]", re.DOTALL)


class DriverError(KubewrightError):
    """A driver call failed with ``code``; ``message`` is the cloud's own word on it."""

    code: Code = Code.Unknown
    _classes: ClassVar[dict[Code, type["DriverError"]]] = {}

    def __init_subclass__(cls) -> None:
        DriverError._classes[cls.code] = cls

    def __init__(self, message: str, *, code: Code | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = type(self).code if code is None else code
        self.retry: Retry = SHORT if self.code in _SOON else MEDIUM

    def __str__(self) -> str:
        return f"machine codes error: code = [{self.code.name}] message = [{self.message}]"

    @staticmethod
    def of(code: Code, message: str) -> "DriverError":
        """The most specific error class for a code."""
        return DriverError._classes.get(code, DriverError)(message, code=code)


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
        self, message: str, *, code: Code | None = None, provider_id: str = "", node_name: str = ""
    ) -> None:
        super().__init__(message, code=code)
        self.provider_id = provider_id
        self.node_name = node_name


class Exhausted(DriverError):
    """The cloud has no capacity, or our quota is used up."""

    code = Code.ResourceExhausted


class InvalidArgument(DriverError):
    """The class or the machine asks for something that this driver cannot understand."""

    code = Code.InvalidArgument


def parse_error_text(text: str) -> DriverError | None:
    """Read the text form, also from the middle of a description; None when there is none in it.

    An unknown code name reads as Unknown. The message reaches to the last bracket, so it may have some.
    """
    if not (found := _TEXT.search(text)):
        return None
    code = Code.__members__.get(found[1], Code.Unknown)
    return DriverError.of(code, found[2])
