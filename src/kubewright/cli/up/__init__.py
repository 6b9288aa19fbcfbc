"""``kubewright up``: ``words`` are its switches, quick to import; ``command`` does the work.

``merging`` puts a context into the user's own kubeconfig, ``kubeconfig_text`` changes its text.
"""
