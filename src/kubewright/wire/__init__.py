"""Kubernetes on the wire: values in, values out, no I/O.

Both sides of the wire stand on this floor: ``kube`` (the client) and ``apiserver`` meet only
in the requests and answers of ``http`` and in the error bodies of ``errors``.
"""
