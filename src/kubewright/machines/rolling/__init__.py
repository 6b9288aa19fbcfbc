"""Marks on the nodes of a deployment that rolls out: for the scheduler, and for cluster-autoscaler.

Theory.      While old machines give way to new ones, the scheduler should prefer the nodes that stay, and
             cluster-autoscaler should take none away: it would undo what the rollout does, or remove a
             new node that is still empty. A controller of its own writes these marks, so that a target
             cluster that does not answer holds up no scaling.
Map          decide.py      which nodes are marked, and which sets say so, as a pure function
             reconciler.py  looks, performs, and what enqueues a deployment
Source       mcm.md §2.2, §2.4, §7.4, §7.6; decision 0047.
"""
