"""The client side of Kubernetes: requests, watches, caches.

Reading order
    transport   the door: two methods. ``inprocess``, ``official``, ``plain`` stand behind it
    client      typed verbs on one API server; ``retries`` and ``patches`` are its pure parts
    reflector   the watch loop as a state machine, pure; ``cache`` holds what it brings, as bytes
    informer    one kind kept current in memory; ``informers`` shares and starts them
    config      kubeconfigs, service accounts and kubeconfig Secrets
    leases      who holds a Lease, and when it may be taken

Nothing here knows what a machine is, and nothing imports the server: the two meet in ``wire.http``.
"""
