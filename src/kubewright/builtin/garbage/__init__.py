"""Garbage collection: an object without owners goes, as owner references ask for.

Theory.      Every object of every kind is a node of one graph, known by its uid: who owns it, who
             depends on it, whether it is being deleted and how. The graph is kept by watches that
             ask for metadata only. A node is looked at when something may follow from it: its owner
             is unknown or gone, it waits for its dependents, or it wants to orphan them.
Never wrong. An owner is absent only if we were told that its uid ended, or asked the server and it
             was not there (another uid under its name counts as absence). A deletion carries uid and
             resourceVersion of the state that was judged: what was judged is what is deleted.
Frugal.      At rest there are only watches. An owner that is in the graph, or turns up within
             ``graph.SETTLE_SECONDS``, costs no request; a dependent of a dead owner costs its delete.
Map.         ``graph`` the nodes; ``feeds`` the watches, which follow CRDs; ``decide`` (pure) what to do
             with one node; ``collector`` look, decide, act.
Source       behaviour of kube-controller-manager's collector; finalizers ``foregroundDeletion`` and
             ``orphan`` are set by the API server.
"""
