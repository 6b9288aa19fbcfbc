"""Draining a node: ``plan`` decides about its pods (pure), ``run`` evicts and deletes them,
``obstacles`` says why one stays."""
