"""Control planes as objects: NestedControlPlane and its three components.

Map.         ``family``        which objects belong to one control plane (pure)
             ``caches``        the informers and indexes that several of these controllers share
             ``templates``     chooses the manifests that a component is made from, fills them in, and applies
                               what a user changes in them
             ``certificates``  makes and renews certificates and kubeconfigs, and replaces authorities
             ``hosting``       runs the programs: in pods, as processes, or inside this process
             ``members``       which change of an etcd's members is next (pure)
             ``etcd``          a client of an etcd: asks and changes members, streams data
             ``component``     the controllers of NestedEtcd, NestedAPIServer and NestedControllerManager
             ``plane``         the controller of NestedControlPlane
             ``templated``     creates the components of a NestedControlPlane that names a template
             ``users``         keeps a kubeconfig for each ControlPlaneUser
             ``snapshots``     the controllers of snapshots, of their schedules, and of restores
             ``nestedcluster`` the controller of NestedCluster, which stands for the infrastructure of a
                               Cluster
             ``world``         lists all of these controllers
             ``wiring``        wires those of them that were chosen
Floor        a context: other contexts use its API objects and import nothing from it.
Source       S3-01 to S3-49 are the statements of the proposal of Cluster API Provider Nested, E-01 to E-15
             the acceptance tests: rows of docs/reference/nested-parity.md.
"""
