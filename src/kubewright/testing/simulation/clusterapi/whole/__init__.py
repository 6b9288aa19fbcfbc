"""Whole clusters in the simulator: all providers are our own, and VMs boot from their data.

Map          entry.py  how they enter a simulation, and how managers reach their control planes
             rules.py  what must be true of them at every step
Called by    tests.
"""
