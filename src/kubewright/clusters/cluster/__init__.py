"""One Cluster: its infrastructure, its control plane and its kubeconfig, and their deletion.

``seen``        what a pass sees, and the steps that it may take
``decide``      the plan of a Cluster; ``deletion`` that of one that is being deleted
``kubeconfig``  makes the Secret with the kubeconfig
``status``      what its status says; ``conditions`` and ``provided`` are parts of that
``look``, ``act``, ``reconciler``   reading, writing, and what wakes a Cluster
"""
