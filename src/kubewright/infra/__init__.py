"""The infrastructure provider of Cluster API: VMs and endpoints for its machines and clusters, by any driver.

Theory.      A ``KubewrightMachine`` is the VM of one Machine, a ``KubewrightCluster`` what the machines of
             one cluster have in common. The core and the bootstrap provider, ours or others', say when a VM
             may be made and with which data; this context makes it through ``driver.life``, exactly as the
             machines of Gardener's API get theirs, and reports by the contract. It never
             looks into a workload cluster: nodes belong to the core.

``settings``   what an operator may set
``provision``  what a driver is told, from a machine, its cluster and their secrets
``caches``     the informers, and which object belongs to which
``machine``    one KubewrightMachine: look, decide, act
``cluster``    one KubewrightCluster: the same, with the endpoint of its API server
``template``   one KubewrightMachineTemplate: what its nodes will offer
``orphans``    VMs that no KubewrightMachine wants any more are deleted
``plan``       what the plans for machines and clusters have in common
``world``      the controllers, as the value that ``compose`` lists
"""
