"""The scheduler of the embedded server: gives each Pod that has no node the best one.

``facts``       what of a Pod and of a Node counts
``decide``      which node, or why none
``reconciler``  keeps the facts, binds, and says what happened

A kube-scheduler has some thirty rules. Here are those that decide on a cluster of hollow kubelets: health,
cordons, taints, node selectors and affinities, room for requests and for Pods. Nothing is preempted.
"""
