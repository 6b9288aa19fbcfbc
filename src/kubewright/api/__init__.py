"""API kinds as Python values.

``kinds``     one kind as our code reads and writes it: bytes to Struct and back
``meta``      what every object shares: metadata, owners, selectors, conditions
``core``      the fields of Kubernetes' own kinds that we read or write
``machine``   ``machine.sapcloud.io/v1alpha1``: the four kinds, their strings, defaults and rules
``cluster``   ``cluster.x-k8s.io/v1beta1``: the kinds of Cluster API, and its strings
``bootstrap`` ``bootstrap.cluster.x-k8s.io/v1beta1``: how machines become nodes, by kubeadm
``infra``     ``infrastructure.cluster.x-k8s.io/v1beta1``: what stands behind them, made by drivers
``webhooks``  admission over HTTPS: reviews, and the configurations that tell an API server of us
``faults``    what is wrong with an object, in kube-apiserver's words
``diff``      what changed between two values, as a merge patch
``crd``       a Struct type to its CustomResourceDefinition

Everything here is pure. Objects are read as a whole and never written back as a whole: a field that a
Struct does not know is skipped when reading and survives on the server, because we send patches only.
"""
