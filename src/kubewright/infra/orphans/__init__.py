"""VMs of clusters that no KubewrightMachine wants any more: found in the lists of drivers, and deleted.

Theory.      As with the machines of Gardener's API (``machines.orphans``), and confirmed and deleted by the
             same code (``kubewright.orphans``). Two things are different. A KubewrightMachine may be gone
             from here because clusterctl has moved it, and its VM lives on. And a name says little: another
             management cluster may have a cluster of the same name, in the same account. So the owner in a
             VM's tags says for which KubewrightCluster it was made, by a hash of that object's uid, which no
             copy of it has.
Invariants.  A VM is deleted only if the KubewrightCluster that it was made for is here, with its Cluster,
             neither is paused or being moved, and no object here wants it: the caches say so twice, five
             minutes apart, and the server at last. What was made before a move is never collected after it.
             No node is drained: that is for the core, which knows the cluster. Why: decisions 0009, 0027.
Map          ``decide``   pure: why a VM is kept, and whether its cluster is looked at
             ``vms``      one pass over the VMs of one cluster, and what enqueues it
"""
