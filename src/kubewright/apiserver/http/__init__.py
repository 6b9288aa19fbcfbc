"""The server's outside: requests and answers as values (``wire.http``), sockets behind ``listener``.

``app``         one request in, one answer out: routing, failures, counting
``resources``   what the verbs of HTTP mean for resources
``paths``       URL paths taken apart          ``parameters``  queries and options taken apart
``bodies``      JSON and YAML read             ``answers``     objects, lists and Tables written
``watch``       the stream of a watch          ``status``      health, version, metrics
``listener``    the socket                     ``exchange``    HTTP to values and back
``authn``       users of requests              ``pki``         our authority (``certificates``)
``kubeconfig``  how clients find us
"""
