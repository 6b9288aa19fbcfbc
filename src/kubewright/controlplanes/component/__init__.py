"""One component of a control plane: etcd, the API server or the controller manager. One reconciler for all.

Theory.      The three differ in what they need before they start, in what their templates are told and in
             what their status says further; that is a policy each. All else is one decision: what should run
             is rendered, compared with what runs, and one instance after another is replaced.
Map.         ``policies``    what differs between the three (pure)
             ``seen``        everything that a decision reads, as one frozen value
             ``workload``    what should run, from a spec and what is known (pure)
             ``obstacles``   what a component waits for, and what a user has to mend (pure)
             ``membership``  how many members of an etcd run now, and which change of them is next (pure)
             ``versions``    which version a component may have, and which one is first (pure)
             ``rollout``     which instance is replaced next (pure)
             ``decide``      what comes next (pure)
             ``status``      what the status says (pure)
             ``look``        reads all of it
             ``act``         performs a plan
             ``reconciler``  one pass; and which changes enqueue a component
Source       seed 003; nested.md A5, A9, A11.
"""
