"""References to objects of kinds that are known only at run time, such as a provider's.

``reference``    what is asked for and answered: a reference, the object, or the reason why it is not there
``definitions``  which CRDs the server has, and which version of each is to be used: a few bytes for each
``kinds``        one kind that is in use: its informer, who uses it, who waits for which object
``registry``     all of them: the lookup, and the wake-ups of owners

A lookup never waits. Each kind is watched once for all that ask for it, from its first use to its last;
one that is installed later is found then, and one that is removed is dropped.
"""
