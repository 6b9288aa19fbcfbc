"""Orphans: VMs without a machine, which are deleted with their nodes; and nodes without a machine.

Theory.      The finalizer of a machine stays until the cloud has had time to show a VM that it may have made
             (``machine.deleting``). Some clouds are slower than that, some drivers make two VMs, some users
             remove finalizers: then a VM exists that no machine will ever delete. So from time to time the
             driver lists the VMs of each class, and those without a machine are deleted, *after
             confirmation*: a VM without a machine is at first only a suspect. It is deleted when it is still
             one in a list that is ``confirmation`` later, and the API server itself (not our cache) says
             that its machine does not exist. So no VM in use is deleted for an old list, a late cache, or a
             machine that is just being created.
             The order is that of a machine's deletion: the node is drained, its volumes are awaited, the VM
             is deleted, the node is deleted.
             The node is annotated before the VM is deleted, so that another process, after a crash, knows
             that it may delete the node; it does so once two lists lack the VM, for one may lag. A node that
             has a machine again loses annotation and cordon. Other nodes without a machine are only
             annotated, so that cluster-autoscaler leaves them alone: whether their VM still exists only the
             cloud's own controller manager knows.
Invariants.  No VM is deleted that does not say which machine it was made for.
             Without suspects a pass costs one call of the driver for each class, and no request to an API
             server. A class that cannot be listed delays no other, nor does a VM that cannot be deleted.
             A class keeps its finalizer while it has machines, not while it has suspects: if it is deleted
             with the last of them, the credentials for deleting its orphans are lost. A process remembers
             since when a VM is a suspect; one that starts anew confirms it later, and nothing else changes.
             What MCM's safety controller does of this: docs/reference/mcm-parity.md; why so: decision 0009.
Map          ``decide``  why a VM is kept, which nodes are annotated (pure)
             ``vms``     the reconciler of classes: lists the VMs of one, finds suspects, has them deleted as
                         ``ClassPolicy`` says; both controllers, and which changes enqueue what
             ``nodes``   the reconciler that annotates nodes; and drains and deletes those of VMs
             ``kubewright.orphans`` has what all APIs share: suspects, their confirmation, deletions, pauses
"""
