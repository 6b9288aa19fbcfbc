"""The ground floor: standard library only, nothing that knows Kubernetes.

``clock``      time and randomness as a port; Go's durations as text; since when something is seen
``errors``     the root of our errors; each says how it wants to be retried
``names``      stable hashes and the random-looking suffixes of object names
``locks``      a file that one process holds while it lives
``limits``     every bound of the system in one table
``delays``     every pause of a controller in one table
"""
