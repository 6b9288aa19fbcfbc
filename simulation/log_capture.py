"""Captures the product's log during a run: errors are kept, plans go into the trace, all else is dropped.

Called by    ``run``, around a whole run. Sets structlog's configuration and puts it back.
"""

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from logging import DEBUG, ERROR
from typing import Any

import structlog

from simulation.journal import Journal

WAITS = "waits"
"""What the trace says of a plan without steps."""


@contextmanager
def captured_logs(journal: Journal, *, plans: bool) -> Iterator[list[str]]:
    """Collect the log lines that tell of a defect; with ``plans`` put each decision into the trace."""
    errors: list[str] = []
    before = structlog.get_config()

    def capture(_logger: Any, level: str, event: MutableMapping[str, Any]) -> str:
        if plans:
            journal.logged(repr(event))
        if level in ("error", "exception", "critical"):
            errors.append(_defect(event))
        elif event.get("event") == "plan":
            who = f"{event.get('controller', '')} {event.get('key', '')}"
            journal.say("plan", f"{who}: {event['because']} -> {', '.join(event['steps']) or WAITS}")
        raise structlog.DropEvent

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(DEBUG if plans else ERROR),
        processors=[structlog.contextvars.merge_contextvars, capture],
        cache_logger_on_first_use=False,
    )
    try:
        yield errors
    finally:
        structlog.configure(**before)


def _defect(event: MutableMapping[str, Any]) -> str:
    error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
    told = f": {type(error).__name__}: {error}" if isinstance(error, BaseException) else ""
    return f"{event.get('event')}{told}"
