"""Sessions with workload clusters: clusters that come and go while the program runs.

``session``   what a controller gets: a client, its caches, where to look both up, and who is told of begin
              and end
``registry``  all clusters: which are wanted, with which credentials; each connects, lists, probes, connects
              again
``lending``   the same sessions for each term of leadership, with clients that write in that term alone

A lookup never waits: it answers with a session whose caches are synced, or with the reason why there is none.
A cluster that hangs costs one task and, for two seconds of each attempt, one of ``limits.CONNECTS`` slots.
"""
