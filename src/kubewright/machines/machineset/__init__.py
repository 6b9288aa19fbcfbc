"""MachineSet: keep as many machines as it says, of the template that it has.

Life of a set  finalizer -> adopt and release -> push down settings -> make or delete machines -> status;
               once deleted: delete all machines -> drop the finalizer.
Theory.        Whoever makes machines must never make one twice. Three things see to that. The
               cache shows our own writes at once, so a pass never works on less than it did
               itself; therefore no expectations are kept. A machine's name is a function of the
               set and of the machines that were seen, so a controller that looks at the same
               world, after a crash or from another process, meets ``AlreadyExists``. And a
               creation without an answer keeps its name, and holds up all others, until the
               server has said what became of it.
Map            members.py     what sets and deployments know about one machine, and whose it is
               roll.py        the members of one owner, in order
               observe.py     Seen: one set and its machines; Memory: what a process remembers
               decide.py      which machines to make, adopt, change and delete
               template.py    a machine as the set's template makes it
               naming.py      the names of new machines
               status.py      counts and conditions
               steps.py       the closed set of effects
               act.py         performs them: slow start, preconditions, doubt
               making.py      creations and their doubts
               outcome.py     how a pass went, in events and for the status
               batches.py     many effects at once, within bounds
               pace.py        how often a status is written
               reconciler.py  one pass; who wakes a set
               settings.py    what an operator may set
Source         mcm.md §1.4, §6.
"""
