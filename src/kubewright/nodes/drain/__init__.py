"""Draining a node.

``policy``     how the node is to be drained: time, force, which pods are left alone
``plan``       which pods to evict or delete now
``obstacles``  why the server refused an eviction, and whether waiting helps
``session``    evicts and deletes, and remembers refusals between passes; all others are pure
"""
