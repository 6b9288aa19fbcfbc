"""Keeps programs of this machine running, as a kubelet keeps containers running.

Theory.      A ``Program`` says what should run: command, environment, files, probes. The ``Supervisor``
             starts it, probes it, starts it again when it ends, and stops it, each in a folder of its own.
             A process does not end with its supervisor: the next supervisor finds it by the record in that
             folder.
             What to do next is a pure function (``program.decide``) of what is wanted and what is seen, so a
             restart of the supervisor at any moment leads to the same end.
Invariants.  One process for each name. Only a process that is certainly ours is signalled: its start time
             and the mark in its environment are compared first, and the signal goes to a file descriptor of
             the process, which no other can get. No secret is on a command line or readable by others.
Map.         ``program``     what should run, what can be seen of it, and what to do next (values, pure)
             ``record``      the folder of a program: the record of its process, its files and its output; no
                             link in it is followed
             ``probes``      runs its probes, and counts their failures
             ``linux``       starts, finds, signals and measures processes
             ``supervisor``  a worker for each program that is wanted: the task that keeps it running
             ``balancer``    a program of ours that such a process may run: one address for several instances
"""
