"""The client side of Kubernetes: requests, watches, caches.

Reading order
    transport   the interface: two methods, implemented by ``inprocess`` and ``sockets``
    client      typed verbs on one API server; ``retries``, ``health`` and ``patches`` decide for it
    reflector   the watch loop as a state machine, pure; ``feed`` does what it says
    cache       which objects are kept and why; on ``store``, which holds them as bytes
    informer    one kind kept current in memory; ``informers`` shares and starts them
    discovery   which kinds a server serves; ``metadata`` asks for the metadata of objects only
    config      kubeconfigs, service accounts and kubeconfig Secrets; ``access`` reads, ``login`` fetches

Nothing here knows what a machine is, and nothing imports the server: the two meet in ``wire.http``.
"""
