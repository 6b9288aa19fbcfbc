"""The composition root: the one place that knows everybody.

Theory.      Everything else takes what it needs as arguments. Here the arguments are made: clients
             and informers for the control and the target cluster, the driver by its entry point,
             the controllers that were asked for, and the manager that runs them all.
Files        ``options``    what a person may choose, checked
             ``selection``  which controllers run: names, ``*`` and ``-name`` (pure)
             ``kit``        clients and options -> controllers at work
             ``halves``     which controllers work under which Lease
             ``embedded``   ``up``: server, controllers and simulated cloud in one process
             ``folder``     the data folder: private, and whether it is still there
             ``address``    the port that stays with the data
             ``standing``   a data folder seen from outside, and how its server is ended
             ``cluster``    ``run``: the controllers against real API servers
             ``preflight``  one look at the clusters before anything begins
             ``program``    what this program was called as
Called by    ``cli`` and ``testing``.
"""
