"""A deterministic simulation of the whole product, under every failure that we can think of.

Theory.      API server, cloud, kubelets and managers run in one event loop whose time is a number and
             whose order is drawn from a seed. Stories say what users do; a plot says which faults are
             injected; rules say what must be true of every entry in the journal; and every story runs again
             with the manager killed after each of its writes. Machines, clusters and nested control planes
             are realms of one language. docs/explanation/simulation.md shows how to add to each of them.

Where        ``loop``                          time, order, chance; processes that can be killed
             ``network``, ``cloud``            servers, and connections between processes
             ``dialled``                       drivers in other processes, over streams that are cut
             ``journal``, ``requests``         every write, at the moment it happens; the trace
             ``world``, ``managers``           the parts
             ``schedule``, ``incidents``       faults
             ``person``, ``story``, ``library``  what users do, how it must end, and in which realm
             ``rules``, ``picture``            what must be true at each moment, and the same at the end
             ``staleness``                     how stale a manager may be
             ``tape``                          entries written by hand, for tables of rules
             ``run``                           one run and its outcome; how many requests it may send
             ``crashes``, ``search``           every crash point; seeds and shrinking
             ``campaign``, ``farm``            many worlds, on all cores; many machines in one
             ``report``, ``ends``              the table of outcomes; how a story must end
             ``goldens``                       stories as text
             ``toys``, ``apps``, ``clusterapi``, ``controlplanes``   other realms than that of machines

``python -m simulation --help`` runs all of it.
"""
