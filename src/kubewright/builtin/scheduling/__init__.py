"""The scheduler of the embedded server: gives each Pod that has no node the best one.

``facts``       the facts about a Pod and a Node that matter (pure)
``decide``      which node, or why there is none, and which Pods of lower priorities make room then (pure)
``reconciler``  keeps who is where and whose turn it is, binds, preempts, writes conditions and events

A kube-scheduler has some thirty filters. Here are those that matter on a cluster of hollow kubelets: health,
cordons, taints, node selectors and affinities, room for requests and for Pods.
"""
