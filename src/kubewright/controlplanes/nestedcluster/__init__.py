"""The controller of NestedClusters: the infrastructure of a Cluster whose control plane needs no machines.

Theory.      Cluster API requires an infrastructure object for each Cluster, and creates no machine before it
             is ready. A NestedCluster stands for no infrastructure of its own: it is ready while the
             NestedControlPlane of its Cluster is, and has its endpoint.
Map.         ``decide``     what comes next, and what the status says (pure)
             ``wiring`` reads; performs; and which changes enqueue a NestedCluster
Source       S3-25, S3-30.
"""
