"""Sessions log what goes wrong, and here much does: keep the log out of the report."""

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def silent_log():
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
