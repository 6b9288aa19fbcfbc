"""One Cluster: its infrastructure, its control plane and its kubeconfig, and their deletion.

``seen``        what a pass sees, and the steps that it may take
``decide``      the plan of a Cluster, and of one that is being deleted
``status``      what its status says
``look``, ``act``, ``wiring``   reading, writing, and what wakes a Cluster
"""
