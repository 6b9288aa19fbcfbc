"""Machines of the classes that clouds had before MachineClass become machines of a MachineClass.

Theory.      Each cloud once had a kind of class of its own (AWSMachineClass); a driver may make the
             MachineClass that says the same (``driver.contract.Migrates``). For a class of such a kind that
             machines or sets refer to: read it, make the MachineClass of the same name, mark the old class,
             change the kind in what refers to it. The kind of the class takes no part in the identity of a
             template (``machines.deployment``), so nothing is rolled out.
Invariants.  Every step is found undone or done by looking, so a pass may end at each of them and the next one
             goes on. References are what makes one necessary, so they are changed last. Top down: the
             deployment before its sets, sets before machines, else a controller would write the old kind
             back. No reference is changed before the MachineClass is there. One that is there and was not
             made from this class is never overwritten, and one that was made from it is its users' from then
             on: what the old class says later does not reach it.
             While an old class is there and not migrated, no machine of it is given up for lost: its VM is
             known to the cloud by what the class says.
Files        ``old_classes``  which classes are to be migrated, and what is decided about one; pure
             ``wiring``       the reads and writes
Source       MIG-01 to MIG-03; the annotation and its value are MCM's.
"""
