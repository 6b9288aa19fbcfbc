"""The client side of Kubernetes: requests, watches, caches.

Reading order
    transport   the door: two methods. ``inprocess`` and ``sockets`` stand behind it
    client      typed verbs on one API server; ``retries``, ``health`` and ``patches`` decide for it
    reflector   the watch loop as a state machine, pure; ``feed`` does what it says
    cache       what may stand there and why; on ``store``, which holds objects as bytes
    informer    one kind kept current in memory; ``informers`` shares and starts them
    config      kubeconfigs, service accounts and kubeconfig Secrets; ``access`` reads, ``login`` fetches

Nothing here knows what a machine is, and nothing imports the server: the two meet in ``wire.http``.
"""
