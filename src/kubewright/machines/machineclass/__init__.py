"""Classes and their secrets stay while machines need them.

Theory.      A VM can only be deleted with the class and the credentials it was made with. So a
             MachineClass carries our finalizer while machines refer to it, and a Secret carries
             one while a class does. Deleted too early, they wait in deletion until no machine needs them.
Invariants.  One write when the first user appears, none while there are others. A Secret is written again
             when its last class is gone; a class keeps its finalizer until it is deleted.
             A class that no driver accepts says so itself, in a condition and an event.
Files        ``reconciler``  the finalizers of classes and Secrets
             ``acceptance``  the conditions of a class
"""
