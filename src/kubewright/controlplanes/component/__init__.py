"""The controllers of NestedEtcd, NestedAPIServer and NestedControllerManager: one reconciler for all three.

Theory.      The three kinds differ in what has to be ready before they start, in values for their templates,
             and in some fields of their status: each has a ``Policy`` for that. The rest is the same for all:
             the controller renders what should run, compares it with what runs, and replaces one instance
             after another.
Map.         ``policies``   what differs between the three (pure)
             ``seen``       everything that a decision reads, as one frozen value
             ``workload``   what should run, from the spec and the family (pure)
             ``obstacles``  what a component waits for, and what a user has to mend (pure)
             ``ending``     for which component one that is to stop, or is deleted, waits (pure)
             ``membership`` how many members of an etcd run now, and which change of them is next (pure)
             ``versions``   which version a component may have, and which component is upgraded first (pure)
             ``rollout``    which instance is replaced next (pure)
             ``decide``     what comes next (pure)
             ``status``     what the status says (pure)
             ``setup``      what these controllers work with, such as hosts and templates
             ``look``       reads everything into ``seen``
             ``act``        performs a plan, and writes the status
             ``reconciler`` one pass; and which changes enqueue a component
Source       seed 003; nested.md A5, A9, A11.
"""
