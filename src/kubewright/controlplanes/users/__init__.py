"""Users of control planes: a kubeconfig for each, of their own name and groups, good for a short time.

Map.         ``decide``      what is made, and what the status says (pure)
             ``reconciler``  one pass, and which changes enqueue a user
Invariants.  A Secret that is not the object's own is never written. The group system:masters is given only to
             those whose object says that they are privileged.
Source       seed 003, S3-46 to S3-48; nested.md R-05; decision 0037.
"""
