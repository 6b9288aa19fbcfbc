"""The runtime: what turns changes of objects into reconciliations, and runs them in a process.

Tour, in the order of use:

``result``      what a reconciler may answer: done, or the next pass in so many seconds
``queue``       the work queue: one place per key, in order, with delays and backoff
``controller``  workers that take keys and call a reconciler; the whole retry policy in one match
``kernel``      one pass over one object: the skeleton of every reconciler
``reports``     writes statuses, not too often; ``pace``: how often (pure)
``mapping``     from a change of one object to the keys that are enqueued
``passes``      the last pass of each key, for users who ask; ``records``: what is kept of one, as a value
``refused``     what a reconciler does about a write that is refused; ``in_use``: keeps what others need
``writer``      writes finalizers, status and other parts of objects
``calls``       calls that take long, beside the workers: one for each key
``sessions``    clients and caches of workload clusters that come and go, looked up by key
``references``  objects of kinds known only at run time, looked up by reference; watched while they are used
``credentials`` Secrets with certificates and kubeconfigs of a cluster, which several worlds make and read
``manager``     starts informers, waits for them, runs the controllers, shuts down in time
``leader``      election on a Lease, so that of several replicas one works; ``lease``: its pure part
``candidates``  election on several Leases at once; ``shard``: the objects that one of several processes has
``world``       the controllers of one API as a value: what the program's list of worlds consists of
``group``       controllers that begin and end together, under a Lease of their own
``events``      core/v1 Events, never in the way of a pass; ``event_rules``: which are worth writing (pure)
``webhooks``    the HTTPS server of admission webhooks, and the keeper of its certificates
``metrics``     numbers for Prometheus; ``object_metrics``: those about the objects in a cache
``health``      the endpoints that show them; ``log``: the log

No reconciler is here, and no policy of an API. Workload clusters and provider kinds are here, since several
worlds need them.
"""
