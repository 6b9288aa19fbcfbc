"""A deterministic simulation of the whole product, under every failure that we can think of.

Theory.      API server, cloud, kubelets and managers run in one event loop whose time is a number and
             whose order is drawn from a seed. Stories say what users do; a plot says which faults are
             injected; invariants say what must be true at every step; and every story runs again with the
             manager killed after each of its writes. docs/explanation/simulation.md shows how to add to each
             of them.

Where        ``loop``, ``clock``               time, order, chance; processes that can be killed
             ``network``, ``cloud``            connections between processes
             ``dialled``                       drivers in other processes, over streams that are cut
             ``journal``                       every change, at the moment it happens; the trace
             ``world``, ``api_servers``, ``managers``  the parts
             ``schedule``, ``incidents``       faults
             ``person``, ``stories``           what users do, and how it must end
             ``invariants``, ``picture``       what must be true at each step, and the same at the end
             ``staleness``                     how stale a manager may be
             ``tape``                          steps written by hand, for tables of invariants
             ``run``, ``log_capture``          one run and its outcome; how many requests it may send
             ``crashes``, ``search``           every crash point; seeds and shrinking
             ``campaign``, ``farm``            many worlds, on all cores; many machines in one
             ``report``, ``ends``              the table of outcomes; how a story must end
             ``goldens``                       stories as text
             ``toys``, ``apps``, ``clusterapi``, ``controlplanes``   other APIs than that of machines

``python -m simulation --help`` runs all of it.
"""
