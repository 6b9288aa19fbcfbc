"""The host that runs components as processes of this machine: what a kubelet does for pods, without one.

Theory.      This host reads the StatefulSet as a kubelet would, for the first container: a program, its
             files, its data, its probes. The package ``processes`` of the floor below keeps a program
             running; here is decided which program, at which address, with which files.
Map.         ``fields``    which fields of a manifest a process cannot have, and names and paths (pure)
             ``allowed``   what a user of one namespace may have a program do (pure)
             ``volumes``   volumes as folders and files (pure)
             ``instances`` from a workload to the program of an instance (pure)
             ``kept``      the state of a workload: what was applied, and what each instance runs with (pure)
             ``store``     that state in files, and the folders of instances
             ``restoring`` replaces the data of an etcd by a snapshot
             ``balancing`` the program between the endpoint of an API server and its instances
             ``addresses`` an address for each instance
             ``users``     who the programs of each control plane run as
             ``binaries``  where the programs are, in which version
             ``output``    why a program ended, from its output (pure)
             ``reading``   from a program, its process and its output to an ``Instance``
             ``host``      ``Hosting``, over a supervisor of processes
             ``options``   what a user may choose
"""
