"""``kubewright explain``: why an object is as it is, who decided that, and what comes next.

Theory.      Two sources tell it. The manager keeps the last plan of each key (``runtime.passes``): what it
             decided, since when, and when it looks again. And what users may read themselves is enough to run
             the same looks and decisions here, without acting (``alone``): so a foreign manager, or one that
             cannot be asked, leaves no question open. An answer says where it is from.
Files        ``subjects``  the kinds that can be explained, and how a user names one (pure)
             ``story``     what is told of one object, as a value; from conditions, passes and plans (pure)
             ``reading``   the objects, their events, and what the manager answers
             ``alone``     the decisions, made here from what the server shows
             ``page``      the story as text (pure)
             ``command``   the command
"""
