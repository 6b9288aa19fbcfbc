"""Nested control planes on virtual time: the product's controllers, and a machine on which programs run.

Theory.      The programs are simulated, what they are given is real: certificates are verified, and a program
             whose certificates do not fit does not answer. The machine outlives every manager that is killed,
             as processes and pods do; what a manager asks it for is a crash point, as a write to a server is.
Map          machine.py    what runs: programs that start, serve, die and end, and their data
             health.py     whether a program would answer its clients: certificates and needs
             host.py       the machine as controllers see it (``hosting.contract``), with faults
             setup.py      adds all of it to a world
             acts.py       what users do, and how a control plane must look in the end
             stories.py    the table of stories
             rules.py      what must be true at every step
             order.py      in which order programs start and end: more rules
             facts.py      what rules know of what managers can know
"""
