"""Draining a node.

``policy``    how the node is to be drained: time, force, which pods are left alone
``volumes``   which volumes pods have left behind, and which the next pod with volumes waits for
``plan``      why pods stay, what was asked of them, and what a pass does now, as values
``decide``    which pods to evict or delete now
``budgets``   the PodDisruptionBudgets behind refusals, listed once for all drains
``session``   lists, evicts and deletes, and remembers between passes what failed
``removals``  the requests of all drains, beside the workers
"""
