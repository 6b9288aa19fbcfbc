"""The scheduler of the embedded server: gives each Pod that has no node the best one.

``facts``       the facts about a Pod and a Node that matter
``decide``      which node, or why there is none
``preemption``  which Pods of lower priorities make room where there is none
``rooms``       who is where, to whom room was promised, and whose turn it is
``reconciler``  keeps the facts, binds, preempts, and writes conditions and events

A kube-scheduler has some thirty filters. Here are those that matter on a cluster of hollow kubelets: health,
cordons, taints, node selectors and affinities, room for requests and for Pods.
"""
