"""``kubewright up``; with ``--merge-kubeconfig`` it also puts a context into the user's own kubeconfig."""
