"""Commands set up the log of their process; here the process is everybody's."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()
