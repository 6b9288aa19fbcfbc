"""Replicas: sets that keep a number of members, and deployments that replace them, in whatever API.

Theory.      What a set and a deployment do is the same in machine.sapcloud.io, Cluster API and apps/v1: a set
             wants as many members as its spec says and creates and deletes them; a deployment wants a
             template rolled out and sizes sets. What differs is passed in as one policy per level: kinds,
             what a member is and when it is ready, how one is created, which are deleted first, what is
             written where and in which words. No code here asks which API it is.
Map          objects.py   the fields that sets have in every API; selectors, owners, adopting and disowning;
                          what is known of one member, and the names of new ones, from their number
             members.py   the index of members: the facts about each, by owner
             writes.py    many requests at once, within bounds; writes without an answer
             set/         the controller of sets
             deployment/  the controller of deployments
Invariants.  A member is never created twice, and a name never given twice. No decision works on a view
             from before this process's last write. No context is imported here.
Called by    ``machines``, and every context that has sets and deployments of its own.
"""
