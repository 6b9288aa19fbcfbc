"""MachineSet: keep as many machines as it says, of the template that it has; the policy of ``replicas.set``.

Life of a set  finalizer -> adopt and disown -> propagate settings -> create or delete machines -> status;
               once deleted: delete all machines -> remove the finalizer.
Map            policy.py        the policy as one value
               member.py        a machine as its set sees it
               template.py      a machine as the set's template makes it
               preservation.py  which machines are deleted besides the surplus, and which Failed ones are kept
               overshoot.py     when a set is frozen, and unfrozen
             status.py        counts and conditions
Source         mcm.md §1.4, §6.
"""
