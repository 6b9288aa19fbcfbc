"""MachineDeployment: bring all machines to the wanted template, and to the wanted number.

Life           finalizer -> adopt and release sets -> mark the autoscaler's victims -> roll back, if asked
               -> find or make the current set -> sizes (``rollout``) -> forget old sets -> status;
               once deleted: delete the sets -> drop the finalizer.
Theory.        A deployment decides sizes and nothing else; machines are made and deleted by the
               sets. It counts machines itself, from the cache, instead of trusting what the sets'
               status said some writes ago: a rollout goes as fast as machines do, and never
               beyond its bounds.
Map            observe.py     Seen: the deployment, its sets, their machines
               decide.py      the phases of a pass
               sets.py        new sets, names, hashes, revisions, what flows down to the current set
               template.py    when two templates are the same, and the hash of one
               victims.py     what the autoscaler wants to die
               status.py      counts and conditions
               progress.py    what is said about the rollout, and about which
               steps.py       the closed set of effects
               act.py         performs them
               doubts.py      what became of writes that nobody answered
               reconciler.py  one pass; who wakes a deployment
               settings.py    what an operator may set
Source         mcm.md §1.5, §7. Not yet: in-place updates (who asks for one is refused it, and nothing
               else), PreferNoSchedule taints and the autoscaler's annotations on the nodes of old sets.
"""
