"""What tests of commands share: a command of this process sets the log, and none of it is left for others."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()
