"""MachineHealthChecks: which machines of a cluster are unhealthy, and whether their owners may replace them.

``seen``       what a pass sees, and the steps that it may take
``verdict``    the health of one machine
``decide``     how many may be replaced, and what is written; ``status`` says so
``look``, ``act``, ``reconciler``   reading, writing, and what wakes a check
"""
