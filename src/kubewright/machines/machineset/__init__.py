"""MachineSet: keep as many machines as it says, of the template that it has; the policy of ``replicas.set``.

Life of a set  finalizer -> adopt and disown -> propagate settings -> create or delete machines -> status;
               once deleted: delete all machines -> remove the finalizer.
Files          ``member``  a machine as its set sees it
               ``decide``  which machines go besides the surplus, when a set is frozen, its status
               ``policy``  the policy as one value, and a machine as the set's template makes it
               The statements of MCM: docs/reference/mcm-parity.md.
"""
