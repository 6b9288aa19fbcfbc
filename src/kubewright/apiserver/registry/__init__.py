"""Kinds, and what can be done to their objects.

``kind``       what the server knows about a kind; the catalog of all of them
``builtin``    the kinds that are always there        ``custom``   those from definitions
``reading``    get, list, watch                       ``writing``  create, update, patch, delete
``intake``, ``edits``, ``metadata``, ``lifecycle``  the pure steps of a write
``serving``    definitions at work                    ``admission``  what depends on other objects
"""
