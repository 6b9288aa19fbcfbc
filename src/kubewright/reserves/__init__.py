"""Room that is kept free: the controller of CapacityReserves.

Map.         ``sizing``        how many placeholders a reserve has, and when they become fewer (pure)
             ``placeholders``  what stands in the cluster of the nodes: Deployment and PriorityClass (pure)
             ``decide``        what comes next, and what the status says (pure)
             ``reconciler``    reads; performs; and which changes enqueue a reserve
             ``world``         lists the controller and wires it
"""
