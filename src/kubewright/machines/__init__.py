"""The world of machine-controller-manager: MachineDeployments, MachineSets, Machines and their classes.

Theory.      A MachineDeployment wants a template rolled out and tells MachineSets how large to be;
             a MachineSet wants a number of Machines and makes and deletes them; a Machine wants a
             VM and a healthy Node. Each layer writes only to the objects below it, so each can be
             stopped, upgraded or replaced by MCM's own controller.
Files        ``deployment``    MachineDeployment: the policy of ``replicas.deployment``; how it rolls out:
                               ``rollout``
             ``machineset/``   MachineSet: the policy of ``replicas.set``
             ``machine/``      Machine: VM, node, health, deletion
             ``machineclass``  MachineClass and Secret: kept while used; whether a driver accepts a class
             ``migration/``    classes of old kinds become MachineClasses
             ``orphans/``      VMs and nodes without a machine
             ``rolling/``      marks on nodes during a rollout, and updates in place
             ``excess/``       machines of a deployment that are kept free
             ``caches``        what they share: what is seen of a class and a node,
             ``settings``      what an operator sets,
             ``node_marks``    and what is written onto nodes
             ``metrics``       numbers about these objects, under MCM's names
             ``world``         the controllers, and how they are put together
             A folder has of these what it needs, under these names (``runtime.kernel``): ``seen`` is all that
             decides, and the steps; ``look`` reads it; ``decide`` is pure; ``act`` performs the steps;
             ``wiring`` says what enqueues an object, and is the rest where that is short. Begin with
             ``machine/``: a Machine needs no set. Deployments and sets have their pass in ``replicas``: here
             is only what differs for machines.
"""
