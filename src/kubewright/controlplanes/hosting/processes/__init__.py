"""The host that runs components as processes of this machine: what a kubelet does for pods, without one.

Theory.      This host reads the StatefulSet as a kubelet would, for the first container: a program, its
             files, its data, its probes. The package ``processes`` of the floor below keeps a program
             running; here is decided which program, at which address, with which files.
Map.         ``allowed``   what a program of one namespace may be asked to be (pure)
             ``instances`` from a workload to the program of an instance, its folders and files (pure)
             ``kept``      the state of a workload: what was applied, and what each instance runs with (pure)
             ``store``     that state in files, and the folders of instances
             ``addresses`` an address for each instance, and the balancer before them
             ``options``   what a user may choose, and who the programs of each control plane run as
             ``binaries``  where the programs are, in which version
             ``restoring`` replaces the data of an etcd by a snapshot
             ``host``      ``Hosting``, over a supervisor of processes
"""
