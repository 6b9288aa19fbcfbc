"""How a simulated VM boots from its user data, as cloud-init and kubeadm would boot a real one.

``kubeadm``        what user data and its commands ask for: to start a control plane, or to join one (pure)
``tls_bootstrap``  the port to what runs control planes, which VM belongs to which cluster, and how a VM joins
                   an API server that is another process
``boots``          carries it out, for each VM that has such data, and runs the kubelets of such VMs
"""
