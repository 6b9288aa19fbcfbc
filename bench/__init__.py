"""``make bench``: what a machine, a cluster and a control plane cost, embedded and beside real programs.

Theory.      The product runs as a user runs it, in a process of its own: ``kubewright up``, or
             ``kubewright run`` against etcd and kube-apiserver. The bench drives it from outside:
             N machines from nothing to Running, a sample of nodes that stop reporting and recover,
             rest, a rolling update, and the deletion of all. Requests are counted at the server (the audit
             log of kube-apiserver, the metrics of the embedded server), machines by a watch of
             our own, CPU and memory by the kernel.
Counting.    ``ours`` is what the controllers ask for; kubelets and the bench itself are counted
             apart. On the real server nodes are made by this bench, as kubelets would; in ``up``
             they are the simulated cloud's, in the same process, so its CPU and memory hold
             server, cloud, kubelets and controllers together.
Clusters     are measured beside the Go programs of Cluster API: ``bench.clusters``. The API of MCM, ours
             alone, is measured here. ``python -m bench machines`` and ``python -m bench clusters`` choose.
Planes       are measured in ``kubewright up`` alone, in two channels: ``planes`` has scenario and table.
AWS          is asked in a run of its own how many requests a machine takes: ``aws``, on an EC2 for tests.
Files        ``requests``  requests by client, from the audit log or the metrics (pure)
             ``measured``  what was measured, whatever ended the run
             ``process``   CPU and memory of a process
             ``meter``     what a phase costs
             ``watcher``   machines as they change: counts, bounds, moments
             ``nodes``     nodes for the real server, as kubelets would make them
             ``worlds``    the worlds: started, connected, stopped
             ``scenario``  the phases that are measured
             ``table``     the result, beside the budgets of the design
             ``aws``       machines at AWS: scenario, EC2 and table
"""
