"""Clusters of Cluster API in the simulator: the product's controllers, beside a tiny provider.

Map          provider.py  a provider of infrastructure and control planes, and what ends deployments
             entry.py     how both enter a simulation
             rules.py     what must be true of Clusters at every step
             whole        whole clusters: all providers are our own, and VMs boot from their data
Called by    tests.
"""
