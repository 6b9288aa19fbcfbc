"""What unit tests share: virtual time that jumps at once."""

import pytest
from pytest_asyncio import is_async_test

ROUNDS = 1
"""How often a loop with nothing to do looks for I/O before its time jumps. Unit tests have none to wait for, and
looptime's 42 are a fifth of their seconds."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if is_async_test(item):
        item.add_marker(pytest.mark.looptime(noop_cycles=ROUNDS))
