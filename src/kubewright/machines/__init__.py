"""The world of machine-controller-manager: MachineDeployments, MachineSets, Machines and their classes.

Theory.      A MachineDeployment wants a template rolled out and tells MachineSets how large to be;
             a MachineSet wants a number of Machines and makes and deletes them; a Machine wants a
             VM and a healthy Node. Each layer writes only to the objects below it, so each can be
             stopped, upgraded or replaced by MCM's own controller.
Map          deployment/    MachineDeployment: the policy of ``replicas.deployment``; decided by ``rollout``
             machineset/    MachineSet: the policy of ``replicas.set``
             machine/       Machine: VM, node, health, deletion
             machineclass/  MachineClass and Secret: kept while used
             orphans/       VMs and nodes without a machine
             rolling/       marks on nodes during a rollout, and updates in place
             metrics.py     numbers about these objects, under MCM's names
             world.py       the controllers, and how they are put together
Anatomy      ``decide`` and ``status`` are pure, ``steps`` are the closed set of effects, ``act`` writes,
             ``reconciler`` wires. Deployments and sets have theirs in ``replicas``: their folders here
             hold only what differs for machines.
"""
