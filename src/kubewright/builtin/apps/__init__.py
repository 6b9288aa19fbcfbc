"""Deployments and ReplicaSets of ``apps/v1``: two policies of ``replicas``, with Pods for members.

``replicasets``  the policy of ReplicaSets; a Pod as a member: when it counts, which is deleted first
``deployments``  the policy of Deployments

Source           kube-controller-manager: names, labels, annotations, conditions, reasons and sentences.
"""
