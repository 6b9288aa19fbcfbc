"""The controllers of NestedEtcd, NestedAPIServer and NestedControllerManager: one reconciler for all three.

Theory.      The three kinds differ in what has to be ready before they start, in values for their templates,
             and in some fields of their status: each has a ``Policy`` for that. The rest is the same for all:
             the controller renders what should run, compares it with what runs, and replaces one instance
             after another.
Map.         ``policies``   what differs between the three (pure)
             ``seen``       everything that a decision reads, as one frozen value
             ``look``       reads everything into ``seen``
             ``workload``   what should run: manifests, how many instances, which is replaced next (pure)
             ``obstacles``  what a component waits for, and what a user has to mend (pure)
             ``decide``     what comes next (pure)
             ``status``     what the status says (pure)
             ``act``        one pass on the kernel: performs a plan, and writes the status
             ``wiring``     which changes enqueue a component
"""
