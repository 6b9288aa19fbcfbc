"""The life of one VM, for a controller of any API: ensured, looked for, deleted, and never left behind.

Theory.      A controller says of each of its objects what it wants (``Want``) and what it knows (``Wanted``).
             ``plan`` answers with the next step, from what this process has seen of the VM (``VmSeen``).
             The controller starts the call that the plan names (``VmCalls.start``), or comes back when the
             plan says; the end of a call wakes it. It reports the state in its own status. An
             object of any API can have a VM: what is needed of it is a key, a uid, and a function that makes
             the driver's request.
Invariants.  At most one call per object, so that a deletion never overtakes a creation.
             A VM is gone only when the driver has reported so after the last moment at which a creation may
             still have brought one: after an unanswered creation it is looked for before it is deleted, and
             asked about again once the doubt is over.
             Nothing here is a record. After a restart all is forgotten, the idempotent driver is asked
             again, and the calls of the process before count as unanswered creations.

Map          ``seen``     what is known of one VM, as a frozen value
             ``plan``     what to do next, and until when an unanswered creation may still bring a VM (pure)
             ``calls``    the tasks of the calls in flight; what one asks, and what is known after it
             ``orphans``  which VMs nothing has wanted for so long that they are deleted, and when (pure)

Called by    ``machines.machine`` and ``machines.orphans``; ``infra.machine`` and ``infra.orphans``.
"""
