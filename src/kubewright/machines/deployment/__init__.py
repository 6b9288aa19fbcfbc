"""MachineDeployment: the policy of machine.sapcloud.io for the generic controller of deployments.

Theory.        ``replicas.deployment`` does the work; here is what is particular to MachineDeployments.
Map            policy.py      all of it as one value, which is passed in
               template.py    when two templates are the same, and the hash of one
               triggered.py   the machines that cluster-autoscaler chose for deletion
               rollback.py    ``spec.rollbackTo``: back to an earlier template
               freezing.py    the label ``freeze``, and a user's request to unfreeze
               status.py      what only a MachineDeployment's status says
Source         mcm.md §1.5, §7. What is done to nodes meanwhile: ``machines.rolling``.
"""
