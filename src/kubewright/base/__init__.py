"""The ground floor: standard library only, nothing that knows Kubernetes.

``clock``      time and randomness as a port
``errors``     the root of our errors; each says how it wants to be retried
``durations``  Go duration strings, read and written; ages as kubectl shows them
``names``      stable hashes and the random-looking suffixes of object names
``locks``      a file that one process holds while it lives
``limits``     every bound of the system in one table
``delays``     every pause of a controller in one table
"""
