"""Garbage collection: an object whose owners are gone is deleted.

Theory.      Every object of every kind is a node of one graph, known by its uid: who owns it, who
             depends on it, whether it is being deleted and how. The graph is kept by watches that
             ask for metadata only. A node is reconciled when there may be something to do: its owner
             is unknown or gone, it waits for its dependents, or it is to orphan them.
Never wrong. An owner is absent only if a watch has shown its deletion, or the server was asked and does
             not have it (another uid under its name counts as absence). A deletion carries the uid
             and resourceVersion that the decision was made on.
Frugal.      At rest there are only watches. An owner that is in the graph, or turns up within
             ``graph.SETTLE_SECONDS``, costs no request; a dependent of a deleted owner costs one delete.
Map.         ``graph`` the nodes, and what to do with one (no I/O); ``collector`` the watches, which follow
             CRDs; look, decide, act.
Source       behaviour of kube-controller-manager's collector; finalizers ``foregroundDeletion`` and
             ``orphan`` are set by the API server.
"""
