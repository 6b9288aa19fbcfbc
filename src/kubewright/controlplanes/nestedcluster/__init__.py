"""The infrastructure of a Cluster whose control plane needs no machines: it is there when that one is.

Theory.      Cluster API asks each Cluster for infrastructure, and lets machines begin when it is ready. A
             NestedCluster has nothing of its own: it is ready while the NestedControlPlane of its Cluster is,
             and machines join where that one is reached.
Map.         ``decide``      what comes next, and what the status says (pure)
             ``reconciler``  looks; performs; and which changes enqueue a NestedCluster
Source       nested.md A5 (orders), A7, A10 (infrastructure); S3-30.
"""
