"""The kubeadm bootstrap provider: makes the data by which a machine becomes a node of its cluster.

``reconciler``    one pass over a KubeadmConfig, and which changes enqueue it
``look``          reads everything that the decision needs into one ``seen.Seen``
``decide``        makes a plan of it: ``steps`` and a report, which ``status`` writes into conditions
``act``           performs the plan
``generation``    completes the spec and makes the data of it: ``documents`` are what kubeadm reads;
                  ``userdata`` has these, files and commands, and ``cloudinit`` or ``ignition`` writes it
                  (``containerlinux`` reads what users add to that); ``joinscript`` joins phase by phase
``certificates``  which certificates a machine needs, and whether its cluster has them
``tokens``        bootstrap tokens; ``token_calls`` makes and refreshes them in the workload clusters
``lock``          the init lock: only the machine that holds it runs ``kubeadm init``
``world``         the world of this provider
"""
