"""Clusters of Cluster API: the core controllers of ``cluster.x-k8s.io``.

Reading order
    references  the provider objects that clusters and machines refer to: contracts, versions, ownership

This context calls no cloud and reads no provider's code: it meets providers in their objects only.
"""
