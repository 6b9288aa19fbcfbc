"""Emptying a node: ``plan`` decides about its pods (pure), ``run`` asks them to leave, ``obstacles`` says why
one stays."""
