"""``kubewright up``: ``command`` does the work, ``merging`` puts a context into the user's own kubeconfig."""
