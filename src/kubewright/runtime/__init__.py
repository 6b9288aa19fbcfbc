"""The runtime: what turns changes of objects into reconciliations, and runs them in a process.

Tour, in the order of use:

``result``      what a reconciler may answer: done, or the next pass in so many seconds
``queue``       the work queue: one place per key, in order, with delays and backoff
``controller``  from changes to keys, and workers that call a reconciler; the whole retry policy in one match
``kernel``      one pass over one object: the skeleton of every reconciler
``reports``     writes statuses, not too often; ``pace``: how often (pure)
``passes``      the last pass of each key, for users who ask; ``records``: what is kept of one, as a value
``in_use``      keeps what others need
``calls``       calls that take long, beside the workers: one for each key
``sessions``    clients and caches of workload clusters that come and go, looked up by key
``references``  objects of kinds known only at run time, looked up by reference; watched while they are used
``credentials`` Secrets with certificates and kubeconfigs of a cluster, which several worlds make and read
``manager``     runs groups of controllers under Leases: waits for caches, starts, shuts down in time
``leader``      election on Leases, so that of several replicas one works; ``lease``: pure; shards
``world``       the controllers of one API as a value: what the program's list of worlds consists of
``events``      core/v1 Events, never in the way of a pass
``webhooks``    the HTTPS server of admission webhooks, and the keeper of its certificates
``metrics``     numbers for Prometheus, also about the objects in caches
``health``      the endpoints that show them, on ``accepting``; ``log``: the log

No reconciler is here, and no policy of an API. Workload clusters and provider kinds are here, since several
worlds need them.
"""
