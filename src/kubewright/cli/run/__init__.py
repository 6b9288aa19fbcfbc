"""``kubewright run``: ``words`` are its switches, quick to import; ``command`` does the work."""
