"""One Machine of Cluster API: bootstrap data, infrastructure, Node, and their deletion.

Reading order
    seen        what a pass sees, and the steps that it may take
    wanted      metadata and spec of the Machine, and labels, annotations and taints of its Node
    deletion    the stages of a deletion, and when they are skipped; which pods are drained
    decide      the plan of a pass
    status      what the status says: conditions, phase and the rest
    look, act   reading and writing, with limits of calls to workload clusters
    wiring      one pass; what wakes a Machine
"""
