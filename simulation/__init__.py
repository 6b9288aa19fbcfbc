"""A deterministic simulation of the whole product, under every failure that we can think of.

Theory.      API server, cloud, kubelets and managers run in one event loop whose time is a number and
             whose order is drawn from a seed. Stories say what users do; a plot says which faults are
             injected; invariants say what must be true at every step; and every story runs again with the
             manager killed after each of its writes. docs/explanation/simulation.md shows how to add to each
             of them.

Where        ``loop``, ``clock``               time, order, chance; processes that can be killed
             ``network``, ``cloud``, ``stale_lists``   connections between processes
             ``dialled``                       drivers in other processes, over streams that are cut
             ``journal``                       every change, at the moment it happens; the trace
             ``world``, ``api_servers``, ``managers``  the parts
             ``schedule``, ``injector``, ``incidents``, ``outages``   faults
             ``person``, ``stories``           what users do, and how it must end
             ``invariants``, ``picture``       what must be true at each step, and the same at the end
             ``staleness``, ``work``           how stale a manager may be; how many requests it may send
             ``tape``                          steps written by hand, for tables of invariants
             ``run``, ``log_capture``          one run and its outcome
             ``crashes``, ``search``           every crash point; seeds and shrinking
             ``campaign``, ``farm``            many worlds, on all cores
             ``report``, ``progress``          the table of outcomes; how far a campaign is
             ``goldens``, ``scale``            stories as text; many machines
             ``toys``, ``apps``, ``clusterapi``, ``controlplanes``   other APIs than that of machines

``python -m simulation --help`` runs all of it.
"""
