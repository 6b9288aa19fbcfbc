"""Draining a node.

``policy``     how the node is to be drained: time, force, which pods are left alone
``plan``       which pods to evict or delete now
``volumes``    which volumes the next pod with volumes waits for
``obstacles``  why the server refused an eviction, and whether waiting helps; ``budgets`` which of them refuse
``tries``      what is under way, and what was refused
``session``    evicts and deletes, and remembers refusals between passes
``removals``   the requests of all drains, beside the workers
"""
