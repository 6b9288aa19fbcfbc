"""The controller of ControlPlaneUsers: a kubeconfig for each, with its own name and groups, and short-lived.

Map.         ``decide``     what is made, and what the status says (pure)
             ``reconciler`` reads; one pass; and which changes enqueue a user
Invariants.  A Secret that the ControlPlaneUser does not control is never written. A name that begins with
             ``system:``, such as the group system:masters, is refused unless the object says ``privileged``.
Source       seed 003, S3-46 to S3-48; nested.md R-05; decision 0037.
"""
