"""One control plane: it takes over the components that it names, and says of them all how it is.

Theory.      The components do the work; this controller makes them one thing. It becomes their controlling
             owner, so that they find each other; what they report becomes what the control plane reports,
             in the words of Cluster API's contract; and on deletion it ends them in order.
Map.         ``seen``        everything that a decision reads, as one frozen value
             ``decide``      what comes next (pure)
             ``status``      what the status says (pure)
             ``act``         performs a plan
             ``reconciler``  looks; one pass; and which changes enqueue a control plane
Source       seed 003; nested.md A4, A5, A9 to A11; S3-12 to S3-14, S3-30.
"""
