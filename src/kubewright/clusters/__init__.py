"""``cluster.x-k8s.io``: clusters and their machines; providers make what they consist of.

``external``   an object of a provider, read by the paths of its contract, and claimed for its owner
``cluster``    one Cluster: its infrastructure, control plane and kubeconfig, and the end of all that it has
"""
