"""Marks on the nodes of a deployment that rolls out: for the scheduler, and for cluster-autoscaler.

Theory.      While a rollout replaces old machines by new ones, the scheduler should prefer the nodes that
             stay, and cluster-autoscaler should remove no node: it would undo what the rollout does, or
             remove a new node that is still empty. A controller of its own (``rolloutnodes``) writes these
             marks, so that sets are still scaled while the target cluster does not answer. With InPlaceUpdate
             it also leads the machines through their update: it is the only controller that sees both the
             nodes and the deployment.
Files        ``seen``        the deployment, which nodes carry which marks, and the closed set of steps
             ``decide``      which nodes get or lose which mark, and which are updated in place next (pure)
             ``act``         the pass: looks at nodes, writes; and which changes enqueue a deployment
             The statements of MCM: docs/reference/mcm-parity.md; decisions 0047, 0053.
"""
