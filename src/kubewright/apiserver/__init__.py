"""The embedded Kubernetes API server.

``server``    ``ApiServer``: all of it in one object
``store``     versioned bytes on SQLite, history, watchers
``registry``  kinds and what can be done to their objects
``schema``    structural schemas: validation, pruning, defaults
``http``      requests and answers, discovery, OpenAPI, Tables, the listener
"""
