"""What a cluster and its machines cost: our Cluster API, and the Go programs of it, beside each other.

Theory.      The infrastructure is the same for all: ours, on the simulated cloud, whose VMs boot from their
             bootstrap data, so that the API server of each workload cluster is an embedded one. On a real
             kube-apiserver all of that is one program, ``host``, and what is measured, the core and the
             bootstrap provider, are others. In ``kubewright up`` everything is one process: its CPU and
             memory hold the server, the workload clusters and the kubelets too.
Scenario.    One cluster: its control plane, 0 to 50 workers, rest, a rolling update (25 %/0), back to 0,
             deleted. Then a hundred clusters of 1 + 1. Then, in ``kubewright up`` alone, a thousand.
Counting.    Writes at the API server that has the Machines, by client; events and Leases apart. What is
             written in workload clusters is not counted.
Files        ``objects``   the objects of a cluster
             ``worlds``    the worlds: who is the core, who the bootstrap provider, and where they run
             ``host``      the program that is the infrastructure
             ``scenario``  the phases that are measured
             ``table``     the result, beside the budgets
"""
