"""How a simulated VM boots from its user data, as cloud-init and kubeadm would boot a real one.

``userdata``       cloud-config or Ignition: the files that are written, and the commands that run
``kubeadm``        what those commands ask of kubeadm: to start a control plane, or to join one
``control_planes`` the port to what runs control planes; the simulated cloud has none of its own
``boots``          carries it out, for each VM that has such data
``tls_bootstrap``  how a VM joins an API server that is another process: a certificate for its kubelet
``own_kubelets``   the kubelets of such VMs, each with its own certificate and watches
``membership``     which VM belongs to which cluster: its kubelet works there
"""
