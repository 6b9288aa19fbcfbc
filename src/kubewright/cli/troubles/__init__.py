"""``kubewright status -n NAMESPACE``: everything in a namespace that is not as it should be, on one screen.

Theory.      Each object has a story (``cli.explain.story``). Those that wait for something are troubles;
             objects of one kind that wait for the same are one line. Warnings of the last hour about other
             objects are below.
Files        ``decide``   which stories are troubles, and which warnings are shown (pure)
             ``page``     both as text (pure)
             ``command``  reads, and prints
"""
