"""``kubewright status -n NAMESPACE``: everything in a namespace that is not as it should be, on one screen.

Theory.      ``cli.explain.story`` says of each object what it waits for. Objects of one kind, namespace and
             state that wait for the same are one *trouble*, and one line. Below them are the Warning events
             of the last hour about other objects. (``kubewright status`` of a data folder is
             ``cli.serving``.)
Files        ``decide``   which stories are troubles, and which warnings are shown (pure)
             ``command``  reads, makes lines of both, and prints them
"""
