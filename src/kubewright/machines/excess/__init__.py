"""Machines of a deployment that are kept free (``spec.excessReplicas``): which ones, and their taints.

Theory.      Replicas and excess together are the size of a deployment, for scaling, rollouts and status
             (``MachineDeploymentSpec.desired``). A controller of its own, ``machinetaint``, puts the taints
             onto the newest machines and takes them off again; that is all it does. The machine's
             controller keeps taints and cluster-autoscaler's annotation on the node, as it keeps a node
             template (``machines.node_marks``), and a set that shrinks goes by the taints, too
             (``machineset.member``).
Files        ``decide``  which machines are kept free (pure)
             ``wiring``  looks, asks decide, writes; and which changes enqueue a deployment
             Decision 0072. How objects show it: ``api.machine.excess``.
"""
