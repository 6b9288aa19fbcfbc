"""A set: keep as many members as it says, of the template that it has, in whatever API.

Life of a set  finalizer -> adopt and disown -> propagate settings -> create and delete members -> status;
               once deleted: delete all members -> remove the finalizer.
Theory.        What creates members must never create one twice. Three things ensure that. The cache shows
               our own writes at once, so a pass always sees what earlier ones did; therefore no
               expectations are kept. A member's name is a function of the set and of the members that were
               seen, so a controller that looks at the same objects, after a crash or from another process,
               meets ``AlreadyExists``. And a creation without an answer keeps its name, and holds up all
               others, until it is known whether it happened.
Map            seen.py     Seen: one set and its members; the closed set of steps; SetPolicy: what differs
                           between the APIs, and what every API's status says
               look.py     makes a Seen, from caches
               decide.py   which members to create, adopt, change and delete
               act.py      the pass: slow start, preconditions, doubt; and what enqueues a set
"""
