"""The kubeadm bootstrap provider: makes the data by which a machine becomes a node of its cluster.

``seen``          all that decides about one KubeadmConfig
``decide``        what to do about it, as a ladder; ``steps`` are its values, ``status`` its report
``generation``    the data: ``documents`` for kubeadm; ``userdata`` as ``cloudinit`` or ``ignition``
``certificates``  which certificates a machine needs, and whether its cluster has them
``tokens``        bootstrap tokens; ``keeper`` keeps them in the workload clusters, beside the workers
``lock``          by which one machine of a cluster, and only one, is the first
``look``, ``act``, ``reconciler``  read all that matters, perform what was decided; what wakes it
``world``         the world of this provider
"""
