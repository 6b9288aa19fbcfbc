"""``kubewright rollout``: what ``kubectl rollout`` does for Deployments, for both kinds of MachineDeployment.

Map          ``app``      the commands and their arguments
             ``apis``     the two kinds, and how a user names one of their objects
             ``decide``   what to write, and what to say (pure)
             ``command``  reads, writes, waits and prints
Called by    ``cli.app``.
"""
