"""One Cluster: its infrastructure, its control plane and its kubeconfig, and their deletion.

``seen``        what a pass sees, and the steps that it may take
``decide``      the plan of a Cluster; ``deletion`` that of one that is being deleted
``kubeconfig``  when the kubeconfig is made anew; ``signing`` makes it
``status``      what its status says; ``conditions`` and ``provided`` are parts of that
``look``, ``act``, ``reconciler``   reading, writing, and what wakes a Cluster
"""
