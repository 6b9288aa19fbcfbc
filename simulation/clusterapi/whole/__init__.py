"""Whole clusters in the simulator: all providers are our own, and VMs boot from their data.

Map          setup.py      adds them to a simulated world, and lets managers reach their control planes
             stories.py    the table of stories
             acts.py       what users do in all of them, and how a cluster must look in the end
             origins.py    a user's own boot data, another's control plane, two worlds beside each other
             rollouts.py   workers are scaled and rolled
             moves.py      a cluster is paused, moved, out of reach, or has another kubeconfig
             health.py     machines are unhealthy, and are replaced or not
             deletions.py  one machine is deleted
Called by    ``simulation.library``, and tests.
"""
