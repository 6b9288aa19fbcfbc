"""Components as processes of this machine: what a kubelet does for the pods of a StatefulSet, without one.

Theory.      The same manifest that a StatefulSet has is read as a kubelet would read it, for the first
             container: a program, its files, its data, its probes. ``processes`` keeps the program running;
             here is decided which one, at which address, and from where.
Map.         ``fields``      what of a manifest a process cannot have (pure)
             ``volumes``     volumes as folders and files (pure)
             ``instances``   from a workload to the program of an instance (pure)
             ``kept``        what was applied and what each instance is to run (pure)
             ``store``       the files of that
             ``addresses``   a loopback address for each instance
             ``binaries``    where the programs are, in which version
             ``output``      what a program said last (pure)
             ``host``        ``Hosting``, over a supervisor
             ``options``     what a user may choose
"""
