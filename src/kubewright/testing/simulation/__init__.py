"""A deterministic simulation of the whole product, under every failure that we can think of.

Theory.      API server, cloud, kubelets and managers run in one event loop whose time is a number and
             whose order is a seed. Stories say what people do; a plot says what goes wrong; invariants
             say what must be true at every step; and every story is told again with the manager killed
             after each of its writes. docs/explanation/simulation.md shows how to add to each of them.

Where        ``loop``, ``clock``               time, order, chance; processes that can be killed
             ``network``, ``cloud``, ``yesterday``   the ways between processes
             ``journal``                       what happens, the moment it happens; the trace
             ``world``, ``clusters``, ``managers``  the parts
             ``schedule``, ``weather``, ``fate``, ``outages``   what befalls them
             ``person``, ``stories``           what people do, and how it must end
             ``invariants``, ``picture``       what must be true, and what must be the same
             ``news``, ``work``                how old a manager's world may be; how much it may ask
             ``tape``                          a world told step by step, for tables of invariants
             ``run``, ``ears``                 one run and what came of it
             ``crashes``, ``search``           every crash point; seeds and shrinking
             ``campaign``, ``farm``            very many worlds, on all cores
             ``report``, ``progress``          what came of them, and how far they are
             ``goldens``, ``scale``            stories in words; many machines

``python -m kubewright.testing.simulation --help`` runs all of it.
"""
