"""One machine: made, joined, watched over, and taken down again.

Theory.      A Machine object is the intent and the only record. The next step is never stored:
             it follows from what exists (the VM, the Node, our finalizer) and from deadlines.
             A machine that should live is driven towards a healthy Node; one that is being
             deleted towards nothing at all, in one fixed order.

             living     finalizer -> VM ensured -> providerID recorded -> node joined -> watched
             deleting   no creation in doubt -> drained -> volumes detached -> VM, node, finalizer removed

Invariants.  No VM is asked for before our finalizer stands on the Machine.
             The finalizer goes only after the cloud has said that the VM is gone, or never was; or, where the
             machine's class is gone, once a user forces the deletion: then the VM is left behind, which a
             warning tells.
             A cloud call never blocks a worker: it runs beside, and wakes the machine when done.
             Every plan says why (``because``); a wait that no event ends says until when (``wake``).

Files        ``seen``      all that is known of one machine, as one frozen value; the steps and the plan
             ``look``      makes a ``Seen`` from caches, calls and live reads; writes nothing
             ``memory``    what this process remembers of machines between passes
             ``decide``    which deciders apply, in which order; what becomes of a refused step, what the
                           machine waits for, what comes next if only time passes
             ``making``  ``living``  ``deleting``  ``preservation``   the deciders, Seen -> Plan
             ``applied``   what a VM has of its class, and what the class says by now
             ``states``    the phases as a table, and what the status says
             ``act``       what is particular to a machine's pass (``runtime.kernel``), the only file that
                           writes; makes what a driver is told
             ``wiring``    who wakes a machine, and how long its stages took
             All but ``look``, ``memory``, ``act`` and ``wiring`` are pure. What comes next for a VM, and the
             calls in flight: ``driver.life``.
"""
