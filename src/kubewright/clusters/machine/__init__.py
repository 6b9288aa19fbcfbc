"""One Machine of Cluster API: bootstrap data, infrastructure, Node, and their deletion.

Reading order
    seen        what a pass sees, and the steps that it may take
    wanted      metadata and spec of the Machine: label, finalizer, owner, what providers report
    node        the Node: whether it is healthy, which labels, annotations and taints it should have
    deletion    the stages of a deletion, and when they are skipped; ``drainrules`` which pods are drained
    decide      the plan of a pass
    conditions  what the status says; ``status`` has the phase and the rest
    look, act   reading and writing; ``caches`` has the indexes, ``calls`` limits calls to workload clusters,
                ``removals`` sends what drains ask of pods
    reconciler  one pass; what wakes a Machine
"""
