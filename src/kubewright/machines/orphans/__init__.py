"""What no machine wants any more: VMs without a machine, and the nodes that they leave behind.

Theory.      A machine is never released before the cloud was asked long enough whether it made a VM
             (``machine.deletion``). Some clouds are slower than that, some drivers make two, some
             users take finalizers off: then a VM lives on that no machine will ever delete. So now
             and then each class is asked which VMs it has, and those that belong to no machine are
             deleted: *after confirmation*. A VM is only a suspect when it is first seen so; it goes
             when it is seen so again, ``confirmation`` later, and the server itself (not our cache)
             says that there is no such machine. A list that lags, a cache that is late, a machine
             that is just being made: none of them costs a living VM.
             Its node is emptied first, and goes last, as with a machine; it is marked before the VM goes,
             so that the process after a crash knows that it may remove it. Other nodes without a
             machine are only annotated, for cluster-autoscaler to leave them alone: whether their VM is
             gone, the cloud's own controller manager knows, we do not.
Invariants.  No VM is deleted that does not say which machine it was made for.
             At rest a look costs one call of the driver for each class, and no request to a server.
             One class that cannot be listed delays no other. What is remembered between looks
             (since when a VM is suspect) makes nothing wrong when it is lost, only later.
Source       seed 004 "What is Safety Controller"; mcm.md §9.1, §19 number 30; decision 0009.
Files        ``decide``      pure: why a VM is kept, what a node is told (who is confirmed: ``driver.life``)
             ``vms``         one look at one class
             ``collect``     the end of one VM; ``cleanup`` that of its node
             ``nodes``       one look at all nodes
             ``wiring``      when to look
"""
