"""Deployments: bring all members to the wanted template, and to the wanted number, in whatever API.

Life           finalizer -> adopt and disown sets -> the policy's own deciders -> find or create the current
               set -> sizes (``rollout``) -> prune old sets -> status; once deleted: delete the sets ->
               remove the finalizer.
Theory.        A deployment decides sizes and nothing else; members are created and deleted by the
               sets. It counts members itself, from the cache, instead of trusting the sets' status,
               which is some writes old: a rollout goes as fast as members do, and never
               beyond its bounds.
Map            seen.py     Seen: the deployment, its sets, their members; the closed set of steps;
                           DeploymentPolicy: what differs between the APIs
               look.py     makes a Seen, from caches
               decide.py   the deciders of a pass; how new and propagated sets look
               status.py   counts and conditions: Available, and Progressing, the report on the rollout
               act.py      the pass: performs the steps; what enqueues a deployment
"""
