"""Local processes, kept running: what a kubelet does for a container, for programs of this machine.

Theory.      A ``Program`` says what should run: command, environment, files, probes. The ``Supervisor``
             starts it, probes it, starts it again when it ends, and stops it, each in a folder of its own.
             A process does not end with its supervisor: the next one finds it by what the folder says.
             What to do next is a pure function (``life.decide``) of what is wanted and what is seen, so a
             restart of the supervisor at any moment leads to the same end.
Invariants.  One process for each name. Only a process that is certainly ours is signalled: its start time
             and the mark in its environment are compared first, and the signal goes to a file descriptor of
             the process, which no other can get. No secret is on a command line or readable by others.
Map.         ``program``     what should run, and what can be seen of it (values)
             ``life``        what to do next (pure)
             ``record``      what the folder says of the process, and the files in it
             ``probes``      asks a program how it is
             ``linux``       starts, finds, signals and measures processes
             ``worker``      keeps one program running
             ``supervisor``  all of them
"""
