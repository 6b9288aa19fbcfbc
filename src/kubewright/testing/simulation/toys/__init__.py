"""A toy API in the simulator: a world with what only Cluster API does, on the same floors.

Theory.      The journal converts toys to the shape of machines (``as_machine``), so the simulator's code and
             its rules about machines, sets and deployments work for toys too.
Map          kinds.py     the objects
             policy.py    what sets of toys are: ``SetPolicy``
             rollouts.py  what deployments of toys are: ``DeploymentPolicy``
             keeper.py    the controller of toys
             api.py       the world as a whole, and how it enters a simulation
Called by    tests; no shipped story has toys.
"""
