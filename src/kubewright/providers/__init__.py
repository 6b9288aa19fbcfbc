"""Clouds: each package here is a driver behind an entry point, and imports no other.

``sim``   a cloud that is simulated in this process, with VMs that join as nodes
"""

CLOUD_FILE = "cloud.db"
"""The file of the simulated cloud in a data folder: ``compose`` looks for it where no cloud is loaded."""
