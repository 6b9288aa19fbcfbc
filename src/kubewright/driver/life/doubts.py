"""Decide until when a creation without a definite answer may still bring a VM. Pure.

Theory.      A creation that was cut short (a deadline, a lost answer, the end of its process) may be carried
             out all the same, a moment later. That is a doubt. Our own start is one, too: the process before
             us may have died while a create call was in flight. A doubt is over when the driver has had
             ``confirm_absent`` to show what came of the creation, and has been asked again (``plan``).
Invariants.  An object that was created under our eyes inherits no doubt. One whose VM is on record has none
             for long: a second creation can only have begun before the record was written.
Called by    ``calls``; ``orphans`` for LONGEST_CREATION.
"""

from datetime import datetime, timedelta

CLOCK_SKEW = timedelta(minutes=5)
"""How far the server's clock, which dates creations, may be ahead of ours. An object that seems to be created
less than this after our start may be older, and the process before us may have called for its VM."""

LONGEST_CREATION = timedelta(minutes=5)
"""How long after an object was created another creation may be under way although its VM is on record: a
process that died may have called the driver for the same VM before."""


def doubt_until(
    unanswered: datetime | None,
    started: datetime,
    *,
    created: datetime | None,
    recorded: bool,
    now: datetime,
    confirm_absent: timedelta,
) -> datetime | None:
    """Until when a creation may still bring a VM; None when none can be under way.

    Args:
        unanswered: when a creation of this process last ended without a definite answer.
        started: since when calls are made by this process, and no longer by one before it.
        created: when the object was created, by the server's clock.
        recorded: the VM is on record.
        now: the steady clock.
        confirm_absent: how long a VM may stay unseen after its creation.
    """
    if recorded and created is not None and created + LONGEST_CREATION < now:
        return None
    ours = created is not None and created > started + CLOCK_SKEW
    moments = [moment for moment in (None if ours else started, unanswered) if moment is not None]
    return max(moments) + confirm_absent if moments else None
