"""Every bound of the system in one table: a number here has a reason beside it.

``remembered`` is the cache of functions that judge texts of users: bounded in bytes as well as in number.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

A = TypeVar("A")

LIST_PAGE = 500
"""Objects per page of a list: what client-go asks for."""

BODY_BYTES = 3 * 1024 * 1024
"""Largest request body the API server takes, as kube-apiserver's default."""

OBJECT_BYTES = 1536 * 1024 - 300
"""Largest object that is stored: an etcd takes 1.5 MiB, and its key and what else is in the request belong to
these. A larger one would work on the embedded server and on no cluster."""

PATCH_BYTES = 3 * 1024 * 1024
"""What the operations of one JSON patch may copy and add, as kube-apiserver's bound for copies."""

EVENT_LINE_BYTES = 4 * 1024 * 1024
"""Longest watch line we read: an object of the largest body, and room for its envelope."""

WATCH_HISTORY = 10_000
"""Changes that the embedded server remembers for resuming watches; older ones answer 410."""

HISTORY_BYTES = 64 * 1024 * 1024
"""The same in bytes of objects: a history of large ones is shorter."""

LOG_PAGES = 4_000
"""Pages (4 KiB) that the write-ahead log grows to before a write has to wait for a checkpoint."""

COLLECTIONS = (100_000, 50, 1000)
"""After how many new objects Python looks for garbage, and how often among older ones. With Python's
own numbers this is a seventh of the time in which all modules are imported, which make none; and a pause with
large caches."""

QUEUE_KEYS = 1_000_000
"""Keys in one work queue; a key takes about a hundred bytes."""

REQUEST_SECONDS = 30.0
"""Deadline of one ordinary API request, answer included."""

EVICTION_SECONDS = 65.0
"""Deadline of an eviction: webhooks and conflicts at a budget may take all of the time that kube-apiserver
has for a request, and an eviction that we give up earlier counts as refused and may still happen."""

EVICTIONS_AT_ONCE = 64
"""Evictions that one API server is asked for at one time; each may take ``EVICTION_SECONDS``, and none waits
for another within its deadline."""

DOUBT_SECONDS = 60.0
"""For how long a creation whose answer we did not get may still happen: kube-apiserver's request timeout."""

CONNECTS = 32
"""Workload clusters that begin to connect at one time: each costs a TLS handshake and full lists."""

CONFIG_BYTES = 1024 * 1024
"""Largest file of switches that we read: a ConfigMap holds no more."""

SHUTDOWN_SECONDS = 10.0
"""From SIGTERM to exit, while all servers answer and no task ignores its cancellation."""

MESSAGE_CHARS = 1024
"""Longest message that we write into an event or a condition."""

DRIVER_MESSAGE_CHARS = 16 * 1024
"""Longest message of a driver's error that goes into a status: clouds answer with whole pages of HTML, and a
server takes no object that is too large."""


MOST_NUMBER = 10**18
"""A number of so many digits is more than any bound that a number is compared with."""


def number_of(digits: str) -> int:
    """The number that digits stand for, or ``MOST_NUMBER`` where that is less. ``int`` raises an error of its
    own for a user's text of 5,000 digits.

    Raises:
        ValueError: there are none, or not only digits.
    """
    if not digits.isdecimal():
        raise ValueError("it is no whole number")
    bare = digits.lstrip("0") or "0"
    return int(bare) if len(bare) <= 18 else MOST_NUMBER


REMEMBERED_CHARS = 256
"""Characters of a text that a cache keeps; a date has 35, and the longest name of a kind 63."""


def remembered(most: int) -> Callable[[Callable[[str], A]], Callable[[str], A]]:
    """Make a pure function of one text keep its last ``most`` answers.

    ``lru_cache`` alone keeps each text, whose length is the user's: 4,096 refused dates of a megabyte. A text
    that is longer than ``REMEMBERED_CHARS`` is answered anew each time.
    """

    def around(function: Callable[[str], A]) -> Callable[[str], A]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def answer(text: str) -> A:
            return kept(text) if len(text) <= REMEMBERED_CHARS else function(text)

        return answer

    return around
