"""Draining a node: a ``policy`` says what is asked of it, ``plan`` decides about the pods (both pure), a
``session`` remembers refusals between passes and evicts or deletes, ``obstacles`` says why a pod stays."""
