"""MachineHealthChecks: which machines of a cluster are unhealthy, and whether their owners may replace them.

``seen``       what a pass sees, and the steps that it may take
``decide``     the health of each machine, how many may be replaced, what is written, and what the status says
``look``, ``act``, ``wiring``   reading, writing, and what wakes a check
"""
