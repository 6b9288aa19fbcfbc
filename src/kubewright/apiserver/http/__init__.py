"""The HTTP API of the server: requests and answers as values (``wire.http``), sockets behind ``listener``.

``app``         one request in, one answer out: authorization, routing, failures, health, counting
``requests``    reads paths, queries, options, bodies    ``answers``  encodes objects, lists and Tables
``resources``   the verbs, and the stream of a watch
``subresources``  scale, eviction, binding, tokens, reviews
``listener``    the socket, and HTTP to values and back
``connections`` how many there may be, and how long each may take
``authn``       users of requests, impersonation         ``pki``      the CA, and files that hold secrets
``reach``       where the server listens, and its names
``kubeconfig``  the file by which clients connect: written, and changed in the text
``discovery``, ``openapi``   what is served, and what it looks like
``kubelets``    logs, streams, proxies; ``usage``      metrics.k8s.io, from the summaries of kubelets
``kubelet_requests``  which kubelet, and what of it; pure  ``dialing``  the connections to kubelets
"""
