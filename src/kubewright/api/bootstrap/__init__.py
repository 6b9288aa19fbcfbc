"""``bootstrap.cluster.x-k8s.io/v1beta1``: how a machine becomes a node, by kubeadm.

``v1beta1``   KubeadmConfig and KubeadmConfigTemplate, field for field (capi.md §2.7)
``names``     every string that other programs parse: formats, the init lock, tokens, paths on the machine
``defaults``  what an omitted field means
``validate``  the rules beyond the schema
``crds``      the two CustomResourceDefinitions; ``rbac`` the roles of the provider and of users
"""
