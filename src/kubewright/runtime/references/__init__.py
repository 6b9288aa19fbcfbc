"""References to objects of kinds that are known only at run time, such as a provider's.

``reference``    what is asked for and answered: a reference, the object, or the reason why it is not there
``definitions``  which CRDs the server has, and which version of each is to be used: a few bytes for each
``kinds``        one kind that references name: its informer, its owners, who waits for which object
``registry``     all of them: the lookup, and the wake-ups of owners

A lookup never waits. Each kind is watched once for all owners, from the first lookup until the last owner
that ever looked one up is gone; a kind that is installed later is found then, and the watch of one that is
removed ends.
"""
