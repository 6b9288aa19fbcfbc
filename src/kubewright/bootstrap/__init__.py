"""The kubeadm bootstrap provider: makes the data by which a machine becomes a node of its cluster.

``seen``          all that decides about a KubeadmConfig, as one value; what may be done, as a plan
``look``          makes that value from caches and the server
``decide``        makes a plan of it, and the status of what the plan reports (pure)
``act``           one pass: performs the plan
``wiring``        which changes give a KubeadmConfig a pass
``generation``    completes the spec and makes the data of it: ``documents`` are what kubeadm reads;
                  ``userdata`` has these, files and commands, and ``cloudinit`` or ``ignition`` writes it
                  (``containerlinux`` reads what users add to that)
``certificates``  which certificates a machine needs, and whether its cluster has them
``tokens``        bootstrap tokens; ``token_calls`` makes and refreshes them in the workload clusters
``lock``          the init lock: only the machine that holds it runs ``kubeadm init``
``world``         the world of this provider
"""
