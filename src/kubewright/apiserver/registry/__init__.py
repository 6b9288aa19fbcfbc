"""Kinds, and what can be done to their objects.

``kind``       what the server knows about a kind; the catalog of all of them
``builtin``    the built-in kinds                     ``custom``   those of CRDs
``reading``    get, list, watch                       ``writing``  create, update, patch, delete
``intake``, ``edits``, ``metadata``, ``lifecycle``  the pure steps of a write
``serving``    CRDs to served kinds                   ``admission``  checks that need other objects
"""
