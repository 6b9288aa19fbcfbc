"""``kubewright explain``: why an object is as it is, who decided that, and what comes next.

Theory.      There are two sources. The manager keeps the last plan of each key (``runtime.passes``): what it
             decided, since when, and when it looks again. Where no manager of Kubewright can be asked (MCM
             decides, or the user may not ask), this command runs the same decisions itself on the objects
             that the user may read, and performs none of their steps (``dry_run``). Each answer says which of
             the two it is from.
Files        ``subjects``  the kinds that can be explained, and how a user names one (pure)
             ``story``     the answer about one object as a value, from conditions, passes and plans, and as
                           lines of text (pure)
             ``reading``   requests: the objects, their events, and the manager's records
             ``dry_run``   the controllers' decisions, run in this process on what the server shows
             ``command``   the command
"""
