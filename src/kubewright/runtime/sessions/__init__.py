"""Sessions with workload clusters: clusters that come and go while the program runs.

``session``     what a controller gets: a client, its caches, and where to look both up
``connection``  one cluster: connect, list, probe, connect again
``slots``       how many clusters connect at one time, and which is next
``registry``    all clusters: which are wanted, with which credentials
``listeners``   who is told when a session begins and ends
``lending``     the same sessions for each term of leadership, with clients that write in that term alone

A lookup never waits: it answers with a session whose caches are synced, or with the reason why there is none.
A cluster that hangs costs one task and, for two seconds of each attempt, one of ``limits.CONNECTS`` slots.
"""
