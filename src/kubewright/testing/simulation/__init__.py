"""A deterministic simulation of the whole product, under every failure that we can think of.

Theory.      API server, cloud, kubelets and managers run in one event loop whose time is a number and
             whose order is a seed. Stories say what people do; a plot says what goes wrong; invariants
             say what must be true at every step; and every story is told again with the manager killed
             after each of its writes. docs/explanation/simulation.md shows how to add to each of them.

Where        ``loop``, ``clock``               time, order, chance; processes that can be killed
             ``network``, ``cloud``, ``yesterday``   the ways between processes
             ``journal``                       what happens, the moment it happens; the trace
             ``world``, ``fate``, ``schedule``  the parts, and what befalls them
             ``person``, ``stories``           what people do, and how it must end
             ``invariants``, ``picture``       what must be true, and what must be the same
             ``run``, ``ears``                 one run and what came of it
             ``crashes``, ``search``           every crash point; seeds and shrinking
             ``goldens``, ``scale``, ``report``   stories in words; many machines; the table

``python -m kubewright.testing.simulation --help`` runs all of it.
"""
