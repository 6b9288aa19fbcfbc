"""Workload clusters: how the core reaches the cluster of each ``Cluster`` object.

``kubeconfigs``  the Secrets ``<cluster>-kubeconfig``, as they come, change and go
``unlabelled``   those Secrets that have the name and lack the label
``node``         a Node, with no more of it than the core reads
``workload``     the lookup: a session for each cluster, or the reason why there is none

The connections themselves are ``runtime.sessions``.
"""
