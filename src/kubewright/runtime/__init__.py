"""The runtime: what turns changes of objects into reconciliations, and runs them in a process.

Tour, in the order of use:

``result``      what a reconciliation may answer: done, or look again in so many seconds
``queue``       the work queue: one place per key, in order, with delays and backoff
``controller``  workers that take keys and call a reconciler; the whole retry policy in one match
``mapping``     from a change of one object to the keys that must look again
``refused``     what a reconciler does about a write that is refused; ``in_use``: keeps what others need
``sessions``    clients and caches of workload clusters that come and go, looked up by key
``references``  objects of kinds known only at run time, looked up by reference; watched while they are used
``manager``     starts informers, waits for them, runs the controllers, shuts down in time
``leader``      election on a Lease, so that of several replicas one works; ``lease``: its pure part
``world``       the controllers of one API as a value: what the program's list of worlds consists of
``group``       controllers that begin and end together, under a Lease of their own
``events``      core/v1 Events: deduplicated, rate limited, never in the way of a reconciliation
``webhooks``    the HTTPS server of admission webhooks, and the keeper of its certificates
``metrics``     numbers for Prometheus; ``health`` the endpoints that show them; ``log`` the log

Nothing here knows machines or clusters; everything here could be published alone.
"""
