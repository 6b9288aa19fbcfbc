"""The composition root: the one package that knows all others, and connects them.

Theory.      Everything else takes what it needs as arguments. Here the arguments are made: clients
             and informers for the control and the target cluster, the driver by its entry point,
             the controllers that were asked for, and the manager that runs them all.
Both         ``options``    what a user may choose, checked; how the user called this program
             ``worlds``     the list of worlds, and which of their controllers run
             ``assembly``   the controllers of all worlds, in a group for each Lease
             ``own_planes``  the control planes that this process hosts beside a simulated cloud: made of
                            those below
``up``       ``embedded``   server, controllers and simulated cloud in one process; our Leases renewed
             ``folder``     the data folder: private, its address, seen from another process too, and its end
             ``api_servers``  an embedded API server for each control plane in this process
             ``task_hosting``  the host of components of version ``embedded``: tasks of this process
             ``nested_plane``  what runs of one of these control planes, as values
             ``kept_planes``  what outlives this process of them, in a file
             ``plane_controllers``  their controllers, as a task
             ``plane_transports``  requests of our controllers to these control planes, without sockets
``run``      ``on_kubernetes``  the controllers against real API servers
             ``preflight``  checks these servers before the controllers start
             ``webhooks``   serves the rules of admission to them
Called by    ``cli`` and ``testing``.
"""
