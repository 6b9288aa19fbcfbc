"""``kubewright run``: ``switches`` are its switches, quick to import; ``command`` does the work."""
