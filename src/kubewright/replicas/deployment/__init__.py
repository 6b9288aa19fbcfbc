"""Deployments: bring all members to the wanted template, and to the wanted number, in whatever API.

Life           finalizer -> adopt and disown sets -> the policy's own deciders -> find or create the current
               set -> sizes (``rollout``) -> prune old sets -> status; once deleted: delete the sets ->
               remove the finalizer.
Theory.        A deployment decides sizes and nothing else; members are created and deleted by the
               sets. It counts members itself, from the cache, instead of trusting the sets' status,
               which is some writes old: a rollout goes as fast as members do, and never
               beyond its bounds.
Map            policy.py      DeploymentPolicy: all that differs between the APIs
               seen.py        Seen: the deployment, its sets, their members
               look.py        makes it, from caches
               decide.py      the deciders of a pass
               sets.py        new sets, hashes, revisions, what is propagated to the current set
               status.py      counts and conditions
               progress.py    the condition Progressing: which rollout it is about, and how that goes
               steps.py       the closed set of effects
               act.py         performs them
               reconciler.py  one pass; what enqueues a deployment
"""
