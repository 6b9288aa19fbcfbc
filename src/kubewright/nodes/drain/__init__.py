"""Draining a node.

``policy``     how the node is to be drained: time, force, which pods are left alone
``decide``     which pods to evict or delete now; ``plan`` is the answer as a value
``volumes``    which volumes the next pod with volumes waits for
``obstacles``  why the server refused an eviction, and whether waiting helps; ``budgets`` which of them refuse
``tries``      what is under way, and what failed
``session``    evicts and deletes, and remembers between passes what failed
``removals``   the requests of all drains, beside the workers
"""
