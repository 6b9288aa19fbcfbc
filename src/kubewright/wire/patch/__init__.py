"""Patches: pure functions from a document and a patch to the patched document.

``merge``       RFC 7386; also what our own controllers send
``json_patch``  RFC 6902, applied by the ``jsonpatch`` library, refused in kube-apiserver's words
``strategic``   Kubernetes' own form for built-in kinds: lists merge by key
All share unchanged parts with the document they were given and never change it.
"""
