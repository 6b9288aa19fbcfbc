"""The planner of rollouts: which sizes a deployment's sets get next.

Theory.      A *fleet* (deployment) has *groups* (sets); a group has *members* (machines) of one template.
             A planner looks at the fleet and returns ``Sizes`` for its groups, each with a
             reason. It holds no client, no clock and no API object, and it serves MCM, Cluster API
             and apps/v1: what differs between these APIs is a value that is passed in.
Map          model.py         Fleet, Group, Bounds, Sizes and its intents
             planner.py       the entry point and the strategies: rolling, recreating, in place, on deletion
             proportional.py  scaling a fleet that has several active groups
             revisions.py     which group is current, numbers, history, rollback, which to prune
             progress.py      complete, progressing or timed out
Invariants.  Everything here is a pure function over frozen values; only ``kubewright.base`` may be
             imported. Times are seconds since the epoch, as floats.
Called by    replicas.deployment, and the policies for their rankings and strategies.
"""
