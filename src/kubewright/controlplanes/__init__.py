"""Control planes as objects: NestedControlPlane and its three components (nested.md, seed 003).

Map.         ``family``        which objects belong to one control plane (pure)
             ``caches``        what is watched of them
             ``templates``     which set of templates a component is made from
             ``rendering``     what is to run for it: manifests (pure)
             ``certificates``  which certificates and kubeconfigs there should be
             ``hosting``       where its programs run
             ``component``     the controllers of the three components
             ``plane``         the controller of control planes
             ``templated``     the controller of control planes that name a template
             ``users``         kubeconfigs of users
             ``snapshots``     copies of the data of a control plane, and their way back
             ``nestedcluster`` the controller of the infrastructure of Clusters
             ``world``         all of them, put together
Floor        a context: it meets others only in API objects.
"""
