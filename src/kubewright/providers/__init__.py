"""Clouds: each package here is a driver behind an entry point, and imports no other.

``sim``   a cloud that is simulated in this process, with VMs that join as nodes
"""
