"""Clusters of Cluster API: the core controllers of ``cluster.x-k8s.io``.

Reading order
    references  the provider objects that clusters and machines refer to: contracts, versions, ownership
    sessions    the sessions with their workload clusters
    cluster     one Cluster: its infrastructure, control plane and kubeconfig, and the end of all it has
    machine     one Machine: bootstrap data, infrastructure, Node, drain, and the end of all it has
    owned       what belongs to a cluster: its label, its ownership, its pause
    machineset  MachineSets, a policy over ``replicas``: clones, preflight checks, propagation
    machinedeployment   MachineDeployments, a policy over ``replicas``
    healthcheck one MachineHealthCheck: which machines are unhealthy, and whether they may be replaced
    world       all controllers, as ``compose`` runs them

This context calls no cloud and reads no provider's code: it meets providers in their objects only.
"""
