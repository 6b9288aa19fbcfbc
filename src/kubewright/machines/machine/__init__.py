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

Files        ``seen``      everything that is known of one machine, as one frozen value (``Seen``)
             ``look``      makes it, from ``caches``, and ``moments``: what this process saw begin
             ``creation``  ``health``  ``hot_update``  ``in_place``  ``deletion``  ``preservation``
                           the decisions, pure: Seen -> Plan
             ``applied``   what a VM has of its class, and what the class says by now (pure)
             ``replacements``  limits against mass replacement; ``refusals``: how a machine goes on after a
                           write that a server refused (pure)
             ``capacity``  the virtual capacity of a class on its nodes (pure)
             ``vm_record``  which VM a machine has: on record, or by the driver's answer (pure)
             ``settings``  what an operator may set
             ``decide``    which of them apply, in which order
             ``node_marks``  what is written onto the machine's node, as patches (pure)
             ``states``    the phases as a table: what is seen, which phase follows, what it says (pure)
             ``driver.life``  what comes next for the VM, and the calls in flight
             ``steps``     the closed set of effects, and the Plan that carries them
             ``status``    what the Machine's status says, given the plan (pure)
             ``unanswered``  since when the nodes' API server has not answered what a machine needs
             ``requests``  what a driver is told, bootstrap token included; ``userdata`` fills it in
             ``act``       performs the steps; the only file that writes, but for ``requests``, which keeps
                           the bootstrap token
             ``reconciler``  the wiring
             ``durations``  how long the stages took, for Prometheus
             ``foresight``  what will be decided next if only time passes, for ``kubewright explain``
"""
