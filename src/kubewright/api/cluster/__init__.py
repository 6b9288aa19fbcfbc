"""``cluster.x-k8s.io/v1beta1``: clusters and their machines, as Cluster API v1.7.1 serves them.

``v1beta1``      the kinds, field for field (capi.md §2)
``conditions``   the arithmetic of their conditions (capi.md §4.5)
"""
