"""A toy API in the simulator: kinds whose members are two cloned objects, as those of Cluster API are.

Theory.      The journal converts toys to the shape of machines (``as_machine``), so the simulator's code and
             its rules about machines, sets and deployments work for toys too.
Map          kinds.py     the objects
             policy.py    what sets of toys are: ``SetPolicy``
             rollouts.py  what deployments of toys are: ``DeploymentPolicy``
             keeper.py    the controller of toys
             api.py       adds all of it to a simulated world
Called by    tests; no shipped story has toys.
"""
