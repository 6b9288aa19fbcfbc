"""``bootstrap.cluster.x-k8s.io/v1beta1``: how a machine becomes a node, by kubeadm.

``v1beta1``   KubeadmConfig and KubeadmConfigTemplate, field for field
``names``     every string that other programs parse: formats, the init lock, tokens, paths on the machine
``tokens``    bootstrap tokens: their Secrets, and how they age
``validate``  what an omitted field means; the rules beyond the schema
``manifests`` the two CustomResourceDefinitions, and the roles of the provider and of users
"""
