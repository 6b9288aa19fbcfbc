"""The controller of ControlPlaneUsers: a kubeconfig for each, with its own name and groups, and short-lived.

Theory.      A kubeconfig has a token of an account in the control plane that may only impersonate the user,
             or a client certificate. A token ends with the object, a certificate when it expires.
Map.         ``seen``       what is seen, what a user has in the control plane, and the steps (values)
             ``decide``     what is done, what the status says, and how a deletion ends (pure)
             ``kubeconfigs`` the text of a kubeconfig with a token
             ``connection`` reads and writes what is there, with the kubeconfig of the administrator
             ``wiring``     reads; one pass; and which changes enqueue a user
             ``restored``   the controller that deletes what a restore has brought back of deleted users
Invariants.  A Secret that the ControlPlaneUser does not control is never written. A name that begins with
             ``system:``, such as the group system:masters, is refused unless the object says ``privileged``.
"""
