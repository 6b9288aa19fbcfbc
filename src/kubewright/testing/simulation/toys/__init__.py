"""A toy API in the simulator: a world that does what only Cluster API does, on the same floors.

Theory.      The journal shows toys in the shape of machines (``guise``), so all that is known of machines,
             sets and deployments, and every rule about them, holds for toys too.
Map          kinds.py     the objects
             policy.py    what sets of toys are: ``SetWorld``
             rollouts.py  what deployments of toys are: ``DeploymentWorld``
             keeper.py    the controller of toys
             api.py       the world as a whole, and how it enters a simulation
Called by    tests; no shipped story has toys.
"""
