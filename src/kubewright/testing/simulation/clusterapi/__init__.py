"""Clusters of Cluster API in the simulator: the product's controllers, beside a tiny provider.

Map          provider.py  a provider of infrastructure and control planes, and what ends deployments
             entry.py     how both enter a simulation
             rules.py     what must be true of Clusters at every step
Called by    tests.
"""
