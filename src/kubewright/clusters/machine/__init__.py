"""One Machine of Cluster API: bootstrap data, infrastructure, Node, and the end of all three.

Reading order
    seen        what a pass sees, and the steps that it may take
    wanted      what the Machine itself should say: label, finalizer, owner, what providers told
    node        the Node: which it is, whether it is well, what it should carry
    deletion    the order of a deletion, and what it skips
    decide      the plan of a pass
    conditions  what the status says; ``status`` has the phase and the rest
    look, act   reading and writing
    reconciler  one pass; what wakes a Machine
"""
