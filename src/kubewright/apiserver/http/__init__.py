"""The HTTP API of the server: requests and answers as values (``wire.http``), sockets behind ``listener``.

``app``         one request in, one answer out: routing, failures, counting
``resources``   what the verbs of HTTP mean for resources
``paths``       parses URL paths               ``parameters``  parses queries and options
``bodies``      decodes requests               ``answers``     encodes objects, lists and Tables
``watch``       the stream of a watch          ``status``      health, version, metrics
``listener``    the socket                     ``exchange``    HTTP to values and back
``authn``       users of requests              ``pki``         the CA (``certificates``)
``kubeconfig``  the file by which clients connect
``connections`` how many there may be, and how long each may take
``kubelets``    logs, streams, proxies  ``usage``       metrics.k8s.io
"""
