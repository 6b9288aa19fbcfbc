"""Whole clusters in the simulator: all providers are our own, and VMs boot from their data.

Map          setup.py      adds them to a simulated world, and lets managers reach their control planes
             resources.py  the kinds that stories and rules are about
             stories.py    the table of stories, and how one is run
             acts.py       what users do in all of them, and how a cluster must look in the end
             origins.py    a user's own boot data, a foreign control plane, two worlds beside each other
             rollouts.py   workers are scaled and rolled
             moves.py      a cluster is paused, moved, out of reach, or has another kubeconfig
             health.py     machines are unhealthy, and are replaced or not
             deletions.py  one machine is deleted
             rules.py      what must be true at every step, with ownership.py, bounds.py, deletion_order.py
                           and secrecy.py; facts.py is what they read
Called by    ``simulation.library``, and tests.
"""
