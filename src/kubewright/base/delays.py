"""How long a controller waits before it tries again or looks again: every such pause in one table.

Theory.      An object comes back to its controller by a change, by an error or by a time. An error says
             itself how it is retried, a plan says when to look again, and both take the time from here: no
             code compares codes or classes of errors to find a pause. What a cloud answers is mapped to the
             first group in one table (``driver.errors``); ``runtime.controller`` carries all of it out.
             Elsewhere stand what an operator may set (the settings of each context), the time-outs after
             which something is decided (beside the decision), the paces of statuses and events, and how
             single requests, watches and connections are repeated (``kube``, ``runtime.sessions``).
Called by    errors and decisions of every package.
"""

from datetime import timedelta

from kubewright.base.errors import After, OnChange, Retry

# -------------------------------------------------------------------- errors
BEHIND = After(0.05)
"""Our caches do not show yet what is known otherwise; a watch is seldom later than this."""

OVERTAKEN = After(0.2)
"""Another client was faster, or has deleted what was seen: the next pass decides anew."""

SHORT, MEDIUM, LONG = After(5), After(180), After(600)
"""What may succeed in a moment; what a user has to mend; what costs a cloud much."""

UNREADABLE = After(30)
"""An object that a pass looks at has not the form of its kind. A user has to mend it, which may wake only its
own controller."""


def in_time(retry: Retry) -> Retry:
    """The retry of an error about what no watch shows: a machine, its files, a program on it.

    What a user mends there changes no object.
    """
    return MEDIUM if isinstance(retry, OnChange) else retry


# -------------------------------------------------------------------- looks without an event
JUST_PAST = timedelta(milliseconds=1)
"""Added to the wait for a deadline, so that the deadline has passed at the next look."""

CREATION = timedelta(seconds=0.25)
"""Between two attempts of a creation that the server has not answered."""

SOON = timedelta(seconds=1)
"""For what is over in a moment: a list that fills, pods that were deleted by force, a binding in conflict."""

POLL = timedelta(seconds=5)
"""For what goes on elsewhere: pods that leave, other machines that are replaced, a doubt that expires."""

PREFLIGHT = timedelta(seconds=15)
"""For an object that is there and not as a set needs it: no event tells of its changes."""

EVICTION = timedelta(seconds=20)
"""After a refusal, until the eviction of a pod is tried again (DRA-05)."""

UNHEARD = timedelta(seconds=30)
"""For what comes back without an event that must be heard: a cluster that cannot be watched, a Secret outside
our caches."""

DATED = timedelta(hours=1)
"""Until a date by the wall clock is looked at again, at most: that clock may step, and while a machine is
suspended no time is counted."""

REFUSED = MEDIUM.pause
"""How long what an API server refused for good is not asked for again, unless it changes. A user who mends a
role or a webhook waits at most so long; one who mends the object does not wait."""

# -------------------------------------------------------------------- changes that come in bursts
GATHER_FOR_SET, GATHER_FOR_DEPLOYMENT, GATHER = 0.03, 0.05, 0.1
"""Seconds that a change waits for others, so that a burst is one look. A set looks before its deployment
does, whose look may resize sets. For large sets both wait longer (``replicas.members``)."""

WORDS_SECONDS, MANY_WORDS_SECONDS, MOST_WORDS_SECONDS = 3.0, 15.0, 120.0
"""How long a status must differ that only says what is waited for, in an API in which objects repeat that of
each other; how long at least where it is so of more than ``MANY`` objects of a kind at once; and how long at
most, however many they are."""

MANY = 10
"""Where more objects than this come up at once, what comes next matters more than what each waits for."""

WORDS_PER_SECOND = 4.0
"""How many such statuses of a kind are written in a second at most, while many objects come up."""


def for_words(waiting: int) -> float:
    """Seconds for which a status must differ that only says what is waited for, while so many objects of its
    kind, more than ``MANY``, wait.

    The more of them share a server, the longer each waits. So the time grows with their number: else the
    server is busy with what each waits for, which is over when it has been written.
    """
    return min(max(MANY_WORDS_SECONDS, waiting / WORDS_PER_SECOND), MOST_WORDS_SECONDS)


LOOKS_PER_SECOND = 200.0
"""How many lists of pods a process asks for in a second at most, while many machines are drained."""


def for_drain(age: timedelta, at_once: int = 1) -> timedelta:
    """Between two looks at a machine whose pods leave: the longer, the older its deletion is, and the more
    machines are drained at once. Each look is a list of pods."""
    return max(min(max(age / 8, SOON), timedelta(seconds=10)), timedelta(seconds=at_once / LOOKS_PER_SECOND))


def for_rights(age: timedelta) -> timedelta:
    """Between two questions whether the user who asked for a certificate has a right to it by now: the
    longer, the older the request is. A role that is bound later wakes no request."""
    return min(max(age / 4, timedelta(seconds=5)), timedelta(minutes=15))


def for_namespace(age: timedelta) -> timedelta:
    """Between two looks at a namespace that is being emptied: the longer, the older its deletion is."""
    return min(max(age / 4, SOON), timedelta(seconds=15))
