"""Clusters of Cluster API in the simulator: the controller of Clusters, beside a tiny provider.

Map          provider.py  a provider of infrastructure and control planes, and what ends deployments
             setup.py     adds both to a simulated world
             picture.py   what of clusters must be the same at the end of every run of a story
             whole        whole clusters: all controllers of ours, and VMs that boot from their data
Called by    tests.
"""
