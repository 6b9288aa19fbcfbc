"""Deployments and ReplicaSets of ``apps/v1``: two policies of ``replicas``, with Pods for members.

``pods``         a Pod as a member: when it counts, when it is ready, which is deleted first
``replicasets``  the policy of ReplicaSets
``deployments``  the policy of Deployments

Source           kube-controller-manager: names, labels, annotations, conditions, reasons and sentences.
"""
