"""The embedded Kubernetes API server: what is where, and the journey of a request.

``server``         ``ApiServer``: all of it in one object; its initial objects, and what it deletes on its own
``http``           requests and answers as values; sockets, discovery, OpenAPI, connections to kubelets
``authorization``  who may do what, decided from roles; pure
``registry``       kinds, and what can be done to their objects
``fields``         who manages which fields; pure          ``schema``  validation, pruning, defaults
``cel``            the language of the rules in definitions
``store``          versioned bytes: in memory for reading, in SQLite for keeping

The journey of a POST:
1. ``http.listener`` has the connection (``http.connections`` its place and its time), reads head and body,
   asks ``http.authn`` for the user, and makes a ``Request`` value of it.
2. ``http.app`` reads the path (``http.requests``), asks ``registry.policies`` and ``authorization.policy``
   whether the user may, and finds the kind in the catalog (``registry.kind``).
3. ``http.resources`` chooses the verb, and has body and options decoded (``http.requests``).
4. ``registry.writing`` takes the steps of the verb. Those of ``registry.strategy`` are pure: normalized by
   the ``schema``, metadata, limits, lifecycle. ``registry.field_managers`` says who manages what, and
   ``registry.admission`` what depends on other objects. An object of another version than the stored one is
   converted (``registry.versions``); ``cel.rules`` judges it when the schema has.
5. ``store.store`` stages the write, commits the batch to ``store.log`` and shows it; ``store.watchers``
   wakes the watchers.
6. ``http.answers`` makes of the stored bytes (``registry.kind``) what the client takes.
A GET takes 1 to 3, then ``registry.reading`` in the place of 4 and 5. A watch is a stream of
``http.resources``.
"""
