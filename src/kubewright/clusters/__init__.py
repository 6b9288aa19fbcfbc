"""Clusters of Cluster API: the core controllers of ``cluster.x-k8s.io``.

Reading order
    external    the provider objects that clusters and machines refer to: contracts, versions, ownership
    sessions    the sessions with their workload clusters
    cluster     one Cluster: its infrastructure, control plane and kubeconfig, and their deletion
    machine     one Machine: bootstrap data, infrastructure, Node, drain, and their deletion
    owned       what makes an object a Cluster's: label, owner reference, pause
    node        a Node of a workload cluster, as far as it is read; ``indexes`` by cluster
    machineset  the policy of MachineSets: clones, preflight checks, propagation
    machinedeployment   the policy of MachineDeployments
    healthcheck one MachineHealthCheck: which machines are unhealthy, and whether they may be replaced
    world       all controllers, as ``compose`` runs them

This context calls no cloud and imports no provider: it reads and writes the objects of providers.
What upstream does in each case, and the tests of it: docs/reference/capi-parity.md.
"""
