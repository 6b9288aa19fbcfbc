"""``kubewright driver``: what an author of a driver needs besides the contract.

Files        ``app``         the group; a command is one line there
             ``new``         `driver new`: a project that works at once
             ``blueprint/``  the files of that project, with places for its names
"""
