"""Nested control planes on virtual time: the product's controllers, and a machine on which programs run.

Theory.      The programs are simulated, what they are given is real: certificates are verified, and a program
             whose certificates do not fit does not answer. The machine outlives every manager that is killed,
             as processes and pods do; what a manager asks it for is a crash point, as a write to a server is.
Map          machine.py    what runs: programs that start, serve, die and end, and their data
             programs.py   a workload: its programs, and the data of each ordinal
             etcd.py       the members of an etcd, as their list has them
             quorum.py     which of them answer each other, and what is on their disks
             health.py     whether a program would answer its clients: certificates and needs
             host.py       the machine as controllers see it (``hosting.contract``), with faults
             parts.py      the four objects, and what one sees of them
             copies.py     copies of the data of an etcd: how they are made, and put in place
             setup.py      adds all of it to a world
             acts.py       what users do, and how a control plane must look in the end
             stories.py    the table of stories
             resting.py    stories of sleep; ``scaling``: of sizes and versions; ``rotating``: of authorities;
                           ``backups``: of snapshots and restores
             pods.py       stories of workloads with Services
"""
