"""The watch stream: bytes to lines to events, whatever the chunks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.wire import watch
from kubewright.wire.watch import Event, Lines, Malformed


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.integers(1, 7))
def test_lines_do_not_depend_on_chunks(lines: list[bytes], size: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found = Lines(), []
    for at in range(0, len(stream), size):
        found += splitter.feed(stream[at : at + size])
    assert found == [line for line in lines if line.strip()]
    assert splitter.pending == 0


def test_a_cut_line_is_pending() -> None:
    splitter = Lines()
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert splitter.pending == 4


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 11 + b"\n"]], ids=str)
def test_a_line_without_end_is_refused(chunks: list[bytes]) -> None:
    splitter = Lines(limit=10)
    *first, last = chunks
    for chunk in first:
        splitter.feed(chunk)
    with pytest.raises(Malformed):
        splitter.feed(last)


def test_an_event_comes_back_as_it_was_written() -> None:
    data = json.dumps({"kind": "Pod", "metadata": {"name": "p"}}).encode()
    line = watch.encode(watch.MODIFIED, data)
    assert line.endswith(b"}\n")
    assert watch.decode(line.strip()) == Event("MODIFIED", data)


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"<html>", b'{"type":"ADDED"}', b'{"type":1,"object":{}}', b"[]"]
)
def test_what_is_no_event_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        watch.decode(line)
