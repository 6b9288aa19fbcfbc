"""References to objects of kinds that are known only at run time, such as a provider's.

``reference``  what is asked for and answered: a reference, the object, or the reason why it is not there
``kinds``      what is known of each kind: the version to use, its informer, its owners, who waits for what
``registry``   all kinds: the lookup, and the wake-ups of owners

A lookup never waits. Each kind is watched once for all owners, from the first lookup until the last owner
that ever looked one up is gone; a kind that is installed later is found then, and the watch of one that is
removed ends.
"""
