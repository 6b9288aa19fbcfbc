"""``kubewright vm`` and ``managevm``: one VM of one class, by its driver alone, without a cluster.

Theory.      An author of a class or of a driver wants to see one VM come and go before any controller is
             involved. So the files that would be applied to a cluster are read here as an API server would
             read them, and the driver is asked what a controller would ask, through the same guard.
             There is no Machine, so the owner of the VM is made up: a uid that follows from its name, marked
             as that of another API. By it the same command finds the VM again, and no controller that lists
             VMs by the same tags takes it for one that its machine has lost.
Invariants.  Nothing is remembered between two commands: the cloud knows its VMs. No value of a Secret is
             printed, also where a driver has put it into an error.
Source       MVM-01 to MVM-08.
Files        ``files``     classes, Secrets and volumes, from files of YAML or JSON
             ``requests``  who owns such a VM, what its driver is asked, what is shown of the answer
             ``calls``     a driver, asked until it answers or the user has had enough
             ``command``   the work of each command
             ``given``     the switches that the commands share
             ``app``       the commands; ``managevm``, the same by MCM's switches
"""
