"""The watch stream as bytes: cutting it into lines, writing and reading its events.

Theory.      A watch is a body that never ends, one JSON document ``{"type", "object"}`` a line.
             An object inside an event stays bytes: the server has it as bytes, the client
             caches it as bytes, and neither decodes what it only passes on.
Invariants.  No I/O. A line longer than its bound is an error, never a growing buffer.
Called by    ``apiserver.http.resources`` (writes) and ``kube.reflector`` (reads).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kubewright.base.limits import EVENT_LINE_BYTES
from kubewright.wire import gojson

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation (value ``"true"``) of the bookmark that ends the initial events of a watch-list."""

_HEAD = {
    kind: f'{{"type":"{kind}","object":'.encode() for kind in (ADDED, MODIFIED, DELETED, BOOKMARK, ERROR)
}


class Malformed(ValueError):
    """The stream is malformed: a line is not JSON, has no envelope, or is too long."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``data`` is the object as the JSON bytes that came over the wire."""

    type: str
    data: bytes


class _Envelope(msgspec.Struct):
    type: str
    object: msgspec.Raw


_envelopes = msgspec.json.Decoder(_Envelope)


def encode(kind: str, data: bytes) -> bytes:
    """One line, newline included. ``data`` must be JSON without newlines."""
    return b"%b%b}\n" % (_HEAD[kind], data)


def pieces(kind: str, data: bytes, most: int) -> Iterator[bytes]:
    """The same line in pieces of about ``most`` bytes, each copied when it is asked for."""
    if len(data) <= most:
        yield encode(kind, data)
        return
    yield _HEAD[kind]
    for start in range(0, len(data), most):
        yield data[start : start + most]
    yield b"}\n"


def decode(line: bytes) -> Event:
    """Read one line.

    Raises:
        Malformed: it is not an event.
    """
    try:
        try:
            envelope = _envelopes.decode(line)
        except RecursionError:
            envelope = _envelopes.decode(gojson.shallow(line, gojson.LEVEL_OF_EVENT))
    except msgspec.DecodeError as error:
        raise Malformed(f"not a watch event: {error}") from None
    return Event(envelope.type, bytes(envelope.object))


class Lines:
    """Cuts chunks of any size into complete, non-empty lines."""

    def __init__(self, limit: int = EVENT_LINE_BYTES) -> None:
        self._limit = limit
        self._open: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes.

        Raises:
            Malformed: a line grows past the limit.
        """
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._open, whole[0]))
            self._open, self._size = [], 0
        self._open.append(rest)
        self._size += len(rest)
        if self._size > self._limit or any(len(line) > self._limit for line in whole):
            raise Malformed(f"a watch line is longer than {self._limit} bytes")
        return [line for line in whole if line.strip()]

    @property
    def pending(self) -> int:
        """Bytes of an incomplete line; more than zero at the end of a stream means that it was cut off."""
        return self._size
