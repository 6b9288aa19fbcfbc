"""The client side of Kubernetes: requests, watches, caches.

Reading order
    transport   the interface: two methods; in process, to no cluster, behind a fence
    client      typed verbs on one API server; ``health`` decides for it, ``patches`` what a patch says
    reflector   the watch loop as a state machine, pure; ``feed`` does what it says
    cache       which objects are kept and why, held as bytes; ``header`` is what is read of them undecoded
    informer    one kind kept current in memory, in a ``scope``; all of a client shared and started
    discovery   which kinds a server serves; the metadata of objects only
    config      kubeconfigs, service accounts and kubeconfig Secrets; ``access`` reads, ``sockets`` connects
    errors      what a request raises

Nothing here knows what a machine is, and nothing imports the server: the two meet in ``wire.http``.
"""
