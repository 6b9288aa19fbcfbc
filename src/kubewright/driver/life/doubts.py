"""Decide until when a creation without a definite answer may still bring a VM. Pure.

Theory.      A creation that was cut short (a deadline, a lost answer, the end of its process) may be carried
             out all the same, a moment later. That is a doubt. Our own start is one, too: the process before
             us may have died while a create call was in flight. A doubt is over when the driver has had
             ``confirm_absent`` to show what came of the creation, and has been asked again (``plan``).
             A VM on record may be one of two: a creation that was not answered was repeated, and the record
             is of the second. So a doubt stays beside a record until its creation is LONGEST_CREATION ago.
             A list of the cloud's VMs ends no doubt, however soon after our start it comes: it shows what
             there was, and in doubt is what is still to come. So a machine without an older proof that is
             deleted just after a start waits for up to ``confirm_absent``.
Invariants.  An object that was created more than MAX_CLOCK_SKEW after our start, by the server's clock,
             inherits no doubt from the process before us. Nor does one that this process saw come to be in a
             server of its own: there is one clock, and no list is older than the server.
Called by    ``calls``; ``orphans`` for LONGEST_CREATION.
"""

from datetime import datetime, timedelta

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the server's clock, which dates creations, may be ahead of ours. An object that seems to be created
less than this after our start may be older, and the process before us may have called for its VM."""

LONGEST_CREATION = timedelta(minutes=5)
"""How long a creation that nothing waits for any more may go on in the cloud: longer than a driver call may
last. Of an object that is gone only its age is known: one that was older, with its VM on record, is taken to
have left no other (``orphans.may_leave_a_vm``)."""


def doubt_until(
    unanswered: datetime | None,
    started: datetime,
    *,
    created: datetime | None,
    recorded: bool,
    now: datetime,
    confirm_absent: timedelta,
    witnessed: datetime | None = None,
) -> datetime | None:
    """Until when a creation may still bring a VM; None when none can be under way.

    Args:
        unanswered: when this process last may have made a VM that it does not know (``VmSeen.doubt``).
        started: since when calls are made by this process, and no longer by one before it.
        created: when the object was created, by the server's clock.
        recorded: the VM is on record.
        now: the steady clock.
        confirm_absent: how long a VM may stay unseen after its creation.
        witnessed: when this process saw the object come to be, by the clock of ``started``; None: it did not,
            or what it sees may be older than its start (``kube.client.Client.one_clock``).
    """
    dated = created is not None and created > started + MAX_CLOCK_SKEW
    ours = dated or (witnessed is not None and witnessed >= started)
    moments = [moment for moment in (None if ours else started, unanswered) if moment is not None]
    if not moments or (recorded and max(moments) + LONGEST_CREATION < now):
        return None
    return max(moments) + confirm_absent
